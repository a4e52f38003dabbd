"""W4A16 product of a few rows of A: C = A @ dequantise(W), with the weights and packing of examples/dequant_gemm.py.

What takes time is to read W once. Its words go straight from memory to the registers that multiply them; the warps of a
block share K, and A's rows wait in shared memory. Run it with `tilegen run examples/dequant_gemv.py`, or as a program.
"""

import dequant_gemm
from dequant_gemm import GROUP, shift, word

import tilegen
import tilegen.language as T
from tilegen.cli import app


@tilegen.jit
def dequant_gemv(
    A,
    W,
    S,
    Z,
    block_M: int = 8,
    block_N: int = 16,
    block_K: int = 1024,
    num_stages: int = 8,
    threads: int = 256,
    order: str = "mma",
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    S: T.Tensor((K // GROUP, N), T.float16)
    Z: T.Tensor((K // GROUP, N), T.float16)
    W: T.Tensor((N // 16, K * 2), T.int32)
    C = T.empty((M, N), T.float16)
    rows, steps = min(M, block_M), T.ceildiv(K, block_K)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((rows, steps * block_K), T.float16)
        A_local = T.alloc_fragment((block_M, block_K), T.float16)
        W_words = T.alloc_fragment((block_N // 16, block_K * 2), T.int32)
        scale = T.alloc_fragment((T.ceildiv(block_K, GROUP), block_N), T.float16)
        zero = T.alloc_fragment((T.ceildiv(block_K, GROUP), block_N), T.float16)
        W_local = T.alloc_fragment((block_N, block_K), T.float16)
        C_local = T.alloc_fragment((block_N, block_M), T.float32)
        T.copy(A[by * block_M, 0], A_shared)
        T.clear(C_local)
        for k in T.Pipelined(steps, num_stages=num_stages):
            T.copy(W[bx * (block_N // 16), k * (block_K * 2)], W_words)
            T.copy(S[k * block_K // GROUP, bx * block_N], scale)
            T.copy(Z[k * block_K // GROUP, bx * block_N], zero)
            for i, j in T.Parallel(block_M, block_K):
                A_local[i, j] = T.if_then_else(i < rows, A_shared[i, k * block_K + j], 0)
            for i, j in T.Parallel(block_N, block_K):
                q = (W_words[i // 16, word(i, j, order)] >> shift(i, j, order)) & 15
                W_local[i, j] = T.cast(q, T.float16) * scale[j // GROUP, i] + zero[j // GROUP, i]
            T.gemm(W_local, A_local, C_local, transpose_B=True, policy=T.GemmWarpPolicy.SlicedK)
        for i, j in T.Parallel(block_N, block_M):
            if by * block_M + j < M:
                C[by * block_M + j, bx * block_N + i] = C_local[i, j]
    return C


MOST_ROWS = 8  # of A for which this pays, if they fit in shared memory

kernel = dequant_gemv
tolerance = dequant_gemm.tolerance
schedules = ({"block_K": 512, "num_stages": 16}, {"threads": 128, "block_K": 512, "num_stages": 16})
target_parameters = {
    target: {"order": "mfma", "block_M": 32, "block_N": 32} for target in ("gfx90a", "gfx942", "gfx950")
}


def inputs(rng, rows=1, columns=8192, depth=8192, order="mma"):
    """A, and W's packed arrays."""
    return dequant_gemm.inputs(rng, rows, columns, depth, order)


def emulation_inputs(rng, order="mma"):
    """Two rows; K is no multiple of a block's."""
    return inputs(rng, 2, 64, 1536, order)


def reference(a, words, scale, zero, order="mma"):
    """The same in NumPy, accumulated in fp32."""
    return dequant_gemm.reference(a, words, scale, zero, order)


if __name__ == "__main__":
    app(["run", __file__])
