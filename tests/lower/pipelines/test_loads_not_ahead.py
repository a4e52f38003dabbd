"""A pipelined loop whose loads cannot run ahead says so: num_stages is never dropped in silence."""

from __future__ import annotations

import pytest

import tilegen
import tilegen.language as T


@tilegen.jit
def shared_twice(A, B, D):
    M, N, K, L = T.const("M, N, K, L")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    D: T.Tensor((L, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 32), T.float16)
        B_shared = T.alloc_shared((32, 64), T.float16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[k * 32, bx * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        for k in T.Pipelined(T.ceildiv(L, 32), num_stages=3):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(D[k * 32, bx * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * 64, bx * 64])
    return C


@tilegen.jit
def filled_in_part(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 32), T.float16)
        B_shared = T.alloc_shared((32, 64), T.float16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[k * 32, bx * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * 64, bx * 64])
    return C


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a", "gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize(
    "program, words", [(shared_twice, "written by more than one"), (filled_in_part, "convert")]
)
def test_the_header_says_what_does_not_run_ahead(program, words, target):
    dims = dict.fromkeys("MNKL" if program is shared_twice else "MNK", 256)
    header = program.emit(target=target, dims=dims).source.split("#include")[0]
    assert words in header.replace("\n//           ", "")
