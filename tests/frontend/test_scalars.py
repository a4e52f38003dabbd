"""Scalar functions and operators."""

# The operators are the subject here.
# ruff: noqa: SIM201

from __future__ import annotations

import math

from frontend_faults import fault
from test_generation_time import body

import tilegen.language as T
from tilegen.frontend import parse
from tilegen.ir.expressions import Call
from tilegen.ir.nodes import Store
from tilegen.language.scalars import CLASSIFICATIONS, FLOAT_FUNCTIONS, ROUNDINGS


def test_every_float_function() -> None:
    def functions(X):
        X: T.Tensor((64,), T.float16)
        with T.Kernel(1):
            for name in FLOAT_FUNCTIONS + ROUNDINGS:
                X[0] = getattr(T, name)(X[1])

    assert body(functions) == [f"X[0] = {name}(X[1])" for name in FLOAT_FUNCTIONS + ROUNDINGS]
    program = parse(functions)
    assert all(
        isinstance(s, Store) and isinstance(s.value, Call) and s.value.dtype == T.float16
        for s in program.kernel.body
    )


def test_functions_of_integers() -> None:
    def functions(X):
        X: T.Tensor((64,), T.int32)
        with T.Kernel(1):
            X[0] = T.sqrt(X[1])
            X[1] = T.floor(X[1])
            X[2] = T.abs(X[1]) + T.isnan(X[1])
            X[3] = T.fma(X[0], X[1], 2)
            X[4] = X[0] / X[1]
            X[5] = X[0] // X[1] % 4

    assert body(functions) == [
        "X[0] = int32(sqrt(float32(X[1])))",
        "X[1] = X[1]",
        "X[2] = abs(X[1])",
        "X[3] = X[0] * X[1] + 2",
        "X[4] = int32(float32(X[0]) / float32(X[1]))",
        "X[5] = X[0] // X[1] % 4",
    ]


def test_python_numbers_are_computed_at_once() -> None:
    def constants(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1):
            X[0] = T.exp2(3) + T.sqrt(16) + T.ceildiv(7, 2) + T.max(1, 2) + T.min(3.0, 4)
            X[1] = T.log(0.0)
            X[2] = -T.infinity(T.float32)
            X[3] = T.max_value(T.float16)
            X[4] = T.min_value("int8")
            X[5] = T.round(2.5) + T.trunc(-1.5) + T.clamp(9, 0, 4) + T.pow(2, 3)
            X[6] = T.float32(1) / 3
            X[7] = T.sigmoid(0.0) + T.shift_left(1, 4) + T.bitwise_not(0)

    assert body(constants) == [
        "X[0] = 21.0",
        "X[1] = -inf",
        "X[2] = -inf",
        "X[3] = 65504.0",
        "X[4] = -128.0",
        "X[5] = 13.0",
        f"X[6] = {1 / 3}",
        "X[7] = 15.5",
    ]
    assert math.isinf(T.infinity("float16"))


def test_operators_and_their_words() -> None:
    def operators(X, Y):
        X: T.Tensor((64,), T.int32)
        Y: T.Tensor((64,), T.float32)
        with T.Kernel(1) as bx:
            X[0] = (X[1] << 2 | X[2] >> 1) & ~X[3] ^ 7
            X[1] = T.bitwise_or(
                T.shift_left(X[1], 2), T.bitwise_and(X[2], T.bitwise_xor(X[3], T.bitwise_not(X[4])))
            )
            X[2] = T.shift_right(X[1], bx)
            Y[0] = Y[1] ** 2 + Y[1] ** 3 - Y[2] // 2
            Y[1] = -Y[1] if Y[1] < 0 and not Y[2] == 1 else +Y[1]
            Y[2] = T.if_then_else(bx > 0, Y[0], 0) + T.Select(Y[1], 1, 2)
            Y[3] = T.clamp(Y[0], min_val=0, max_val=1) + T.fma(Y[0], 2, Y[1]) + T.pow(Y[0], 0.5)
            Y[4] = T.isnan(Y[0]) or T.isinf(Y[0]) or not T.isfinite(Y[0])

    assert body(operators) == [
        "X[0] = (X[1] << 2 | X[2] >> 1) & ~X[3] ^ 7",
        "X[1] = X[1] << 2 | X[2] & (X[3] ^ ~X[4])",
        "X[2] = X[1] >> bx",
        "Y[0] = Y[1] * Y[1] + pow(Y[1], 3.0) - floor(Y[2] / 2.0)",
        "Y[1] = select(Y[1] < 0.0 and not Y[2] == 1.0, -Y[1], Y[1])",
        "Y[2] = select(bx > 0, Y[0], 0.0) + float32(select(Y[1] != 0.0, 1, 2))",
        "Y[3] = min(max(Y[0], 0.0), 1.0) + fma(Y[0], 2.0, Y[1]) + pow(Y[0], 0.5)",
        "Y[4] = float32(isnan(Y[0]) or isinf(Y[0]) or not isfinite(Y[0]))",
    ]


def test_casts() -> None:
    def casts(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1) as bx:
            X[0] = T.cast(X[1], T.float16) + X[1].astype("bfloat16")
            X[1] = T.Cast("int32", X[1]) + T.int8(bx)
            X[2] = T.reinterpret(X[2], T.int32) & 255
            X[3] = T.reinterpret("uint32", X[2]) >> 3
            X[4] = X[4].astype(X[5].dtype)
            X[5] = T.float8_e4m3fn(X[5])

    assert body(casts) == [
        "X[0] = float32(float16(X[1])) + float32(bfloat16(X[1]))",
        "X[1] = float32(int32(X[1]) + int32(int8(bx)))",
        "X[2] = float32(reinterpret(X[2], int32) & 255)",
        "X[3] = float32(reinterpret(X[2], uint32) >> 3)",
        "X[4] = X[4]",
        "X[5] = float32(float8_e4m3fn(X[5]))",
    ]


def test_mixed_sixteen_bit_floats_meet_in_float32() -> None:
    def mixed(X, Y):
        X: T.Tensor((64,), T.float16)
        Y: T.Tensor((64,), T.bfloat16)
        with T.Kernel(1):
            X[0] = X[0] * Y[0]
            X[1] = X[0] * 2

    assert body(mixed) == ["X[0] = float16(float32(X[0]) * float32(Y[0]))", "X[1] = X[0] * 2.0"]


def test_wrong_scalars() -> None:
    def width(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1):
            X[0] = T.reinterpret(X[1], T.int16)

    wrong = fault(width)
    assert (wrong.line, wrong.underlined) == ("X[0] = T.reinterpret(X[1], T.int16)", "X[1]")
    assert wrong.message == "cannot reinterpret float32 as int16: their widths differ"

    def infinite(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1):
            X[0] = T.infinity(T.float8_e4m3fn)

    wrong = fault(infinite)
    assert wrong.underlined == "T.float8_e4m3fn"
    assert wrong.message == "float8_e4m3fn has no infinity"
    assert wrong.remedy == "T.max_value(float8_e4m3fn) is its largest value"

    def division(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1) as bx:
            X[T.ceildiv(bx, 0)] = 0

    wrong = fault(division)
    assert (wrong.underlined, wrong.message) == ("0", "T.ceildiv divides by a positive integer, not 0")

    def halves(X, block: float = 2.0):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(T.ceildiv(64, block)) as bx:
            X[bx] = 0

    wrong = fault(halves)
    assert (wrong.underlined, wrong.message) == ("block", "T.ceildiv divides integers")

    def one(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1) as bx:
            X[0] = T.max(bx)

    assert fault(one).message == "T.max compares two or more values"

    def cast(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1) as bx:
            X[0] = bx.astype(T.float16, 3)

    assert fault(cast).message == "astype takes one dtype"

    def call(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1) as bx:
            X[0] = T.float16(bx, 3)

    assert fault(call).message == "T.float16 converts one value"


def test_classifications_of_python_numbers() -> None:
    assert [getattr(T, name)(math.inf) for name in CLASSIFICATIONS] == [False, True, False]
