"""Tiles of 8-bit numbers that become operands of a product, whatever their rows begin at."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilegen
import tilegen.language as T


@tilegen.jit
def product(A, B, block: int = 64, block_K: int = 32, dtype: T.dtype = T.int8):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        bytes_of_A = T.alloc_shared((block, block_K), dtype)
        A_shared = T.alloc_shared((block, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block), T.float16)
        C_local = T.alloc_fragment((block, block), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block, k * block_K], bytes_of_A)
            T.copy(B[k * block_K, bx * block], B_shared)
            T.copy(bytes_of_A, A_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block, bx * block])
    return C


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("depth", [96, 66, 65])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_products(dtype: type, depth: int, target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(1)
    a = rng.integers(0, 9, (70, depth)).astype(dtype)
    b = rng.integers(-9, 9, (depth, 65)).astype(np.float16)
    emission = product.emit(T.Tensor(a.shape, a.dtype.name), T.Tensor(b.shape, "float16"), target=target)
    result = emission.emulate(a, b, schedule="random", asynchronous="lazy", seed=1)
    np.testing.assert_array_equal(result, a.astype(np.float32) @ b.astype(np.float32))
