"""Tile programs of the language's single pieces: moves, reductions, functions, casts, broadcasts and guards.

Every program takes what it does from generation-time parameters, so that one function stands for many kernels.
"""

# mypy: ignore-errors

import tilegen
import tilegen.language as T

UNARY = {
    name: getattr(T, name)
    for name in (
        "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
        "atan", "sinh", "cosh", "tanh", "sigmoid", "erf", "floor", "ceil", "round", "trunc", "abs",
    )
}  # fmt: skip


@tilegen.jit
def moved_1(X, path="", tile=(96,), dtypes=(), threads=128):
    M = T.const("M")
    X: T.Tensor((M,), dtypes[0])
    Y = T.empty((M,), dtypes[-1])
    with T.Kernel(T.ceildiv(M, tile[0]), threads=threads) as bx:
        held = X[bx * tile[0] : (bx + 1) * tile[0]]
        for scope, dtype in zip(path, dtypes[1:], strict=False):
            step = T.alloc_shared(tile, dtype) if scope == "s" else T.alloc_fragment(tile, dtype)
            T.copy(held, step)
            held = step
        T.copy(held, Y[bx * tile[0] : (bx + 1) * tile[0]])
    return Y


@tilegen.jit
def moved_2(X, path="", tile=(32, 32), dtypes=(), threads=128):
    """`t` in the path is a fragment that takes the tile before it transposed (tiles are square then)."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtypes[0])
    Y = T.empty((M, N), dtypes[-1])
    with T.Kernel(T.ceildiv(N, tile[1]), T.ceildiv(M, tile[0]), threads=threads) as (bx, by):
        held = X[by * tile[0] : (by + 1) * tile[0], bx * tile[1] : (bx + 1) * tile[1]]
        for scope, dtype in zip(path, dtypes[1:], strict=False):
            step = T.alloc_shared(tile, dtype) if scope == "s" else T.alloc_fragment(tile, dtype)
            if scope == "t":
                for i, j in T.Parallel(tile[0], tile[1]):
                    step[i, j] = held[j, i]
            else:
                T.copy(held, step)
            held = step
        T.copy(held, Y[by * tile[0] : (by + 1) * tile[0], bx * tile[1] : (bx + 1) * tile[1]])
    return Y


@tilegen.jit
def moved_3(X, path="", tile=(2, 8, 24), dtypes=(), threads=128):
    L, M, N = T.const("L, M, N")
    X: T.Tensor((L, M, N), dtypes[0])
    Y = T.empty((L, M, N), dtypes[-1])
    a, b, c = tile
    with T.Kernel(T.ceildiv(N, c), T.ceildiv(M, b), T.ceildiv(L, a), threads=threads) as (bx, by, bz):
        held = X[bz * a : (bz + 1) * a, by * b : (by + 1) * b, bx * c : (bx + 1) * c]
        for scope, dtype in zip(path, dtypes[1:], strict=False):
            step = T.alloc_shared(tile, dtype) if scope == "s" else T.alloc_fragment(tile, dtype)
            T.copy(held, step)
            held = step
        T.copy(held, Y[bz * a : (bz + 1) * a, by * b : (by + 1) * b, bx * c : (bx + 1) * c])
    return Y


@tilegen.jit
def reduced_1(X, kind="sum", dtype: T.dtype = T.float32, out_dtype="float32", clear=True, threads=128):
    """A whole vector to one number."""
    N = T.const("N")
    X: T.Tensor((N,), dtype)
    Y = T.empty((1,), out_dtype)
    with T.Kernel(1, threads=threads) as _:
        x = T.alloc_fragment((N,), dtype)
        y = T.alloc_fragment((1,), out_dtype)
        T.copy(X, x)
        if not clear:
            T.fill(y, 3)
        T.reduce(x, y, kind, dim=0, clear=clear)
        T.copy(y, Y)
    return Y


@tilegen.jit
def reduced_2(
    X, kind="sum", dim=1, dtype: T.dtype = T.float32, out_dtype="float32", clear=True, keep=False, threads=128
):
    """A whole matrix along either axis, which `keep` leaves with extent 1."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    shape = (M, N)[1 - dim : 2 - dim]
    if keep:
        shape = (M, 1) if dim == 1 else (1, N)
    Y = T.empty(shape, out_dtype)
    with T.Kernel(1, threads=threads) as _:
        x = T.alloc_fragment((M, N), dtype)
        y = T.alloc_fragment(shape, out_dtype)
        T.copy(X, x)
        if not clear:
            T.fill(y, 3)
        T.reduce(x, y, kind, dim=dim, clear=clear)
        T.copy(y, Y)
    return Y


@tilegen.jit
def reduced_3(X, kind="sum", dim=1, dtype: T.dtype = T.float32, out_dtype="float32", threads=128):
    """A tensor of three axes along one of them, then what is left along its last one."""
    L, M, N = T.const("L, M, N")
    X: T.Tensor((L, M, N), dtype)
    left = tuple(extent for axis, extent in enumerate((L, M, N)) if axis != dim)
    Y = T.empty(left, out_dtype)
    Z = T.empty(left[:1], out_dtype)
    with T.Kernel(1, threads=threads) as _:
        x = T.alloc_fragment((L, M, N), dtype)
        y = T.alloc_fragment(left, out_dtype)
        z = T.alloc_fragment(left[:1], out_dtype)
        T.copy(X, x)
        T.reduce(x, y, kind, dim=dim)
        T.reduce(y, z, kind, dim=-1)
        T.copy(y, Y)
        T.copy(z, Z)
    return Y, Z


@tilegen.jit
def functions(X, Y, names=(), dtype: T.dtype = T.float32, block=64, threads=64):
    """One row of the output for each function of X, then the functions of two or three numbers."""
    N = T.const("N")
    X: T.Tensor((N,), dtype)
    Y: T.Tensor((N,), dtype)
    Z = T.empty((len(names) + 9, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        for k, name in enumerate(names):
            for i in T.Parallel(block):
                Z[k, bx * block + i] = UNARY[name](X[bx * block + i])
        for i in T.Parallel(block):
            x = X[bx * block + i]
            y = Y[bx * block + i]
            at = bx * block + i
            row = len(names)
            Z[row, at] = T.max(x, y)
            Z[row + 1, at] = T.min(x, y)
            Z[row + 2, at] = T.pow(x, y)
            Z[row + 3, at] = T.fma(x, y, x)
            Z[row + 4, at] = T.clamp(x, 0.5, 0.75)
            Z[row + 5, at] = x / y
            Z[row + 6, at] = -x
            Z[row + 7, at] = T.if_then_else(x > y, x - y, y * y)
            Z[row + 8, at] = T.if_then_else(T.isnan(x) or T.isinf(y) or not T.isfinite(x), 1, 0)
    return Z


@tilegen.jit
def integers(X, Y, dtype: T.dtype = T.int32, block=64, threads=64):
    """Integer operators; // and % round down as Python's do."""
    N = T.const("N")
    X: T.Tensor((N,), dtype)
    Y: T.Tensor((N,), dtype)
    Z = T.empty((14, N), dtype)
    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        for i in T.Parallel(block):
            if bx * block + i < N:
                at = bx * block + i
                x = X[at]
                y = Y[at]
                Z[0, at] = x + y
                Z[1, at] = x - y
                Z[2, at] = x * y
                Z[3, at] = x // y
                Z[4, at] = x % y
                Z[5, at] = x & y
                Z[6, at] = x | y
                Z[7, at] = x ^ y
                Z[8, at] = ~x
                Z[9, at] = x << 2
                Z[10, at] = x >> 1
                Z[11, at] = T.max(x, y)
                Z[12, at] = T.min(x, y)
                Z[13, at] = T.if_then_else(x < y or x == 5, 1, 0)
    return Z


@tilegen.jit
def casts(X, dtype: T.dtype = T.float32, block=256, threads=64):
    """X in every type."""
    N = T.const("N")
    X: T.Tensor((N,), dtype)
    A = T.empty((N,), T.float16)
    B = T.empty((N,), T.bfloat16)
    C = T.empty((N,), T.float32)
    D = T.empty((N,), T.float64)
    E = T.empty((N,), T.int8)
    F = T.empty((N,), T.uint8)
    G = T.empty((N,), T.int16)
    H = T.empty((N,), T.int32)
    I = T.empty((N,), T.int64)
    J = T.empty((N,), T.uint32)
    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        for Y in (A, B, C, D, E, F, G, H, I, J):
            for i in T.Parallel(block):
                Y[bx * block + i] = T.cast(X[bx * block + i], Y.dtype)
    return A, B, C, D, E, F, G, H, I, J


@tilegen.jit
def broadcast(X, A, B, C, D, dtype: T.dtype = T.float32, rows=4, block=32, threads=128):
    """X[l, m, n] * A[n] + B[m, 0] - C[l, 0, n] * D[0, m, n], a tile at a time."""
    L, M, N = T.const("L, M, N")
    X: T.Tensor((L, M, N), dtype)
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((M, 1), dtype)
    C: T.Tensor((L, 1, N), dtype)
    D: T.Tensor((1, M, N), dtype)
    Y = T.empty((L, M, N), dtype)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, rows), L, threads=threads) as (bx, by, bz):
        a = T.alloc_fragment((block,), T.float32)
        T.copy(A[bx * block], a)
        for i, j in T.Parallel(rows, block):
            m = by * rows + i
            n = bx * block + j
            Y[bz, m, n] = X[bz, m, n] * a[j] + B[m, 0] - C[bz, 0, n] * D[0, m, n]
    return Y


@tilegen.jit
def stencil(X, Y, rows=8, block=32, threads=128):
    """Neighbours beyond the edge count as 0; odd columns of the edge rows are left alone."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, rows), threads=threads) as (bx, by):
        for i, j in T.Parallel(rows, block):
            m = by * rows + i
            n = bx * block + j
            if m < M and n < N:
                total = X[m, n] * 4
                if m > 0:
                    total -= X[m - 1, n]
                if m + 1 < M:
                    total -= X[m + 1, n]
                left = T.if_then_else(n > 0, X[m, n - 1], 0)
                right = T.if_then_else(n + 1 < N, X[m, n + 1], 0)
                if (m > 0 and m < M - 1) or n % 2 == 0:
                    Y[m, n] = total - left - right


@tilegen.jit
def symmetric(X, tile=32, threads=128):
    """Y = X + X.T of each square tile, both from one fragment: other threads hold what the second reads."""
    M = T.const("M")
    X: T.Tensor((M, tile), T.float32)
    Y = T.empty((M, tile), T.float32)
    with T.Kernel(T.ceildiv(M, tile), threads=threads) as bx:
        x = T.alloc_fragment((tile, tile), T.float32)
        y = T.alloc_fragment((tile, tile), T.float32)
        T.copy(X[bx * tile, 0], x)
        for i, j in T.Parallel(tile, tile):
            y[i, j] = x[i, j] + x[j, i]
        T.copy(y, Y[bx * tile, 0])
    return Y


@tilegen.jit
def chain(X, V, steps=(), tile=(16, 32), threads=128):
    """Steps on a tile `x`, a number `row` for each of its rows and `column` for each of its columns."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    V: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float32)
    R = T.empty((M, T.ceildiv(N, tile[1])), T.float32)
    r, c = tile
    with T.Kernel(T.ceildiv(N, c), T.ceildiv(M, r), threads=threads) as (bx, by):
        x = T.alloc_fragment((r, c), T.float32)
        row = T.alloc_fragment((r,), T.float32)
        column = T.alloc_fragment((c,), T.float32)
        T.copy(X[by * r, bx * c], x)
        T.fill(row, 0.5)
        T.copy(V[bx * c], column)
        for step in steps:
            if step == "scale_rows":
                for i, j in T.Parallel(r, c):
                    x[i, j] *= row[i]
            elif step == "add_columns":
                for i, j in T.Parallel(r, c):
                    x[i, j] = x[i, j] + column[j]
            elif step == "outer":
                for i, j in T.Parallel(r, c):
                    x[i, j] += row[i] * column[j]
            elif step == "mean_rows":
                row = T.alloc_fragment((r,), T.float32)
                T.reduce_sum(x, row, dim=1)
                for i in T.Parallel(r):
                    row[i] = row[i] / c
            elif step == "max_rows":
                row = T.alloc_fragment((r,), T.float32)
                T.fill(row, 0.25)
                T.reduce_max(x, row, dim=1, clear=False)
            elif step == "max_columns":
                column = T.alloc_fragment((c,), T.float32)
                T.reduce_absmax(x, column, dim=0)
            elif step == "halve":
                y = T.alloc_fragment((r, c), T.float16)
                T.copy(x, y)
                x = T.alloc_fragment((r, c), T.float32)
                T.copy(y, x)
            elif step == "through_shared":
                s = T.alloc_shared((r, c), T.float32)
                T.copy(x, s)
                T.copy(s, x)
            elif step == "turn":
                s = T.alloc_shared((r, c), T.float32)
                T.copy(x, s)
                for i, j in T.Parallel(r, c):
                    x[i, j] = s[(i + 1) % r, (j + 3) % c]
            elif step == "mirror":
                y = T.alloc_fragment((r, c), T.float32)
                for i, j in T.Parallel(r, c):
                    y[i, j] = x[r - 1 - i, j]
                x = y
            elif step == "transpose":
                y = T.alloc_fragment((r, c), T.float32)
                for i, j in T.Parallel(r, c):
                    y[i, j] = x[j, i]
                x = y
            elif step == "exponent":
                for i, j in T.Parallel(r, c):
                    x[i, j] = T.exp2(T.min(x[i, j], 4) * 0.5)
            elif step == "where":
                for i, j in T.Parallel(r, c):
                    if (i + j) % 3 == 0:
                        x[i, j] = -x[i, j]
        T.copy(x, Y[by * r, bx * c])
        for i in T.Parallel(r):
            R[by * r + i, bx] = row[i]
    return Y, R
