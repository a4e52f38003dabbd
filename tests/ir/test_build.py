"""Constructors of expressions: folding, neutral elements, dtypes."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilegen.ir import build
from tilegen.ir.expressions import Binary, BinaryOp, Cast, Const, Expr, Load, Var
from tilegen.ir.nodes import Buffer
from tilegen.ir.types import (
    DType,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

n = Var("n", int32)
f = Var("f", float32)
h = Var("h", float16)


@pytest.mark.parametrize(
    "expr, expected",
    [
        (build.add(n, 0), n),
        (build.add(0, n), n),
        (build.mul(n, 1), n),
        (build.mul(0, n), build.const(0)),
        (build.sub(n, n), build.const(0)),
        (build.floordiv(n, 1), n),
        (build.binary("%", n, 1), build.const(0)),
        (build.add(build.add(n, 2), 3), build.add(n, 5)),
        (build.add(build.sub(n, 2), 2), n),
        (build.binary("max", n, n), n),
        (build.binary("and", build.binary("<", n, 1), True), build.binary("<", n, 1)),
        (build.binary("or", build.binary("<", n, 1), True), build.const(True)),
        (build.floordiv(-7, 2), build.const(-4)),
        (build.binary("/", 1.0, 0.0), build.const(math.inf)),
        (build.mul(f, 1.0), f),
        (build.select(build.const(True), f, 1), f),
        (build.cast(build.const(300), uint8), Const(44, uint8)),
        (build.cast(build.const(-1), uint32), Const(2**32 - 1, uint32)),
        (build.cast(build.const(200), int8), Const(-56, int8)),
        (build.cast(build.const(2.75), int32), Const(2, int32)),
        (build.invert(build.const(0)), build.const(-1)),
        (build.logical_not(build.const(False)), build.const(True)),
        (build.negate(build.const(2.0)), build.const(-2.0)),
    ],
)
def test_folding(expr: Expr, expected: Expr) -> None:
    assert expr == expected


def test_zero_times_a_float_is_kept() -> None:
    assert build.mul(f, 0.0) != build.const(0.0)  # f may be inf or nan
    assert build.add(f, 0.0) != f  # f may be -0


@pytest.mark.parametrize(
    "left, right, dtype",
    [
        (h, build.const(2), float16),
        (n, build.const(2.0), float32),
        (h, Var("b", bfloat16), float32),
        (h, f, float32),
        (n, Var("l", int64), int64),
        (n, Var("u", uint32), uint32),
        (h, n, float16),
        (Var("p", bool_), n, int32),
        (Var("c", uint8), build.const(255), uint8),
        (Var("c", uint8), build.const(300), int32),
        (Var("c", int8), build.const(-129), int32),
        (n, build.const(2**31 - 1), int32),
        (n, build.const(2**31), int64),
        (Var("u", uint32), build.const(2**31), uint32),
    ],
)
def test_common_dtypes(left: Expr, right: Expr, dtype: object) -> None:
    assert build.add(left, right).dtype == dtype
    assert build.add(right, left).dtype == dtype


def test_masks_adapt_by_their_bits() -> None:
    for op in ("&", "|", "^"):
        assert build.binary(op, n, 0xF0F0F0F0).dtype == int32
        assert build.binary(op, Var("c", int8), 0x80).dtype == int8
        assert build.binary(op, Var("c", uint8), -16).dtype == uint8
        assert build.binary(op, Var("c", uint8), 0x100).dtype == int32


def test_casts_that_cannot_fold() -> None:
    assert isinstance(build.cast(build.const(math.inf), int32), Cast)
    assert isinstance(build.cast(build.const(0.3), float8_e4m3fn), Cast)
    with pytest.raises(ValueError, match="cannot reinterpret float32 as float16: their widths differ"):
        build.bitcast(f, float16)


def test_ceildiv_keeps_the_divisors_name() -> None:
    named = Const(128, int32, name="block")
    kept = build.ceildiv(n, named)
    assert kept == build.floordiv(build.sub(build.add(n, build.const(128)), 1), 128) or "block" in repr(kept)
    assert build.ceildiv(build.const(1000), named) == build.const(8)


@pytest.mark.parametrize(
    "one", [Const(1, int32, name="rows"), Const(1, int32, parts=("*", n, n)), Const(1, int32)]
)
def test_nothing_is_left_of_a_division_by_one(one: Const) -> None:
    assert build.ceildiv(n, one) == n and build.ceildiv(Binary("*", n, n, int32), one) == Binary(
        "*", n, n, int32
    )


def test_ceildiv_keeps_the_names_that_its_divisor_is_worked_out_from() -> None:
    rows = Const(16, int32, name="rows")
    kept = build.ceildiv(n, Const(64, int32, parts=("*", Const(4, int32), rows)))
    assert repr(kept).count("'rows'") == 2  # raised by the divisor, not by 63
    plain = Const(64, int32, parts=("*", Const(4, int32), Const(16, int32)))
    assert build.ceildiv(n, plain) == build.floordiv(build.add(n, 63), 64)


def test_division_by_zero() -> None:
    with pytest.raises(ZeroDivisionError):
        build.floordiv(build.const(1), 0)


def test_an_element_has_its_buffers_dtype() -> None:
    buffer = Buffer("b", (build.const(4),), float16, "shared")
    assert Load(buffer, (n,)).dtype == float16
    assert buffer.extents == (4,)
    with pytest.raises(TypeError, match="b has a dynamic extent"):
        _ = Buffer("b", (n,), float16, "global").extents


_WRAPPING = (uint8, int8, uint16, int16, uint32, uint64)


@given(
    dtype=st.sampled_from(_WRAPPING),
    op=st.sampled_from(["+", "-", "*", "<<", "&", "|", "^", "min", "max"]),
    data=st.data(),
)
def test_folded_integers_wrap_as_the_kernels_do(dtype: DType, op: BinaryOp, data: Any) -> None:
    signed = dtype.kind == "int"
    bounds = (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1) if signed else (0, 2**dtype.bits - 1)
    a = data.draw(st.integers(*bounds))
    b = data.draw(st.integers(0, dtype.bits - 1) if op == "<<" else st.integers(*bounds))
    folded = build.binary(op, build.const(a, dtype), build.const(b, dtype))
    exact = {
        "+": a + b, "-": a - b, "*": a * b, "<<": a << b if op == "<<" else 0, "&": a & b, "|": a | b, "^": a ^ b,
        "min": min(a, b), "max": max(a, b),
    }[op]  # fmt: skip
    expected = numpy.array(exact % 2**dtype.bits, dtype=f"uint{dtype.bits}").view(dtype.name)
    assert isinstance(folded, Const)
    assert folded.value == int(expected)
    negated = build.negate(build.const(a, dtype))
    assert isinstance(negated, Const)
    assert negated.value == int(numpy.array(-a % 2**dtype.bits, dtype=f"uint{dtype.bits}").view(dtype.name))
