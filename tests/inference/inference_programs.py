"""Tile programs of the inference tests."""

# mypy: ignore-errors

import tilegen.language as T


def epilogue(A, B, bias, threads: int = 128):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    bias: T.Tensor((N,), T.float32)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((128, 32), T.float16)
        B_shared = T.alloc_shared((32, 128), T.float16)
        C_local = T.alloc_fragment((128, 128), T.float32)
        bias_local = T.alloc_fragment((128,), T.float32)
        T.clear(C_local)
        T.copy(bias[bx * 128], bias_local)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 128, k * 32], A_shared)
            T.copy(B[k * 32, bx * 128], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        for i, j in T.Parallel(128, 128):
            C_local[i, j] = T.max(C_local[i, j] + bias_local[j], 0)
        T.copy(C_local, C[by * 128, bx * 128])
    return C


def projected(X, cols: int = 1024, threads: int = 128):
    M = T.const("M")
    X: T.Tensor((M, cols), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, 4), threads=threads) as bx:
        x = T.alloc_fragment((4, cols), T.float32)
        y = T.alloc_fragment((4,), T.float32)
        T.copy(X[bx * 4, 0], x)
        T.reduce_sum(x, y, dim=1)
        T.copy(y, Y[bx * 4])
    return Y


def clashing(A, B, threads: int = 256):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((128, 32), T.float16)
        B_shared = T.alloc_shared((32, 128), T.float16)
        C_local = T.alloc_fragment((128, 128), T.float32)
        T.clear(C_local)
        T.copy(A[by * 128, 0], A_shared)
        T.copy(B[0, bx * 128], B_shared)
        T.gemm(A_shared, B_shared, C_local, policy=T.GemmWarpPolicy.FullRow)
        T.gemm(A_shared, B_shared, C_local, policy=T.GemmWarpPolicy.FullCol)
        T.copy(C_local, C[by * 128, bx * 128])
    return C


def twice(A, B, threads: int = 128):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(1, threads=threads) as bx:
        A_shared = T.alloc_shared((24, 24), T.float16)
        B_shared = T.alloc_shared((24, 24), T.float16)
        C_local = T.alloc_fragment((24, 24), T.float32)
        T.clear(C_local)
        T.copy(A[0, 0], A_shared)
        T.copy(B[0, 0], B_shared)
        T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[bx * 24, 0])
    return C
