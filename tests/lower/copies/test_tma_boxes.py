"""What TMA loads bring at once, and where their tiles lie: small column groups come in one box, tiles that would not
begin at whole units of shared memory are loaded otherwise."""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulation import emulated, generated, kernel_text, relative_error

import tilegen.language as T


def product(A, B, rows=8, depth=256, columns=64, stages=3, threads=128):
    """C = B A^T in tiles of few rows of A."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((N, M), T.float32)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((rows, depth), T.float16)
        B_shared = T.alloc_shared((columns, depth), T.float16)
        C_local = T.alloc_fragment((columns, rows), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=stages):
            T.copy(A[by * rows, k * depth], A_shared)
            T.copy(B[bx * columns, k * depth], B_shared)
            T.gemm(B_shared, A_shared, C_local, transpose_B=True)
        T.copy(C_local, C[bx * columns, by * rows])
    return C


def scaled(X, S, block=32, stages=2, threads=128):
    """Y = X * S[n], S by rows of 64 bytes."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    S: T.Tensor((M, N), T.float16)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        X_shared = T.alloc_shared((64, block), T.float16)
        S_shared = T.alloc_shared((1, block), T.float16)
        x = T.alloc_fragment((64, block), T.float16)
        s = T.alloc_fragment((1, block), T.float16)
        for k in T.Pipelined(T.ceildiv(M, 64), num_stages=stages):
            T.copy(S[k, bx * block], S_shared)
            T.copy(X[k * 64, bx * block], X_shared)
            T.copy(X_shared, x)
            T.copy(S_shared, s)
            for i, j in T.Parallel(64, block):
                x[i, j] *= s[0, j]
            T.copy(x, Y[k * 64, bx * block])
    return Y


def _operands(m: int, n: int, k: int) -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (n, k))]


@pytest.mark.parametrize("asynchronous", ["eager", "lazy", "random"])
@pytest.mark.parametrize("m", [1, 8, 21])
def test_small_groups_come_at_once(m: int, asynchronous: str, require_tool: Any) -> None:
    require_tool("host_compiler")
    a, b = _operands(m, 100, 640)
    text = kernel_text(generated(product, "sm_90a", [a, b]))
    assert "tma_load_3d(shared.A_shared[ring.stage], A, 0, by * kRows, k * kDepth / kSwizzleColumns" in text
    assert "tma_load_2d(shared.B_shared[ring.stage][group], B, " in text, "boxes of 8 KB"
    (found,) = emulated(product, "sm_90a", [a, b], {"asynchronous": asynchronous, "schedule": "random"})
    assert relative_error(found, b.astype(np.float64) @ a.astype(np.float64).T) < 1e-3


def test_rows_that_are_no_whole_groups_come_group_by_group(require_tool: Any) -> None:
    require_tool("host_compiler")
    a, b = _operands(5, 64, 648)
    assert "tma_load_3d" not in generated(product, "sm_90a", [a, b]).source
    (found,) = emulated(product, "sm_90a", [a, b], {"asynchronous": "lazy"})
    assert relative_error(found, b.astype(np.float64) @ a.astype(np.float64).T) < 1e-3


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("block", [16, 32, 64])
def test_tiles_lie_where_tma_may_write(block: int, stages: int, require_tool: Any) -> None:
    """A row of 64 elements is 128 bytes, what boxes begin at; shorter stages have room behind them."""
    require_tool("host_compiler")
    rng = np.random.default_rng(2)
    x, s = (rng.standard_normal((192, 128)).astype(np.float16) for _ in range(2))
    files = generated(scaled, "sm_90a", [x, s], block=block, stages=stages)
    assert files.plan.kind == "warp_specialised"
    assert ("TMA fills the front of a stage" in files.source) == (block < 64 and stages > 1)
    (found,) = emulated(scaled, "sm_90a", [x, s], {"asynchronous": "lazy"}, block=block, stages=stages)
    expected = x * np.repeat(s[:3], 64, 0)
    assert relative_error(found, expected.astype(np.float64)) < 1e-3
