"""Small tile programs in both styles, whose emitted text compiles quickly."""

import tilegen
import tilegen.language as T


@tilegen.jit
def scaled(A, factor: T.float32, block: int = 64):
    M = T.const("M")
    A: T.Tensor((M,), T.float32)
    B = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, block), threads=64) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * factor
    return B


def both(A, B, block: int = 64):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B: T.Tensor((M, N), T.float32)
    S = T.empty((M, N), T.float32)
    D = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), M, threads=64) as (bx, by):
        for i in T.Parallel(block):
            S[by, bx * block + i] = A[by, bx * block + i] + B[by, bx * block + i]
        for i in T.Parallel(block):
            D[by, bx * block + i] = A[by, bx * block + i] - B[by, bx * block + i]
    return D, S


sum_and_difference = tilegen.jit(both)
open_rows = tilegen.jit(dynamic=("M",))(both)


@tilegen.jit
def increment(A, block: int = 64):
    M = T.const("M")
    A: T.Tensor((M,), T.float32)
    with T.Kernel(T.ceildiv(M, block), threads=64) as bx:
        for i in T.Parallel(block):
            A[bx * block + i] = A[bx * block + i] + 1.0


def lazy_add(N, block_N=64, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), threads=64) as bx:
            for i in T.Parallel(block_N):
                C[bx * block_N + i] = A[bx * block_N + i] + B[bx * block_N + i]

    return main


lazy_factory = tilegen.jit(out_idx=[-1])(lazy_add)


@tilegen.jit
def matmul_relu(
    A, B, block_M: int = 128, block_N: int = 128, block_K: int = 32, num_stages: int = 3, threads: int = 128
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        for i, j in T.Parallel(block_M, block_N):
            C_local[i, j] = T.max(C_local[i, j], 0)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C
