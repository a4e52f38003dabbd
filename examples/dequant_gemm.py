"""W4A16 matrix product: C = A @ dequantise(W), fp16 activations, 4-bit weights with a scale and a zero of each group.

Weights are packed once, in the order in which tensor cores want them: see `quantise`. Run it with
`tilegen run examples/dequant_gemm.py`, or as a program.
"""

import numpy as np

import tilegen
import tilegen.language as T
from tilegen.cli import app

GROUP = 128  # weights along K that share a scale and a zero


def word_of(n, k, order="mma"):
    """Which word of a panel of 16 columns of the weights holds weight (k, n): 128 words for 64 rows.

    The weights are the left operand of the product, and what one thread multiplies in four steps are four neighbouring
    words. "mma" is the order of mma.m16n8k16 and of wgmma, whose lane 4 (n % 8) + k % 8 / 2 takes a word for 16 rows;
    "mfma" that of v_mfma of 32 x 32, whose lane n % 32 takes a word for 8 rows. Each is right on all targets.
    """
    if order == "mfma":
        return k // 64 * 128 + (n % 16 + k // 8 % 2 * 16) * 4 + k // 16 % 4
    return k // 64 * 128 + (n % 8 * 4 + k % 8 // 2) * 4 + k // 16 % 4


def shift_of(n, k, order="mma"):
    """Where in its word: neighbours along k lie 16 bits apart, so that one mask takes out both."""
    if order == "mfma":
        return (k % 8 // 2 + k % 2 * 4) * 4
    return (n // 8 % 2 + k // 8 % 2 * 2 + k % 2 * 4) * 4


def rows_for(M, order):
    """Rows of a block: as many as A has, a power of two, at most 64; what one instruction takes at least."""
    return min(64, max(32 if order == "mfma" else 16, 1 << (M - 1).bit_length()))


word, shift = T.macro(word_of), T.macro(shift_of)


@tilegen.jit
def dequant_gemm(
    A,
    W,
    S,
    Z,
    block_M: int = 0,
    block_N: int = 64,
    block_K: int = 128,
    num_stages: int = 4,
    threads: int = 128,
    cluster: int = 1,
    split: int = 1,
    persistent=None,
    order: str = "mma",
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    S: T.Tensor((K // GROUP, N), T.float16)
    Z: T.Tensor((K // GROUP, N), T.float16)
    W: T.Tensor((N // 16, K * 2), T.int32)
    C = T.empty((M, N), T.float16)
    if not block_M:
        block_M = rows_for(M, order)
    tiles = T.ceildiv(K, block_K * split)
    with T.Kernel(
        T.ceildiv(N, block_N) * split,
        T.ceildiv(M, block_M),
        threads=threads,
        cluster_dims=(cluster, 1),
        persistent=persistent,
    ) as (x, by):
        bx, part = x // split, x % split
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
        for k in T.Pipelined(tiles, num_stages=num_stages):
            step = part * tiles + k
            T.copy(W[bx * (block_N // 16), step * (block_K * 2)], W_shared)
            T.copy(S[step * block_K // GROUP, bx * block_N], S_shared)
            T.copy(Z[step * block_K // GROUP, bx * block_N], Z_shared)
            T.copy(A[by * block_M, step * block_K], A_shared)
            T.copy(W_shared, W_words)
            T.copy(S_shared, scale)
            T.copy(Z_shared, zero)
            for i, j in T.Parallel(block_N, block_K):
                q = (W_words[i // 16, word(i, j, order)] >> shift(i, j, order)) & 15
                W_local[i, j] = T.cast(q, T.float16) * scale[j // GROUP, i] + zero[j // GROUP, i]
            T.gemm(W_local, A_shared, C_local, transpose_B=True)
        for i, j in T.Parallel(block_N, block_M):
            C_shared[j, i] = C_local[i, j]
        if split == 1:
            T.copy(C_shared, C[by * block_M, bx * block_N])
        else:
            T.atomic_add(C[by * block_M, bx * block_N], C_shared)
    return C


kernel = dequant_gemm
target_parameters = {target: {"order": "mfma"} for target in ("gfx90a", "gfx942", "gfx950")}
tolerance = 1e-3  # of the relative Frobenius norm; fp16 output rounds to about 3e-4
# By the most rows of A: block_M, block_N, block_K, num_stages, threads, cluster, split and, where it is not left open,
# persistent. Where more than 128 threads have 64 columns of W, their warpgroups share K, and their sums meet in shared
# memory; with `split` blocks do, and theirs meet in C.
_SCHEDULES = {
    8: (
        (8, 64, 512, 6, 256, 1, 1),
        (8, 64, 512, 5, 256, 1, 1),
        (8, 64, 1024, 3, 256, 1, 1),
        (8, 64, 512, 6, 512, 1, 1),
        (8, 64, 512, 3, 128, 1, 2),
        (8, 64, 256, 6, 128, 1, 2),
        (8, 64, 512, 6, 128, 1, 1),
    ),
    16: (
        (16, 64, 512, 5, 256, 1, 1),
        (16, 64, 1024, 2, 256, 1, 1),
        (16, 64, 512, 5, 512, 1, 1),
        (16, 64, 256, 5, 128, 1, 2),
        (16, 64, 512, 5, 128, 1, 1),
        (16, 64, 256, 8, 128, 1, 1),
    ),
    64: ((64, 64, 256, 4, 128, 1, 1), (64, 64, 128, 4, 128, 1, 2), (64, 64, 128, 8, 128, 2, 1)),
    256: (
        (256, 64, 64, 5, 128, 1, 1),
        (256, 64, 128, 3, 128, 1, 1),
        (128, 128, 128, 4, 256, 1, 1),
        (128, 128, 128, 4, 256, 2, 1),
    ),
    1 << 31: ((256, 128, 64, 4, 256, 1, 1), (256, 128, 64, 4, 256, 2, 1)),
}


def schedules_for(rows):
    """Schedules that are worth trying on Hopper for so many rows of A."""
    names = ("block_M", "block_N", "block_K", "num_stages", "threads", "cluster", "split", "persistent")
    found = next(schedules for most, schedules in _SCHEDULES.items() if rows <= most)
    return [dict(zip(names, schedule, strict=False)) for schedule in found]


def quantise(weight, order="mma"):
    """4-bit weights of W [K, N], with fp16 scales and zeros of groups of GROUP rows: w = q * scale + zero, q in 0 … 15.

    N is a multiple of 16, K one of GROUP. Returns (words int32 [N / 16, 2 K], scales and zeros [K / GROUP, N]).
    """
    rows, columns = weight.shape
    groups = np.asarray(weight, np.float32).reshape(rows // GROUP, GROUP, columns)
    low, high = groups.min(1), groups.max(1)
    scale = np.maximum((high - low) / 15, 1e-4).astype(np.float16)
    zero = low.astype(np.float16)
    q = np.rint((groups - zero[:, None].astype(np.float32)) / scale[:, None].astype(np.float32))
    return pack(np.clip(q, 0, 15).astype(np.uint32).reshape(rows, columns), order), scale, zero


def places(order):
    """Row and column, in a panel of 64 rows and 16 columns, of each of the 8 numbers of each of its 128 words."""
    found = np.empty((2, 128, 8), np.intp)
    k, n = np.divmod(np.arange(64 * 16), 16)
    found[:, word_of(n, k, order), shift_of(n, k, order) // 4] = k, n
    return tuple(found)


def pack(q, order="mma"):
    """Words int32 [N / 16, 2 K] of 4-bit numbers uint32 [K, N]."""
    rows, columns = q.shape
    panels = q.reshape(rows // 64, 64, columns // 16, 16).transpose(2, 0, 1, 3)
    numbers = panels[:, :, *places(order)] << np.arange(0, 32, 4, dtype=np.uint32)
    return np.bitwise_or.reduce(numbers, -1).view(np.int32).reshape(columns // 16, rows * 2)


def unpack(words, order="mma"):
    """The 4-bit numbers [K, N] of `pack`."""
    panels, length = words.shape
    q = np.empty((panels, length // 128, 64, 16), np.uint32)
    numbers = words.view(np.uint32).reshape(panels, length // 128, 128, 1)
    q[:, :, *places(order)] = numbers >> np.arange(0, 32, 4, dtype=np.uint32) & 15
    return q.transpose(1, 2, 0, 3).reshape(length // 2, panels * 16)


def dequantise(words, scale, zero, order="mma"):
    """The fp32 weights [K, N] that packed arrays stand for."""
    wide = (np.repeat(array.astype(np.float32), GROUP, 0) for array in (scale, zero))
    return unpack(words, order).astype(np.float32) * next(wide) + next(wide)


def inputs(rng, rows=16, columns=8192, depth=8192, order="mma"):
    """A, and W's packed arrays."""
    a = rng.standard_normal((rows, depth), dtype=np.float32).astype(np.float16)
    return a, *quantise(rng.standard_normal((depth, columns), dtype=np.float32), order)


def emulation_inputs(rng, order="mma"):
    """A few rows, a number that no tile divides."""
    return inputs(rng, 21, 128, 512, order)


def reference(a, words, scale, zero, order="mma"):
    """The same in NumPy, accumulated in fp32."""
    return a.astype(np.float32) @ dequantise(words, scale, zero, order)


if __name__ == "__main__":
    app(["run", __file__])
