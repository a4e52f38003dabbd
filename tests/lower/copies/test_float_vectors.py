"""fp32 moves in vectors of floats: accumulators whose bits are read as words keep ptxas from running the wgmma of a
loop beside each other (C7511, C7514), which nothing in the results shows."""

# mypy: ignore-errors

from __future__ import annotations

import re

import pytest

import tilegen
import tilegen.language as T
from tilegen.target import load_target, target_names
from tilegen.toolchain import compile_cuda

CUDA = [name for name in target_names() if load_target(name).language == "cuda"]


@tilegen.jit
def product(A, B, block: int = 128, block_K: int = 32, threads: int = 128, store=None):
    """fp32 leaves the registers as it is."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block), T.float16)
        C_local = T.alloc_fragment((block, block), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block, bx * block], eviction_policy=store)
    return C


@tilegen.jit
def shared_k(A, B, splits: int = 4, block_M: int = 64, block_N: int = 128, block_K: int = 64):
    """Parts of sums leave the registers and come back."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=128, persistent=True) as (
        bx,
        by,
        bz,
    ):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K * splits), num_stages=4):
            T.copy(A[by * block_M, (k * splits + bz) * block_K], A_shared)
            T.copy(B[(k * splits + bz) * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.sum_blocks(C_local, axis=bz)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


PROGRAMS = {
    "stored": (product, {"dims": {"N": 4096}}),
    "hinted": (product, {"dims": {"N": 4096}, "store": "evict_first"}),
    "left": (shared_k, {}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_wgmma_of_a_loop_run_beside_each_other(name, require_tool):
    require_tool("nvcc")
    program, options = PROGRAMS[name]
    emission = program.emit(target="sm_90a", **options)
    assert "::fma(C_local" in emission.source and "SM90_" in emission.source
    built = compile_cuda(emission.source, emission.target, "nvcc")
    assert "serialized" not in built.log and built.spills == 0


@pytest.mark.parametrize("target", CUDA)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_float_is_moved_as_a_word(name, target):
    program, options = PROGRAMS[name]
    text = program.emit(target=target, **options).source
    assert re.search(r"reinterpret_cast<(const )?float[24]\*>\(&(C|C_local|partial)\[", text)
    assert not re.search(r"reinterpret_cast<(const )?u(int[24]|32)\*>\(&(C_local|partial)[\[_]", text)
