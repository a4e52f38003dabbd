"""Tiles that begin before their tensor does, or whose place is clamped: what lies outside reads as 0."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import emulated, generated, relative_error

import tilegen.language as T
from tilegen.frontend.parse import parse
from tilegen.schedule.ranges import integer_ranges

PLACES = {
    "rows before": lambda y, k, m, n: (64 * y - 5, 64 * k),
    "columns before": lambda y, k, m, n: (64 * y, 64 * k - 8),
    "columns before, no multiple of 16 bytes": lambda y, k, m, n: (64 * y, 64 * k - 3),
    "clamped": lambda y, k, m, n: (T.clamp(64 * y - 9, 0, m - 64), T.min(64 * k, n - 64)),
}


def product(place):
    def program(X, W):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float16)
        W: T.Tensor((N, 64), T.float16)
        Y = T.empty((M, 64), T.float32)
        with T.Kernel(T.ceildiv(M, 64), threads=128) as y:
            X_shared = T.alloc_shared((64, 64), T.float16)
            W_shared = T.alloc_shared((64, 64), T.float16)
            total = T.alloc_fragment((64, 64), T.float32)
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(N, 64), num_stages=2):
                if place == "rows before":
                    T.copy(X[64 * y - 5, 64 * k], X_shared)
                elif place == "columns before":
                    T.copy(X[64 * y, 64 * k - 8], X_shared)
                elif place == "clamped":
                    T.copy(X[T.clamp(64 * y - 9, 0, M - 64), T.min(64 * k, N - 64)], X_shared)
                else:
                    T.copy(X[64 * y, 64 * k - 3], X_shared)
                T.copy(W[64 * k, 0], W_shared)
                T.gemm(X_shared, W_shared, total)
            T.copy(total, Y[64 * y, 0])
        return Y

    return program


def _tile(x, row, column):
    """The 64 x 64 elements from there on, zeros outside of x."""
    padded = np.zeros((x.shape[0] + 192, x.shape[1] + 192))
    padded[64 : 64 + x.shape[0], 64 : 64 + x.shape[1]] = x
    return padded[64 + row : 128 + row, 64 + column : 128 + column]


@pytest.mark.parametrize("columns", [200, 196])  # rows of whole 16 bytes and of others
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_what_lies_outside_is_zero(
    target: str, place: str, columns: int, require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(columns)
    x, w = (rng.standard_normal(shape).astype(np.float16) for shape in ((152, columns), (columns, 64)))
    rows = -(-columns // 64) * 64
    whole = np.zeros((rows, 64))
    whole[:columns] = w
    expected = np.zeros((192, 64))
    for y in range(3):
        for k in range(rows // 64):
            at = PLACES[place](y, k, 152, columns)
            expected[64 * y : 64 * y + 64] += _tile(x, *at) @ whole[64 * k : 64 * k + 64]
    options = {"schedule": "reverse", "asynchronous": "lazy"}
    (found,) = emulated(product(place), target, [x, w], options)
    assert relative_error(found, expected[:152]) < 1e-3


def backwards(A, B, cluster: int = 1, dimension: int = 1):
    """Blocks walk the rows from the last pair of tiles to the first."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    dims = (1, cluster) if dimension else (cluster, 1)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128, cluster_dims=dims) as (x, y):
        row = (M // 128 - 1 - y // 2) * 2 + y % 2
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[row * 64, k * 64], a)
            T.copy(B[k * 64, x * 64], b)
            T.gemm(a, b, c)
        T.copy(c, C[row * 64, x * 64])
    return C


@pytest.mark.parametrize(("cluster", "dimension"), [(1, 1), (2, 1), (4, 1), (2, 0)])
def test_walks_from_the_end_are_known_to_stay_inside(
    cluster: int, dimension: int, require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    arrays = [np.random.default_rng(n).integers(-3, 4, (256, 256)).astype(np.float16) for n in (1, 2)]
    files = generated(backwards, "sm_90a", arrays, cluster=cluster, dimension=dimension)
    assert "tma_store" in files.source and "may begin before" not in files.source
    (found,) = emulated(
        backwards, "sm_90a", arrays, {"schedule": "random"}, cluster=cluster, dimension=dimension
    )
    assert np.array_equal(found, (arrays[0].astype(np.float64) @ arrays[1]).astype(np.float16))


@pytest.mark.parametrize(("rows", "last"), [(192, 3), (256, 3), (320, 5)])
def test_a_cluster_may_reach_beyond_the_grid_up_to_its_end(rows: int, last: int) -> None:
    specs = {"A": T.Tensor((rows, 128), T.float16), "B": T.Tensor((128, 192), T.float16)}
    ranges = integer_ranges(parse(backwards, specs, {"cluster": 2}))
    assert (ranges["x"], ranges["y"]) == ((0, 2), (0, last))
