"""Tile programs of the CDNA emulator tests: GEMM variants, and loops that no GEMM template would foresee."""

# mypy: ignore-errors

import tilegen
import tilegen.language as T


@tilegen.jit
def gemm(
    A,
    B,
    transpose_A: bool = False,
    transpose_B: bool = False,
    dtype=T.float16,
    out_dtype=T.float16,
    block_M: int = 128,
    block_N: int = 128,
    block_K: int = 32,
    num_stages: int = 3,
    threads: int = 128,
    persistent: bool = False,
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M) if transpose_A else (M, K), dtype)
    B: T.Tensor((N, K) if transpose_B else (K, N), dtype)
    C = T.empty((M, N), out_dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads, persistent=persistent) as (
        bx,
        by,
    ):
        A_shared = T.alloc_shared((block_K, block_M) if transpose_A else (block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_N, block_K) if transpose_B else (block_K, block_N), dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            if transpose_A:
                T.copy(A[k * block_K, by * block_M], A_shared)
            else:
                T.copy(A[by * block_M, k * block_K], A_shared)
            if transpose_B:
                T.copy(B[bx * block_N, k * block_K], B_shared)
            else:
                T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_A=transpose_A, transpose_B=transpose_B)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tilegen.jit
def gated(A, B, D, threads: int = 128):
    """Two gemms on one A in one loop, a copy between them, a product of their results."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    D: T.Tensor((N, K), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((64, 32), T.float16)
        B_shared = T.alloc_shared((32, 64), T.float16)
        D_shared = T.alloc_shared((64, 32), T.float16)
        left = T.alloc_fragment((64, 64), T.float32)
        right = T.alloc_fragment((64, 64), T.float32)
        T.clear(left)
        T.clear(right)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[k * 32, bx * 64], B_shared)
            T.gemm(A_shared, B_shared, left)
            T.copy(D[bx * 64, k * 32], D_shared)
            T.gemm(A_shared, D_shared, right, transpose_B=True)
        for i, j in T.Parallel(64, 64):
            left[i, j] = left[i, j] * right[i, j]
        T.copy(left, C[by * 64, bx * 64])
    return C


@tilegen.jit
def scaled(A, B, threads: int = 128):
    """A tile that threads change between its load and the gemm that reads the result."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.int8)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((64, 32), T.float16)
        packed = T.alloc_shared((64, 32), T.int8)
        B_shared = T.alloc_shared((64, 32), T.float16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[bx * 64, k * 32], packed)
            for i, j in T.Parallel(64, 32):
                B_shared[i, j] = T.cast(packed[i, j], T.float16) * 0.5
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * 64, bx * 64])
    return C


@tilegen.jit
def batched(A, B, threads: int = 128):
    """The loop's variable picks a matrix: tiles past its end must not be read."""
    G, M, N, K = T.const("G, M, N, K")
    A: T.Tensor((G, M, K), T.float16)
    B: T.Tensor((G, K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((64, 64), T.float16)
        B_shared = T.alloc_shared((64, 64), T.float16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for g in T.Pipelined(G, num_stages=2):
            T.copy(A[g, by * 64, 0], A_shared)
            T.copy(B[g, 0, bx * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * 64, bx * 64])
    return C


@tilegen.jit
def split(A, B, C, splits: int = 2, threads: int = 128):
    """Partial sums of a part of K each, added by atomics."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), splits, threads=threads) as (bx, by, bz):
        A_shared = T.alloc_shared((64, 32), T.float16)
        B_shared = T.alloc_shared((32, 64), T.float16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(K // splits // 32, num_stages=2):
            T.copy(A[by * 64, bz * (K // splits) + k * 32], A_shared)
            T.copy(B[bz * (K // splits) + k * 32, bx * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.atomic_add(C[by * 64, bx * 64], C_local)


@tilegen.jit
def chained(Q, K, V, block_M: int = 64, block_N: int = 64, num_stages: int = 2, threads: int = 128):
    """O = max(Q K^T, 0) V: the first gemm's accumulators are the second's operand."""
    S, R, D = T.const("S, R, D")
    Q: T.Tensor((S, D), T.float16)
    K: T.Tensor((R, D), T.float16)
    V: T.Tensor((R, D), T.float16)
    O = T.empty((S, D), T.float32)
    with T.Kernel(T.ceildiv(S, block_M), threads=threads) as bx:
        Q_shared = T.alloc_shared((block_M, 64), T.float16)
        K_shared = T.alloc_shared((block_N, 64), T.float16)
        V_shared = T.alloc_shared((block_N, 64), T.float16)
        scores = T.alloc_fragment((block_M, block_N), T.float32)
        weights = T.alloc_fragment((block_M, block_N), T.float16)
        O_local = T.alloc_fragment((block_M, 64), T.float32)
        T.copy(Q[bx * block_M, 0], Q_shared)
        T.clear(O_local)
        for k in T.Pipelined(T.ceildiv(R, block_N), num_stages=num_stages):
            T.copy(K[k * block_N, 0], K_shared)
            T.clear(scores)
            T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(V[k * block_N, 0], V_shared)
            for i, j in T.Parallel(block_M, block_N):
                weights[i, j] = T.max(scores[i, j], 0)
            T.gemm(weights, V_shared, O_local, policy=T.GemmWarpPolicy.FullRow)
        T.copy(O_local, O[bx * block_M, 0])
    return O


@tilegen.jit
def both_ways(A, B, threads: int = 128):
    """C = A B + A^T B: one shared tile, contiguous along k for one gemm only."""
    N = T.const("N")
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, N), T.float16)
    C = T.empty((64, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), threads=threads) as bx:
        A_shared = T.alloc_shared((64, 64), T.float16)
        B_shared = T.alloc_shared((64, 64), T.float16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        T.copy(A, A_shared)
        T.copy(B[0, bx * 64], B_shared)
        T.gemm(A_shared, B_shared, C_local)
        T.gemm(A_shared, B_shared, C_local, transpose_A=True)
        T.copy(C_local, C[0, bx * 64])
    return C


@tilegen.jit
def squares(A, threads: int = 64):
    """A A^T: one tile is both operands, with different lanes for its rows."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.float16)
    C = T.empty((M, M), T.float32)
    with T.Kernel(T.ceildiv(M, 32), threads=threads) as bx:
        A_shared = T.alloc_shared((32, 64), T.float16)
        C_local = T.alloc_fragment((32, 32), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[bx * 32, k * 64], A_shared)
            T.gemm(A_shared, A_shared, C_local, transpose_B=True)
        T.copy(C_local, C[bx * 32, bx * 32])
    return C


@tilegen.jit
def through_shared(X, threads: int = 128):
    """A tile that threads read by the same loop that a plain copy would have had."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 32), threads=threads) as (bx, by):
        tile = T.alloc_shared((32, 64), T.float16)
        T.copy(X[by * 32, bx * 64], tile)
        for i, j in T.Parallel(32, 64):
            Y[by * 32 + i, bx * 64 + j] = tile[i, j] * 2.0
    return Y
