"""Tile programs that permute and extend the statements of a plain matrix product.

Every program takes what it does from generation-time parameters, so that one function stands for many kernels.
"""

# mypy: ignore-errors

import tilegen
import tilegen.language as T

POLICIES = {
    "square": T.GemmWarpPolicy.Square,
    "full_row": T.GemmWarpPolicy.FullRow,
    "full_col": T.GemmWarpPolicy.FullCol,
    "sliced_k": T.GemmWarpPolicy.SlicedK,
}


@tilegen.jit
def product(
    A,
    B,
    bias,
    residual,
    dtype="float16",
    out_dtype="float16",
    transpose_A=False,
    transpose_B=False,
    block_M=64,
    block_N=64,
    block_K=32,
    num_stages=2,
    threads=128,
    policy="square",
    panel=0,
    persistent=None,
    cluster=None,
    b_first=False,
    start=0.0,
    epilogue=(),
):
    """C = epilogue(start + A · B): loads in either order, any list of element-wise steps behind the loop."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M) if transpose_A else (M, K), dtype)
    B: T.Tensor((N, K) if transpose_B else (K, N), dtype)
    bias: T.Tensor((N,), dtype)
    residual: T.Tensor((M, N), dtype)
    C = T.empty((M, N), out_dtype)
    grid = T.ceildiv(N, block_N), T.ceildiv(M, block_M)
    with T.Kernel(*grid, threads=threads, persistent=persistent, cluster_dims=cluster) as (bx, by):
        A_shared = T.alloc_shared((block_K, block_M) if transpose_A else (block_M, block_K), dtype)
        B_shared = T.alloc_shared((block_N, block_K) if transpose_B else (block_K, block_N), dtype)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        if panel:
            T.use_swizzle(panel)
        T.fill(C_local, start)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            if b_first:
                T.copy(
                    B[bx * block_N, k * block_K] if transpose_B else B[k * block_K, bx * block_N], B_shared
                )
            T.copy(A[k * block_K, by * block_M] if transpose_A else A[by * block_M, k * block_K], A_shared)
            if not b_first:
                T.copy(
                    B[bx * block_N, k * block_K] if transpose_B else B[k * block_K, bx * block_N], B_shared
                )
            T.gemm(A_shared, B_shared, C_local, transpose_A, transpose_B, policy=POLICIES[policy])
        for step in epilogue:
            if step == "bias":
                for i, j in T.Parallel(block_M, block_N):
                    C_local[i, j] += bias[bx * block_N + j]
            elif step == "relu":
                for i, j in T.Parallel(block_M, block_N):
                    C_local[i, j] = T.max(C_local[i, j], 0)
            elif step == "scale":
                for i, j in T.Parallel(block_M, block_N):
                    C_local[i, j] *= 0.25
            elif step == "residual":
                for i, j in T.Parallel(block_M, block_N):
                    C_local[i, j] += residual[by * block_M + i, bx * block_N + j]
            elif step == "residual_tile":
                R_local = T.alloc_fragment((block_M, block_N), dtype)
                T.copy(residual[by * block_M, bx * block_N], R_local)
                for i, j in T.Parallel(block_M, block_N):
                    C_local[i, j] += R_local[i, j]
            elif step == "round":
                C_rounded = T.alloc_fragment((block_M, block_N), dtype)
                T.copy(C_local, C_rounded)
                T.copy(C_rounded, C_local)
            elif step == "through_shared":
                C_shared = T.alloc_shared((block_M, block_N), T.float32)
                T.copy(C_local, C_shared)
                T.copy(C_shared, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tilegen.jit
def two_products(
    A,
    B,
    D,
    shape="side_by_side",
    block_M=64,
    block_N=64,
    block_K=32,
    num_stages=2,
    threads=128,
    swapped=False,
):
    """Two gemms in one loop: A · B and A · D into accumulators of their own ("side_by_side": relu(A · B) + A · D;
    "kept_apart": two outputs), or into the same ones ("same": A · B + A · D)."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    D: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    E = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        D_shared = T.alloc_shared((block_K, block_N), T.float16)
        first = T.alloc_fragment((block_M, block_N), T.float32)
        second = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(first)
        T.clear(second)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            if not swapped:
                T.gemm(A_shared, B_shared, first)
            T.copy(D[k * block_K, bx * block_N], D_shared)
            T.gemm(A_shared, D_shared, first if shape == "same" else second)
            if swapped:
                T.gemm(A_shared, B_shared, first)
        if shape == "side_by_side":
            for i, j in T.Parallel(block_M, block_N):
                first[i, j] = T.max(first[i, j], 0) + second[i, j]
        T.copy(first, C[by * block_M, bx * block_N])
        T.copy(second if shape == "kept_apart" else first, E[by * block_M, bx * block_N])
    return C, E


@tilegen.jit
def written_operand(
    A, B, which="A", where="inside", block_M=64, block_N=64, block_K=32, num_stages=2, threads=128
):
    """C = (2 A) · B or A · (2 B): threads double an operand on its way and the gemm reads the tile that they wrote;
    "through_fragment" goes from shared memory through registers back, "inside" straight from tile to tile."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        rows, columns = (block_M, block_K) if which == "A" else (block_K, block_N)
        doubled = T.alloc_shared((rows, columns), T.float16)
        held = T.alloc_fragment((rows, columns), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            source = A_shared if which == "A" else B_shared
            if where == "inside":
                for i, j in T.Parallel(rows, columns):
                    doubled[i, j] = source[i, j] * 2
            else:
                T.copy(source, held)
                for i, j in T.Parallel(rows, columns):
                    held[i, j] = held[i, j] * 2
                T.copy(held, doubled)
            if which == "A":
                T.gemm(doubled, B_shared, C_local)
            else:
                T.gemm(A_shared, doubled, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tilegen.jit
def chained(A, B, D, through="registers", N=64, P=64, block_M=64, block_K=32, num_stages=2, threads=128):
    """C = relu(A · B) · D: the first product becomes an operand of the second, in registers or through shared tiles."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    D: T.Tensor((N, P), T.float16)
    C = T.empty((M, P), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as by:
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, N), T.float16)
        D_shared = T.alloc_shared((N, P), T.float16)
        S = T.alloc_fragment((block_M, N), T.float32)
        S_half = T.alloc_fragment((block_M, N), T.float16)
        C_local = T.alloc_fragment((block_M, P), T.float32)
        T.clear(S)
        T.copy(D, D_shared)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, 0], B_shared)
            T.gemm(A_shared, B_shared, S)
        for i, j in T.Parallel(block_M, N):
            S_half[i, j] = T.max(S[i, j], 0)
        if through == "registers":
            T.gemm(S_half, D_shared, C_local, clear_accum=True)
        else:
            S_shared = T.alloc_shared((block_M, N), T.float16)
            T.copy(S_half, S_shared)
            T.clear(C_local)
            T.gemm(S_shared, D_shared, C_local)
        T.copy(C_local, C[by * block_M, 0])
    return C


@tilegen.jit
def accumulators_again(A, B, between="store", block_M=64, block_N=64, block_K=32, num_stages=2, threads=128):
    """The same accumulators in two loops. Between them: "store" leaves A · B in `first`, "halve" halves it in place,
    "clear" starts anew, "fill" starts from 3; afterwards A · B is added once more."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    first = T.empty((M, N), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, first[by * block_M, bx * block_N])
        if between == "halve":
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = C_local[i, j] * 0.5
        elif between == "clear":
            T.clear(C_local)
        elif between == "fill":
            T.fill(C_local, 3)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return first, C


@tilegen.jit
def cleared_inside(A, B, how="fill", block_M=64, block_N=64, block_K=32, num_stages=2, threads=128):
    """C = sum over k of |A_k · B_k|: each step's product starts anew ("fill", "clear" or the gemm's own flag) and is
    worked on before the next."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        part = T.alloc_fragment((block_M, block_N), T.float32)
        total = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            if how == "fill":
                T.fill(part, 1.5)
            elif how == "clear":
                T.clear(part)
            T.gemm(A_shared, B_shared, part, clear_accum=how == "flag")
            for i, j in T.Parallel(block_M, block_N):
                total[i, j] += T.abs(part[i, j])
        T.copy(total, C[by * block_M, bx * block_N])
    return C


@tilegen.jit
def loaded_once(A, B, block_M=64, block_N=64, block_K=32, num_stages=2, threads=128, staged=True):
    """C = A · B where A's rows stay in shared memory while B's columns pass: loops in the other order, with a store in
    every iteration."""
    M, N = T.const("M, N")
    A: T.Tensor((M, block_K), T.float16)
    B: T.Tensor((block_K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as by:
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_shared = T.alloc_shared((block_M, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.copy(A[by * block_M, 0], A_shared)
        for j in T.Pipelined(T.ceildiv(N, block_N), num_stages=num_stages):
            T.copy(B[0, j * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local, clear_accum=True)
            if staged:
                T.copy(C_local, C_shared)
                T.copy(C_shared, C[by * block_M, j * block_N])
            else:
                T.copy(C_local, C[by * block_M, j * block_N])
    return C
