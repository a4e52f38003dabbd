"""Tile programs that several tests parse."""

# Names and branches as kernels' authors write them.
# ruff: noqa: SIM108

from __future__ import annotations

from typing import Any

import tilegen.language as T


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


def lazy_matmul(
    M: int,
    N: int,
    K: int,
    block_M: int,
    block_N: int,
    block_K: int,
    dtype: Any = "float16",
    accum: Any = "float",
) -> T.PrimFunc:
    """A GEMM as TileLang's documentation writes it."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum)
            T.use_swizzle(panel_size=10, enable=True)
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, ko * block_K], A_shared)
                for k, j in T.Parallel(block_K, block_N):
                    B_shared[k, j] = B[ko * block_K + k, bx * block_N + j]
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


LOG2E = 1.44269504


def attention(
    Q,
    K,
    V,
    causal: bool = True,
    block_M: int = 128,
    block_N: int = 128,
    num_stages: int = 2,
    threads: int = 256,
):
    """FlashAttention forward, BSHD, grouped heads, ragged lengths, with the log-sum-exp."""
    batch, heads, heads_kv, seq_q, seq_k, dim = T.const("batch, heads, heads_kv, seq_q, seq_k, dim")
    Q: T.Tensor((batch, seq_q, heads, dim), T.float16)
    K: T.Tensor((batch, seq_k, heads_kv, dim), T.float16)
    V: T.Tensor((batch, seq_k, heads_kv, dim), T.float16)
    O = T.empty((batch, seq_q, heads, dim), T.float16)
    LSE = T.empty((batch, heads, seq_q), T.float32)
    scale = (1.0 / dim) ** 0.5 * LOG2E
    group = heads // heads_kv
    with T.Kernel(T.ceildiv(seq_q, block_M), heads, batch, threads=threads) as (bx, h, b):
        Q_shared = T.alloc_shared((block_M, dim), T.float16)
        K_shared = T.alloc_shared((block_N, dim), T.float16)
        V_shared = T.alloc_shared((block_N, dim), T.float16)
        S = T.alloc_fragment((block_M, block_N), T.float32)
        P = T.alloc_fragment((block_M, block_N), T.float16)
        acc = T.alloc_fragment((block_M, dim), T.float32)
        m = T.alloc_fragment((block_M,), T.float32)
        m_prev = T.alloc_fragment((block_M,), T.float32)
        alpha = T.alloc_fragment((block_M,), T.float32)
        row_sum = T.alloc_fragment((block_M,), T.float32)
        l = T.alloc_fragment((block_M,), T.float32)
        T.copy(Q[b, bx * block_M : (bx + 1) * block_M, h, :], Q_shared)
        T.clear(acc)
        T.clear(l)
        T.fill(m, -T.infinity(T.float32))
        last = T.min((bx + 1) * block_M + seq_k - seq_q, seq_k) if causal else seq_k
        for j in T.Pipelined(T.ceildiv(last, block_N), num_stages=num_stages):
            T.copy(K[b, j * block_N : (j + 1) * block_N, h // group, :], K_shared)
            T.gemm(Q_shared, K_shared, S, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            for i, n in T.Parallel(block_M, block_N):
                key = j * block_N + n
                if causal:
                    visible = key <= bx * block_M + i + seq_k - seq_q
                else:
                    visible = key < seq_k
                S[i, n] = T.if_then_else(visible, S[i, n], -T.infinity(T.float32))
            T.copy(m, m_prev)
            T.reduce_max(S, m, dim=1, clear=False)
            for i in T.Parallel(block_M):
                alpha[i] = T.exp2((m_prev[i] - m[i]) * scale)
            for i, n in T.Parallel(block_M, block_N):
                S[i, n] = T.exp2((S[i, n] - m[i]) * scale)
            T.reduce_sum(S, row_sum, dim=1)
            for i in T.Parallel(block_M):
                l[i] = l[i] * alpha[i] + row_sum[i]
            for i, d in T.Parallel(block_M, dim):
                acc[i, d] *= alpha[i]
            T.copy(S, P)
            T.copy(V[b, j * block_N : (j + 1) * block_N, h // group, :], V_shared)
            T.gemm(P, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
        for i, d in T.Parallel(block_M, dim):
            acc[i, d] /= l[i]
        T.copy(acc, O[b, bx * block_M : (bx + 1) * block_M, h, :])
        for i in T.Parallel(block_M):
            LSE[b, h, bx * block_M + i] = m[i] * scale + T.log2(l[i])
    return O, LSE
