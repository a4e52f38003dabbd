"""Tile programs around a plain matrix product: which tiles a block computes, and what becomes of their sums.

Every program takes what it does from generation-time parameters, so that one function stands for many kernels.
"""

# mypy: ignore-errors

import tilegen
import tilegen.language as T


@tilegen.jit
def persistent_tiles(A, B, blocks=5, group=0, block_M=64, block_N=64, block_K=32, num_stages=2, threads=128):
    """C = relu(A · B), the blocks walking the tiles by an explicit T.Persistent loop."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(blocks, threads=threads) as block:
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        for by, bx in T.Persistent(
            [T.ceildiv(M, block_M), T.ceildiv(N, block_N)], blocks, block, group_size=group or None
        ):
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = T.max(C_local[i, j], 0)
            T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tilegen.jit
def split_k(
    A,
    B,
    C,
    splits=3,
    by_element=False,
    block_M=64,
    block_N=64,
    block_K=32,
    num_stages=2,
    threads=128,
    scale=1.0,
):
    """C += scale · A · B: blocks along the third grid axis share K and add up atomically, tile-wise or by element."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C: T.Tensor((M, N), T.float32)
    steps = T.ceildiv(T.ceildiv(K, block_K), splits)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), splits, threads=threads) as (bx, by, bz):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(steps, num_stages=num_stages):
            T.copy(A[by * block_M, (bz * steps + k) * block_K], A_shared)
            T.copy(B[(bz * steps + k) * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        if scale != 1.0:
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] *= scale
        if by_element:
            for i, j in T.Parallel(block_M, block_N):
                T.atomic_add(C[by * block_M + i, bx * block_N + j], C_local[i, j])
        else:
            T.atomic_add(C[by * block_M, bx * block_N], C_local)


@tilegen.jit
def row_statistics(A, B, block_M=64, block_N=64, block_K=32, num_stages=2, threads=128):
    """The largest and the sum of each row of A · B, a gemm's accumulators reduced across the tiles of a row."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    largest = T.empty((M,), T.float32)
    total = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as by:
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        sums = T.alloc_fragment((block_M,), T.float32)
        T.fill(top, -T.infinity(T.float32))
        T.clear(sums)
        for j in T.serial(T.ceildiv(N, block_N)):
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, j * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.reduce_sum(C_local, sums, dim=1, clear=False)
            for i, n in T.Parallel(block_M, block_N):
                C_local[i, n] = T.if_then_else(j * block_N + n < N, C_local[i, n], -T.infinity(T.float32))
            T.reduce_max(C_local, top, dim=1, clear=False)
        T.copy(top, largest[by * block_M])
        T.copy(sums, total[by * block_M])
    return largest, total


@tilegen.jit
def gathered_epilogue(A, B, block_M=64, block_N=64, block_K=32, num_stages=2, threads=128):
    """C transposed, and its column sums: accumulators that other threads need."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C_t = T.empty((N, M), T.float16)
    sums = T.empty((T.ceildiv(M, block_M), N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        C_shared = T.alloc_shared((block_M, block_N), T.float16)
        column = T.alloc_fragment((block_N,), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.reduce_sum(C_local, column, dim=0)
        T.copy(C_local, C_shared)
        for j, i in T.Parallel(block_N, block_M):
            C_t[bx * block_N + j, by * block_M + i] = C_shared[i, j]
        for j in T.Parallel(block_N):
            sums[by, bx * block_N + j] = column[j]
    return C_t, sums


@tilegen.jit
def last_tiles(A, B, block_M=64, block_N=64, block_K=32, num_stages=2, threads=128):
    """C = A · B, and the last tile of A that the loop loaded, read after it: no ring may hold it."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    last = T.empty((M, block_K), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])
        if bx == 0:
            T.copy(A_shared, last[by * block_M, 0])
    return C, last


@tilegen.jit
def passed_on(A, B, rounds=3, N=64, block_M=64, threads=128):
    """X = A, then `rounds` times X = relu(X · B) / 8 through one shared tile that the gemm reads and threads overwrite;
    a second tile, that nothing but threads touch, asks for barriers of its own in between."""
    M = T.const("M")
    A: T.Tensor((M, N), T.float16)
    B: T.Tensor((N, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as by:
        X = T.alloc_shared((block_M, N), T.float16)
        B_shared = T.alloc_shared((N, N), T.float16)
        turned = T.alloc_shared((N, block_M), T.float16)
        X_local = T.alloc_fragment((block_M, N), T.float32)
        T.copy(B, B_shared)
        T.copy(A[by * block_M, 0], X)
        for _ in T.serial(rounds):
            T.clear(X_local)
            T.gemm(X, B_shared, X_local)
            for i, j in T.Parallel(block_M, N):
                X_local[i, j] = T.max(X_local[i, j], 0) / 8
            T.copy(X_local, X)
            for j, i in T.Parallel(N, block_M):
                turned[j, i] = X[i, j] + 1
            for i, j in T.Parallel(block_M, N):
                X_local[i, j] = turned[j, i] - 1
        T.copy(X_local, C[by * block_M, 0])
    return C


@tilegen.jit
def positions(A, B, table, how="named", block_M=64, block_N=64, block_K=32, num_stages=2, threads=128):
    """C = A · B where the loop's position has a name ("named"), is counted beside the loop ("counted"), is chosen by a
    branch ("branch"), or is read from a table ("table": tile table[k] of the operands in step k)."""
    M, N, K, steps = T.const("M, N, K, steps")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    table: T.Tensor((steps,), T.int32)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        counted = T.alloc_var(T.int32, init=0)
        row = by * block_M
        T.clear(C_local)
        for k in T.Pipelined(steps, num_stages=num_stages):
            at = k * block_K
            if how == "counted":
                at = counted
            elif how == "table":
                at = table[k] * block_K
            T.copy(A[row, at], A_shared)
            if how == "branch":
                if k % 2 == 0:
                    T.copy(B[at, bx * block_N], B_shared)
                else:
                    T.copy(B[at : at + block_K, bx * block_N : (bx + 1) * block_N], B_shared)
            else:
                T.copy(B[at, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
            counted = counted + block_K
        T.copy(C_local, C[row, bx * block_N])
    return C
