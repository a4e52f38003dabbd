"""Matrix multiplication with a ReLU: C = max(A @ B, 0), fp16 with fp32 accumulation.

Run it with `tilegen run examples/matmul.py`, or as a program: `python examples/matmul.py`.
"""

import numpy as np

import tilegen
import tilegen.language as T


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


kernel = matmul_relu
tolerance = 1e-3  # of the relative Frobenius norm; fp16 output rounds to about 3e-4


def inputs(rng, size=4096):
    """A and B, each size x size."""
    return tuple(rng.standard_normal((size, size), dtype=np.float32).astype(np.float16) for _ in "AB")


def emulation_inputs(rng):
    """Smaller matrices for the emulator, of a size that no tile divides."""
    a = rng.standard_normal((200, 168), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((168, 264), dtype=np.float32).astype(np.float16)
    return a, b


def reference(a, b):
    """The same in NumPy, accumulated in fp32."""
    return np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)


def main():
    a, b = emulation_inputs(np.random.default_rng(0))
    c = matmul_relu(a, b)  # NumPy arrays: the emulator; CuPy arrays or CUDA tensors: the GPU
    expected = reference(a, b)
    error = np.linalg.norm(c.astype(np.float32) - expected) / np.linalg.norm(expected)
    print(f"matmul_relu {a.shape} @ {b.shape}: relative error {error:.1e}")
    if error > tolerance:
        raise SystemExit("wrong result")


if __name__ == "__main__":
    main()
