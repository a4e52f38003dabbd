"""FlashAttention forward: O = softmax(Q K^T / sqrt(D)) V, with the log-sum-exp of every row."""

from __future__ import annotations

import numpy as np

import tilegen
import tilegen.language as T
from tilegen.cli import app

LOG2E = 1.4426950408889634


@tilegen.jit
def attention(
    Q,
    K,
    V,
    causal: bool = False,
    block_M=None,
    block_N=None,
    num_stages=None,
    threads=None,
    persistent=None,
    hold_Q=None,
):
    B, S_q, S_k, H, H_kv, D = T.const("B, S_q, S_k, H, H_kv, D")
    Q: T.Tensor((B, S_q, H, D), T.float16)
    K: T.Tensor((B, S_k, H_kv, D), T.float16)
    V: T.Tensor((B, S_k, H_kv, D), T.float16)
    O = T.empty((B, S_q, H, D), T.float16)
    LSE = T.empty((B, H, S_q), T.float32)
    T.assume(H % H_kv == 0)
    scale = D**-0.5
    scale_log2 = scale * LOG2E  # for exp2
    rows = T.target().shared_bytes // (2 * D)  # of Q, K and V that shared memory holds
    block_M = block_M or (192 if D <= 64 and T.target().warpgroups else 128 if rows >= 192 else 64)
    block_N = block_N or (128 if rows >= 640 else 64 if rows >= 256 else 32)
    threads = threads or 2 * block_M
    if hold_Q is None:  # in registers, where they suffice; measured: it pays where tiles are short
        hold_Q = causal and T.target().warpgroups and threads == 256 and 64 < D <= 256 - block_N
    with T.Kernel(T.ceildiv(S_q, block_M), H, B, threads=threads, persistent=persistent) as (bx, h, b):
        Q_shared = T.alloc_shared((block_M, D), T.float16)
        K_shared = T.alloc_shared((block_N, D), T.float16)
        V_shared = T.alloc_shared((block_N, D), T.float16)
        Q_local = T.alloc_fragment((block_M, D), T.float16) if hold_Q else Q_shared
        S = T.alloc_fragment((block_M, block_N), T.float32)
        P = T.alloc_fragment((block_M, block_N), T.float16)
        O_local = T.alloc_fragment((block_M, D), T.float32)
        m = T.alloc_fragment((block_M,), T.float32)
        m_old = T.alloc_fragment((block_M,), T.float32)
        alpha = T.alloc_fragment((block_M,), T.float32)
        l = T.alloc_fragment((block_M,), T.float32)
        l_block = T.alloc_fragment((block_M,), T.float32)
        T.copy(Q[b, bx * block_M : (bx + 1) * block_M, h, :], Q_shared)
        if hold_Q:
            T.copy(Q_shared, Q_local)
        T.fill(O_local, 0)
        T.fill(l, 0)
        T.fill(m, -T.infinity(T.float32))
        keys = T.min((bx + 1) * block_M + (S_k - S_q), S_k) if causal else S_k
        for j in T.Pipelined(T.ceildiv(keys, block_N), num_stages=num_stages):
            T.copy(K[b, j * block_N : (j + 1) * block_N, h // (H // H_kv), :], K_shared)
            T.gemm(Q_local, K_shared, S, transpose_B=True, clear_accum=True)
            for i, n in T.Parallel(block_M, block_N):
                seen = T.min(bx * block_M + i + 1 + (S_k - S_q), S_k) if causal else S_k
                S[i, n] = T.if_then_else(j * block_N + n < seen, S[i, n], -T.infinity(T.float32))
            T.copy(m, m_old)
            T.reduce_max(S, m, dim=1, clear=False)
            for i in T.Parallel(block_M):  # moves once exp2 has grown 256 times: O is seldom rescaled
                m[i] = T.if_then_else((m[i] - m_old[i]) * scale_log2 > 8, m[i], m_old[i])
            for i in T.Parallel(block_M):
                alpha[i] = T.exp2((m_old[i] - m[i]) * scale_log2)
            for i, n in T.Parallel(block_M, block_N):
                S[i, n] = T.exp2(S[i, n] * scale_log2 - m[i] * scale_log2)
            T.reduce_sum(S, l_block, dim=1)
            for i in T.Parallel(block_M):
                l[i] = l[i] * alpha[i] + l_block[i]
            T.copy(S, P)
            for i, d in T.Parallel(block_M, D):
                if alpha[i] != 1:
                    O_local[i, d] *= alpha[i]
            T.copy(V[b, j * block_N : (j + 1) * block_N, h // (H // H_kv), :], V_shared)
            T.gemm(P, V_shared, O_local)
        for i in T.Parallel(block_M):
            alpha[i] = 1 / l[i]
        for i, d in T.Parallel(block_M, D):
            O_local[i, d] *= alpha[i]
        T.copy(O_local, O[b, bx * block_M : (bx + 1) * block_M, h, :])
        for i in T.Parallel(block_M):
            LSE[b, h, bx * block_M + i] = m[i] * scale + T.log(l[i])
    return O, LSE


kernel = attention
tolerance = 2e-3  # of the relative Frobenius norm; P in fp16 rounds to about 3e-4


def inputs(rng, batch=4, queries=4096, keys=4096, heads=16, key_heads=4, depth=128):
    """Q, K and V."""
    shapes = ((queries, heads), (keys, key_heads), (keys, key_heads))
    return tuple(
        rng.standard_normal((batch, *shape, depth), dtype=np.float32).astype(np.float16) for shape in shapes
    )


def emulation_inputs(rng):
    """Lengths that no tile divides; two heads share keys and values."""
    return inputs(rng, batch=1, queries=70, keys=290, heads=2, key_heads=1)


def reference(q, k, v, causal=False):
    """The same in NumPy, in float64, one head at a time."""
    batch, queries, heads, depth = q.shape
    shared_by = heads // k.shape[2]
    last = np.arange(queries)[:, None] + k.shape[1] - queries  # key that a query sees, where causal
    output = np.empty(q.shape)
    log_sums = np.empty((batch, heads, queries))
    for b, h in np.ndindex(batch, heads):
        keys, values = (x[b, :, h // shared_by].astype(np.float64) for x in (k, v))
        scores = q[b, :, h].astype(np.float64) @ keys.T / depth**0.5
        if causal:
            scores[np.arange(k.shape[1]) > last] = -np.inf
        top = scores.max(axis=1, keepdims=True)
        weights = np.exp(scores - top)
        total = weights.sum(axis=1, keepdims=True)
        output[b, :, h] = weights / total @ values
        log_sums[b, h] = (top + np.log(total))[:, 0]
    return output, log_sums


if __name__ == "__main__":
    app(["run", __file__])
