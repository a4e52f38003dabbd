"""W4A16 matrix product: C = A @ dequantise(W), fp16 activations, 4-bit weights with a scale and a zero of each group.

Weights are packed once, in the order in which tensor cores want them: see `quantise`. Run it with
`tilegen run examples/dequant_gemm.py`, or as a program.
"""

import numpy as np

import tilegen
import tilegen.language as T
from tilegen.cli import app

GROUP = 128  # weights along K that share a scale and a zero


def word_of(n, k):
    """Which word of a panel of 16 columns of the weights holds weight (k, n): 128 words for 64 rows.

    A thread's four words of 64 rows are neighbours: lane 4 (n % 8) + k % 8 / 2 multiplies them, one word a step of 16,
    in mma.m16n8k16 and in wgmma alike, where the weights are the left operand.
    """
    return k // 64 * 128 + (n % 8 * 4 + k % 8 // 2) * 4 + k // 16 % 4


def shift_of(n, k):
    """Where in its word: neighbours along k lie 16 bits apart, so that one mask takes out both."""
    return (n // 8 % 2 + k // 8 % 2 * 2 + k % 2 * 4) * 4


word, shift = T.macro(word_of), T.macro(shift_of)


@tilegen.jit
def dequant_gemm(
    A,
    W,
    S,
    Z,
    block_M: int = 16,
    block_N: int = 64,
    block_K: int = 128,
    num_stages: int = 4,
    threads: int = 128,
    cluster: int = 1,
    persistent=None,
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    S: T.Tensor((K // GROUP, N), T.float16)
    Z: T.Tensor((K // GROUP, N), T.float16)
    W: T.Tensor((N // 16, K * 2), T.int32)
    C = T.empty((M, N), T.float16)
    with T.Kernel(
        T.ceildiv(N, block_N),
        T.ceildiv(M, block_M),
        threads=threads,
        cluster_dims=(cluster, 1),
        persistent=persistent,
    ) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        W_shared = T.alloc_shared((block_N // 16, block_K * 2), T.int32)
        S_shared = T.alloc_shared((T.ceildiv(block_K, GROUP), block_N), T.float16)
        Z_shared = T.alloc_shared((T.ceildiv(block_K, GROUP), block_N), T.float16)
        C_shared = T.alloc_shared((block_M, block_N), T.float16)
        W_words = T.alloc_fragment((block_N // 16, block_K * 2), T.int32)
        scale = T.alloc_fragment((T.ceildiv(block_K, GROUP), block_N), T.float16)
        zero = T.alloc_fragment((T.ceildiv(block_K, GROUP), block_N), T.float16)
        W_local = T.alloc_fragment((block_N, block_K), T.float16)
        C_local = T.alloc_fragment((block_N, block_M), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(K // block_K, num_stages=num_stages):
            T.copy(W[bx * (block_N // 16), k * (block_K * 2)], W_shared)
            T.copy(S[k * block_K // GROUP, bx * block_N], S_shared)
            T.copy(Z[k * block_K // GROUP, bx * block_N], Z_shared)
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(W_shared, W_words)
            T.copy(S_shared, scale)
            T.copy(Z_shared, zero)
            for i, j in T.Parallel(block_N, block_K):
                q = (W_words[i // 16, word(i, j)] >> shift(i, j)) & 15
                W_local[i, j] = T.cast(q, T.float16) * scale[j // GROUP, i] + zero[j // GROUP, i]
            T.gemm(W_local, A_shared, C_local, transpose_B=True)
        for i, j in T.Parallel(block_N, block_M):
            C_shared[j, i] = C_local[i, j]
        T.copy(C_shared, C[by * block_M, bx * block_N])
    return C


kernel = dequant_gemm
tolerance = 1e-3  # of the relative Frobenius norm; fp16 output rounds to about 3e-4
schedules = (  # for benchmarks
    {"block_M": 8, "block_K": 256, "num_stages": 12},
    {"block_M": 64, "num_stages": 8, "cluster": 4},
    {"block_M": 128, "block_N": 128, "num_stages": 5, "threads": 256, "cluster": 2},
    {"block_M": 256, "block_N": 128, "block_K": 64, "num_stages": 4, "threads": 256},
)


def quantise(weight):
    """4-bit weights of W [K, N], with fp16 scales and zeros of groups of GROUP rows: w = q * scale + zero, q in 0 … 15.

    Returns (words int32 [N / 16, 2 K], scales [K / GROUP, N], zeros [K / GROUP, N]).
    """
    rows, columns = weight.shape
    groups = np.asarray(weight, np.float32).reshape(rows // GROUP, GROUP, columns)
    low, high = groups.min(1), groups.max(1)
    scale = np.maximum((high - low) / 15, 1e-4).astype(np.float16)
    zero = low.astype(np.float16)
    q = np.rint((groups - zero[:, None].astype(np.float32)) / scale[:, None].astype(np.float32))
    return pack(np.clip(q, 0, 15).astype(np.uint32).reshape(rows, columns)), scale, zero


def pack(q):
    """Words int32 [N / 16, 2 K] of 4-bit numbers [K, N], in the order of `word_of` and `shift_of`."""
    rows, columns = q.shape
    k, n = np.arange(rows)[:, None], np.arange(columns)[None, :]
    words = np.zeros((columns // 16, rows * 2), np.uint32)
    np.bitwise_or.at(words, (n // 16, word_of(n, k)), q.astype(np.uint32) << shift_of(n, k).astype(np.uint32))
    return words.view(np.int32)


def unpack(words):
    """The 4-bit numbers [K, N] of `pack`."""
    panels, length = words.shape
    k, n = np.arange(length // 2)[:, None], np.arange(panels * 16)[None, :]
    return words.view(np.uint32)[n // 16, word_of(n, k)] >> shift_of(n, k).astype(np.uint32) & 15


def dequantise(words, scale, zero):
    """The fp32 weights [K, N] that packed arrays stand for."""
    wide = (np.repeat(array.astype(np.float32), GROUP, 0) for array in (scale, zero))
    return unpack(words) * next(wide) + next(wide)


def inputs(rng, rows=16, columns=8192, depth=8192):
    """A, and W's packed arrays."""
    a = rng.standard_normal((rows, depth), dtype=np.float32).astype(np.float16)
    return a, *quantise(rng.standard_normal((depth, columns), dtype=np.float32))


def emulation_inputs(rng):
    """A few rows, a number that no tile divides."""
    return inputs(rng, 21, 128, 512)


def reference(a, words, scale, zero):
    """The same in NumPy, accumulated in fp32."""
    return a.astype(np.float32) @ dequantise(words, scale, zero)


if __name__ == "__main__":
    app(["run", __file__])
