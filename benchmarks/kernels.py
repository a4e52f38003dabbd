"""The tile programs that the benchmarks run, through tilegen's public interface alone."""

# mypy: ignore-errors

from __future__ import annotations

import tilegen
import tilegen.language as T


@tilegen.jit
def matmul_relu(
    A, B, block_M: int = 128, block_N: int = 128, block_K: int = 32, num_stages: int = 3, threads: int = 128
):
    """The quick start, as the README has it."""
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


@tilegen.jit
def matmul(
    A,
    B,
    dtype: str = "float16",
    out_dtype: str = "float16",
    transpose_A: bool = False,
    transpose_B: bool = False,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 3,
    threads: int = 128,
    persistent=None,
    cluster_dims=(1, 1),
    panel: int = 8,
    order: str = "row",
    policy=T.GemmWarpPolicy.Square,
    split_K: int = 1,
):
    """C = op(A) · op(B); a transposed operand is stored (K, M) or (N, K). `split_K` blocks share the k of a tile."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M) if transpose_A else (M, K), dtype)
    B: T.Tensor((N, K) if transpose_B else (K, N), dtype)
    C = T.empty((M, N), out_dtype)
    shares = (split_K,) if split_K > 1 else ()
    steps = T.ceildiv(T.ceildiv(K, block_K), split_K)
    with T.Kernel(
        T.ceildiv(N, block_N),
        T.ceildiv(M, block_M),
        *shares,
        threads=threads,
        persistent=persistent,
        cluster_dims=cluster_dims,
    ) as blocks:
        bx, by = blocks[0], blocks[1]
        first = blocks[2] * steps if shares else 0
        A_shared = T.alloc_shared((block_K, block_M) if transpose_A else (block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_N, block_K) if transpose_B else (block_K, block_N), dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.use_swizzle(panel, order=order)
        T.clear(C_local)
        for k in T.Pipelined(steps, num_stages=num_stages):
            at = (first + k) * block_K
            if transpose_A:
                T.copy(A[at, by * block_M], A_shared)
            else:
                T.copy(A[by * block_M, at], A_shared)
            if transpose_B:
                T.copy(B[bx * block_N, at], B_shared)
            else:
                T.copy(B[at, bx * block_N], B_shared)
            T.gemm(
                A_shared, B_shared, C_local, transpose_A=transpose_A, transpose_B=transpose_B, policy=policy
            )
        if shares:
            T.sum_blocks(C_local, axis=blocks[2])
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C
