"""Tile programs whose reductions have element-wise work to do, or must not."""

# mypy: ignore-errors

import tilegen.language as T

PLACES = ("source used later", "operand changed", "two readers", "target read", "memory read", "itself read")


def deviations(X, kind: str = "sum", dim: int = 1, bm: int = 4, cols: int = 229, threads: int = 128):
    """A reduction of (x - 0.5)^2, and of a multiple plus 0.25 to the old result."""
    M = T.const("M")
    X: T.Tensor((M, cols), T.float32)
    kept = bm if dim == 1 else cols
    Y = T.empty((T.ceildiv(M, bm), kept), T.float32)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as bx:
        x = T.alloc_fragment((bm, cols), T.float32)
        away = T.alloc_fragment((bm, cols), T.float32)
        y = T.alloc_fragment((kept,), T.float32)
        T.copy(X[bx * bm, 0], x)
        for i, j in T.Parallel(bm, cols):
            away[i, j] = (x[i, j] - 0.5) * (x[i, j] - 0.5)
        T.reduce(away, y, kind, dim=dim)
        for i, j in T.Parallel(bm, cols):
            away[i, j] = (x[i, j] - 0.5) * (x[i, j] - 0.5) * 0.75 + 0.25
        T.reduce(away, y, kind, dim=dim, clear=False)
        T.copy(y, Y[bx, 0])
    return Y


def bits(X, kind: str = "bitxor", bm: int = 4, cols: int = 100, threads: int = 128):
    M = T.const("M")
    X: T.Tensor((M, cols), T.int32)
    Y = T.empty((M,), T.int32)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as bx:
        x = T.alloc_fragment((bm, cols), T.int32)
        shifted = T.alloc_fragment((bm, cols), T.int32)
        y = T.alloc_fragment((bm,), T.int32)
        T.copy(X[bx * bm, 0], x)
        for i, j in T.Parallel(bm, cols):
            shifted[i, j] = (x[i, j] >> 1) & 0x0FFF
        T.reduce(shifted, y, kind, dim=1)
        T.copy(y, Y[bx * bm])
    return Y


def named(X, bm: int = 2, cols: int = 1000, threads: int = 128):
    """An element with a name for what it is made of; positions count too."""
    M = T.const("M")
    X: T.Tensor((M, cols), T.float16)
    Y = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as bx:
        x = T.alloc_fragment((bm, cols), T.float16)
        weighed = T.alloc_fragment((bm, cols), T.float32)
        top = T.alloc_fragment((bm,), T.float32)
        y = T.alloc_fragment((bm,), T.float32)
        T.copy(X[bx * bm, 0], x)
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(bm, cols):
            below = x[i, j] - top[i]
            weighed[i, j] = T.exp(below) * below * (j + 1)
        T.reduce_sum(weighed, y, dim=1)
        T.copy(y, Y[bx * bm])
    return Y


def rounded(X, bm: int = 4, cols: int = 512, threads: int = 128):
    """The squares are rounded to fp16 before they are added up."""
    M = T.const("M")
    X: T.Tensor((M, cols), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as bx:
        x = T.alloc_fragment((bm, cols), T.float32)
        squares = T.alloc_fragment((bm, cols), T.float16)
        y = T.alloc_fragment((bm,), T.float32)
        T.copy(X[bx * bm, 0], x)
        for i, j in T.Parallel(bm, cols):
            squares[i, j] = x[i, j] * x[i, j]
        T.reduce_sum(squares, y, dim=1)
        T.copy(y, Y[bx * bm])
    return Y


def running_squares(X, bm: int = 64, bn: int = 64, threads: int = 128):
    """Sums of squares of rows that are walked in tiles: lanes meet once, behind the loop."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as bx:
        x = T.alloc_fragment((bm, bn), T.float32)
        squares = T.alloc_fragment((bm, bn), T.float32)
        part = T.alloc_fragment((bm,), T.float32)
        total = T.alloc_fragment((bm,), T.float32)
        T.clear(total)
        for n in T.serial(T.ceildiv(N, bn)):
            T.copy(X[bx * bm, n * bn], x)
            for i, j in T.Parallel(bm, bn):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, part, dim=1)
            for i in T.Parallel(bm):
                total[i] += part[i]
        T.copy(total, Y[bx * bm])
    return Y


def row_norms(A, B, n: int = 64, k: int = 64, stages: int = 2, threads: int = 128):
    """Sums of squares of the rows of A B, which tensor cores leave in accumulators."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, n), T.float16)
    Y = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, 64), threads=threads) as bx:
        a = T.alloc_shared((64, k), T.float16)
        b = T.alloc_shared((k, n), T.float16)
        c = T.alloc_fragment((64, n), T.float32)
        squares = T.alloc_fragment((64, n), T.float32)
        y = T.alloc_fragment((64,), T.float32)
        T.clear(c)
        for at in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
            T.copy(A[bx * 64, at * k], a)
            T.copy(B[at * k, 0], b)
            T.gemm(a, b, c)
        for i, j in T.Parallel(64, n):
            squares[i, j] = c[i, j] * c[i, j]
        T.reduce_sum(squares, y, dim=1)
        T.copy(y, Y[bx * 64])
    return Y


def kept(X, place: str = "source used later", bm: int = 4, cols: int = 96, threads: int = 128):
    """What keeps the array of squares, one reason at a time."""
    M = T.const("M")
    X: T.Tensor((M, cols), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as bx:
        x = T.alloc_fragment((bm, cols), T.float32)
        squares = T.alloc_fragment((bm, cols), T.float32)
        y = T.alloc_fragment((bm,), T.float32)
        z = T.alloc_fragment((bm,), T.float32)
        T.fill(y, 2)
        T.clear(z)
        T.copy(X[bx * bm, 0], x)
        if place == "itself read":
            T.fill(squares, 1)
        for i, j in T.Parallel(bm, cols):
            if place == "memory read":
                squares[i, j] = x[i, j] * X[bx * bm + i, j]
            elif place == "target read":
                squares[i, j] = x[i, j] * x[i, j] * y[i]
            elif place == "itself read":
                squares[i, j] = x[i, j] * x[i, j] * squares[i, j]
            else:
                squares[i, j] = x[i, j] * x[i, j]
        if place == "operand changed":
            for i, j in T.Parallel(bm, cols):
                x[i, j] += 1
        T.reduce_sum(squares, y, dim=1)
        if place == "two readers":
            T.reduce_max(squares, z, dim=1)
        if place == "source used later":
            for i, j in T.Parallel(bm, cols):
                x[i, j] = squares[i, j] + 1
            T.reduce_max(x, z, dim=1)
        if place == "operand changed":
            T.reduce_max(x, z, dim=1)
        for i in T.Parallel(bm):
            Y[bx * bm + i] = y[i] + z[i]
    return Y
