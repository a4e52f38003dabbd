"""Few rows times a large matrix: C = A @ B, fp16 with fp32 accumulation, where blocks share the k of a tile.

Few tiles keep few multiprocessors busy. Here `split_K` blocks share each tile: every one of them multiplies a range of
k, and the last to finish adds up what all have left and stores the tile. Run it with `tilegen run examples/split_k.py`.
"""

import numpy as np

import tilegen
import tilegen.language as T
from tilegen.cli import app


@tilegen.jit
def matmul_split_k(
    A,
    B,
    split_K: int = 4,
    block_M: int = 16,
    block_N: int = 128,
    block_K: int = 64,
    num_stages: int = 5,
    threads: int = 128,
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    steps = T.ceildiv(T.ceildiv(K, block_K), split_K)  # of each block
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split_K, threads=threads) as (bx, by, bz):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for step in T.Pipelined(steps, num_stages=num_stages):
            k = (bz * steps + step) * block_K
            T.copy(A[by * block_M, k], A_shared)
            T.copy(B[k, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.sum_blocks(C_local, axis=bz)  # what follows, the last block does
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


kernel = matmul_split_k
tolerance = 1e-3  # of the relative Frobenius norm; fp16 output rounds to about 3e-4


def inputs(rng, rows=16, columns=4096, depth=14336):
    """A and B."""
    shapes = ((rows, depth), (depth, columns))
    return tuple(rng.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in shapes)


def emulation_inputs(rng):
    """Rows and columns that no tile divides, and a k that blocks cannot share evenly."""
    return inputs(rng, rows=21, columns=200, depth=1160)


def reference(a, b):
    """The same in NumPy, accumulated in fp32."""
    return a.astype(np.float32) @ b.astype(np.float32)


if __name__ == "__main__":
    app(["run", __file__])
