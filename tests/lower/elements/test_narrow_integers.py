"""Integers of 8 and 16 bits wrap around where the program computes in them, though C++ computes them as int."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.toolchain import build_cuda

TARGETS = ("sm_80", "sm_90a", "gfx942")


@tilegen.jit
def several(A, B, dtype: T.dtype = T.int8):
    N = T.const("N")
    A: T.Tensor((N,), dtype)
    B: T.Tensor((N,), dtype)
    X = T.empty((9, N), T.int32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        for i in T.Parallel(128):
            a = A[bx * 128 + i]
            b = B[bx * 128 + i]
            X[0, bx * 128 + i] = a * b
            X[1, bx * 128 + i] = (a * b) % 7
            X[2, bx * 128 + i] = (a - b) // 3
            X[3, bx * 128 + i] = T.if_then_else(a + b > b, 1, 0)
            X[4, bx * 128 + i] = T.min(a * a, b)
            X[5, bx * 128 + i] = (a + b) >> 2
            X[6, bx * 128 + i] = T.cast(T.cast(~a - 1, T.float32), T.int32)
            X[7, bx * 128 + i] = ((a + b) | 1) % 5
            X[8, bx * 128 + i] = T.if_then_else(a > b, a * b, a + b)
    return X


def _expected(a, b):
    seven, three, five = (a.dtype.type(number) for number in (7, 3, 5))
    one, two = a.dtype.type(1), a.dtype.type(2)
    return np.stack(
        [
            a * b, (a * b) % seven, (a - b) // three, a + b > b, np.minimum(a * a, b), (a + b) >> two, ~a - one,
            ((a + b) | one) % five, np.where(a > b, a * b, a + b),
        ]
    )  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32])
def test_they_wrap_around(dtype: type, target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    bounds = np.iinfo(dtype)
    reach = min(bounds.max, 40_000)  # products of int32 that fit: there is no wrapping to rely on
    rng = np.random.default_rng(1)
    a, b = (rng.integers(max(bounds.min, -reach), reach, 300, dtype=dtype, endpoint=True) for _ in range(2))
    found = several.emit(T.Tensor(a.shape, a.dtype.name), T.Tensor(b.shape, b.dtype.name), target=target)
    with np.errstate(over="ignore"):
        expected = _expected(a, b).astype(np.int32)
    np.testing.assert_array_equal(found.emulate(a, b), expected)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_quotients_of_what_functions_give(dtype: str, require_tool: Callable[[str], None]) -> None:
    """nvcc's min of two shorts is an int."""
    require_tool("nvcc")

    def quotients(A, B, dtype=None):
        N = T.const("N")
        A: T.Tensor((N,), dtype)
        B: T.Tensor((N,), dtype)
        X = T.empty((N,), T.int32)
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            for i in T.Parallel(128):
                a = A[bx * 128 + i]
                b = B[bx * 128 + i]
                X[bx * 128 + i] = (
                    T.min(a, b) % 7 + T.abs(a) // 3 + (a & b) % 5 + T.if_then_else(a > 0, a, b) % b
                )
        return X

    emission = tilegen.jit(quotients).emit(
        T.Tensor((512,), dtype), T.Tensor((512,), dtype), target="sm_80", dtype=dtype
    )
    build_cuda(emission.source, emission.target)


@pytest.mark.parametrize("target", TARGETS)
def test_literals_that_the_type_does_not_hold(target: str, require_tool: Callable[[str], None]) -> None:
    """They are no other number: 300 beside a byte is not 44, and 10**12 beside an index is not negative."""
    require_tool("host_compiler")

    @tilegen.jit
    def compared(A, far: int = 10**12):
        N = T.const("N")
        A: T.Tensor((N,), T.uint8)
        X = T.empty((4, N), T.int32)
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            for i in T.Parallel(128):
                a = A[bx * 128 + i]
                X[0, bx * 128 + i] = T.if_then_else(a < 300, 1, 0)
                X[1, bx * 128 + i] = a * 300
                X[2, bx * 128 + i] = T.if_then_else(i < far, 1, 0)
                X[3, bx * 128 + i] = T.max(a, 300) - (a > -1)
        return X

    a = np.arange(256, dtype=np.uint8)
    wide = a.astype(np.int32)
    found = compared.emit(T.Tensor(a.shape, T.uint8), target=target).emulate(a)
    expected = [np.ones_like(wide), wide * 300, np.ones_like(wide), np.full_like(wide, 299)]
    np.testing.assert_array_equal(found, np.stack(expected))


def test_what_stays_in_the_type_is_not_cast() -> None:
    def unpacked(P):
        N = T.const("N")
        P: T.Tensor((N,), T.uint8)
        X = T.empty((N,), T.float16)
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            for i in T.Parallel(128):
                X[bx * 128 + i] = T.cast((P[bx * 128 + i] >> (i % 2 * 4)) & 15, T.float16)
        return X

    text = tilegen.jit(unpacked).emit(T.Tensor((512,), T.uint8), target="sm_90a").source
    assert "u8(P" not in text and "u8((P" not in text
