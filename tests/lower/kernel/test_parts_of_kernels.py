"""The titles of a kernel's parts stand where these begin, whatever role runs what the program says next."""

# mypy: ignore-errors

from __future__ import annotations

import re

import pytest
from emulation import kernel_text

import tilegen
import tilegen.language as T


@tilegen.jit
def product(A, B, R, block: int = 64, block_K: int = 32, begins: str = "load"):
    """Behind the loop a tile is loaded, a fragment filled, or elements are computed first."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    R: T.Tensor((M, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block), T.float16)
        R_shared = T.alloc_shared((block, block), T.float16)
        C_local = T.alloc_fragment((block, block), T.float32)
        shift = T.alloc_fragment((block,), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        if begins == "fill":
            T.fill(shift, 1)
        if begins != "elements":
            T.copy(R[by * block, bx * block], R_shared)
        else:
            T.clear(R_shared)
        for i, j in T.Parallel(block, block):
            C_local[i, j] += R_shared[i, j]
            if begins == "fill":
                C_local[i, j] += shift[i]
        T.copy(C_local, C[by * block, bx * block])
    return C


@pytest.mark.parametrize("begins", ["load", "fill", "elements"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950"])
def test_the_epilogue_has_its_title_behind_the_loop(target, begins):
    text = kernel_text(product.emit(target=target, begins=begins))
    assert text.count("// Main loop\n") == text.count("// Epilogue\n") == 1
    loop, behind = text[text.index("// Main loop\n") :].split("// Epilogue\n")
    head = loop.index("for (int k = 0")
    assert not re.search(r"\bR_shared|\bR_shared_full", loop[head:])
    assert "C_local[i, j] += " in behind
