"""Tile programs whose warps share the k of a gemm."""

# mypy: ignore-errors

import tilegen
import tilegen.language as T

SLICED = T.GemmWarpPolicy.SlicedK


@tilegen.jit
def register_operand(
    A,
    B,
    block_M=64,
    block_N=32,
    block_K=64,
    num_stages=2,
    threads=256,
    transpose_B=False,
    persistent=None,
):
    """C = (2 A) · B with its left operand in registers, made there by threads."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K) if transpose_B else (K, N), T.float16)
    C = T.empty((M, N), T.float16)
    grid = T.ceildiv(N, block_N), T.ceildiv(M, block_M)
    with T.Kernel(*grid, threads=threads, persistent=persistent) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_N, block_K) if transpose_B else (block_K, block_N), T.float16)
        A_local = T.alloc_fragment((block_M, block_K), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K] if transpose_B else B[k * block_K, bx * block_N], B_shared)
            for i, j in T.Parallel(block_M, block_K):
                A_local[i, j] = A_shared[i, j] * 2
            T.gemm(A_local, B_shared, C_local, transpose_B=transpose_B, policy=SLICED)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tilegen.jit
def used_inside(A, B, how="clear_accum", block_M=64, block_N=32, block_K=64, num_stages=2, threads=256):
    """C = the sum over tiles of k of relu(A · B), so that each iteration wants whole sums; they are cleared by the gemm
    ("clear_accum"), or by T.clear ("clear")."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        product = T.alloc_fragment((block_M, block_N), T.float32)
        total = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            if how == "clear":
                T.clear(product)
                T.gemm(A_shared, B_shared, product, policy=SLICED)
            else:
                T.gemm(A_shared, B_shared, product, policy=SLICED, clear_accum=True)
            for i, j in T.Parallel(block_M, block_N):
                total[i, j] += T.max(product[i, j], 0)
        T.copy(total, C[by * block_M, bx * block_N])
    return C


@tilegen.jit
def several(A, B, C, how="no loop", N=32, K=128, block_M=64, block_K=64, threads=256):
    """C = A · B without a loop over k ("no loop"), with two gemms in a row ("two"), in a loop of loops with a branch
    ("branch"), in two loops with the whole sums stored between them ("again": C = 2 A · B), by rows of tiles with
    statistics of each ("rows": the last column of C is its rows' sums), added to memory from registers ("atomic")."""
    M = T.const("M")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as by:
        A_shared = T.alloc_shared((block_M, K), T.float16)
        B_shared = T.alloc_shared((K, N), T.float16)
        A_tile = T.alloc_shared((block_M, block_K), T.float16)
        B_tile = T.alloc_shared((block_K, N), T.float16)
        C_local = T.alloc_fragment((block_M, N), T.float32)
        sums = T.alloc_fragment((block_M,), T.float32)
        T.clear(C_local)
        if how == "no loop":
            T.copy(A[by * block_M, 0], A_shared)
            T.copy(B, B_shared)
            T.gemm(A_shared, B_shared, C_local, policy=SLICED)
        elif how == "two":
            T.copy(A[by * block_M, 0], A_tile)
            T.copy(B[0, 0], B_tile)
            T.gemm(A_tile, B_tile, C_local, policy=SLICED)
            T.copy(A[by * block_M, block_K], A_tile)
            T.copy(B[block_K, 0], B_tile)
            T.gemm(A_tile, B_tile, C_local, policy=SLICED)
        elif how == "branch":
            for half in T.serial(2):
                for k in T.serial(K // block_K):
                    if k % 2 == half:
                        T.copy(A[by * block_M, k * block_K], A_tile)
                        T.copy(B[k * block_K, 0], B_tile)
                        T.gemm(A_tile, B_tile, C_local, policy=SLICED)
        else:
            for k in T.Pipelined(K // block_K, num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_tile)
                T.copy(B[k * block_K, 0], B_tile)
                T.gemm(A_tile, B_tile, C_local, policy=SLICED)
        if how == "again":
            T.copy(C_local, C[by * block_M, 0])
            T.clear(C_local)
            for k in T.Pipelined(K // block_K, num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_tile)
                T.copy(B[k * block_K, 0], B_tile)
                T.gemm(A_tile, B_tile, C_local, policy=SLICED)
            for i, j in T.Parallel(block_M, N):
                if by * block_M + i < M:
                    C[by * block_M + i, j] = C[by * block_M + i, j] + C_local[i, j]
        elif how == "atomic":
            T.atomic_add(C[by * block_M, 0], C_local)
        elif how == "rows":
            T.reduce_sum(C_local, sums, dim=1)
            for i, j in T.Parallel(block_M, N):
                C_local[i, j] = T.if_then_else(j == N - 1, sums[i], C_local[i, j])
            T.copy(C_local, C[by * block_M, 0])
        else:
            T.copy(C_local, C[by * block_M, 0])


@tilegen.jit
def chained(A, B, D, N=32, P=32, block_M=64, block_K=64, num_stages=2, threads=256):
    """C = relu(A · B) · D: the sums of a shared k become the left operand of a gemm whose rows are divided."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    D: T.Tensor((N, P), T.float16)
    C = T.empty((M, P), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as by:
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, N), T.float16)
        D_shared = T.alloc_shared((N, P), T.float16)
        S_shared = T.alloc_shared((block_M, N), T.float16)
        S = T.alloc_fragment((block_M, N), T.float32)
        C_local = T.alloc_fragment((block_M, P), T.float32)
        T.clear(S)
        T.copy(D, D_shared)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, 0], B_shared)
            T.gemm(A_shared, B_shared, S, policy=SLICED)
        for i, j in T.Parallel(block_M, N):
            S_shared[i, j] = T.max(S[i, j], 0)
        T.gemm(S_shared, D_shared, C_local, clear_accum=True, policy=SLICED)
        T.copy(C_local, C[by * block_M, 0])
    return C
