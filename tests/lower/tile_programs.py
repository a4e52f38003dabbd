"""Tile programs of the lowering tests; each is a plain function that `tilegen.frontend.parse` reads."""

# mypy: ignore-errors

import tilegen.language as T


def scale(X, bm: int = 4, cols: int = 512, threads: int = 128):
    M = T.const("M")
    X: T.Tensor((M, cols), T.float16)
    Y = T.empty((M, cols), T.float16)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as bx:
        x = T.alloc_fragment((bm, cols), T.float16)
        f = T.alloc_fragment((bm, cols), T.float32)
        T.copy(X[bx * bm, 0], x)
        for i, j in T.Parallel(bm, cols):
            f[i, j] = x[i, j]
        for i, j in T.Parallel(bm, cols):
            Y[bx * bm + i, j] = T.exp2(f[i, j] * 2.0)
    return Y


def add_one(X, bm: int = 4, cols: int = 229, threads: int = 128):
    M = T.const("M")
    X: T.Tensor((M, cols), T.float32)
    Y = T.empty((M, cols), T.float32)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as bx:
        x = T.alloc_fragment((bm, cols), T.float32)
        T.copy(X[bx * bm, 0], x)
        for i, j in T.Parallel(bm, cols):
            x[i, j] = x[i, j] + 1.0
        T.copy(x, Y[bx * bm, 0])
    return Y


def multiply(X, Z, block: int = 1024, threads: int = 128):
    N = T.const("N")
    X: T.Tensor((N,), T.float16)
    Z: T.Tensor((N,), T.float16)
    Y = T.empty((N,), T.float16)
    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        for i in T.Parallel(block):
            Y[bx * block + i] = X[bx * block + i] * Z[bx * block + i] + 1.0
    return Y


def broadcast(X, B, threads: int = 128):
    P, Q, R = T.const("P, Q, R")
    X: T.Tensor((P, Q, R), T.float32)
    B: T.Tensor((R,), T.float32)
    Y = T.empty((P, Q, R), T.float16)
    with T.Kernel(T.ceildiv(R, 32), T.ceildiv(Q, 8), P, threads=threads) as (bx, by, bz):
        for i, j in T.Parallel(8, 32):
            Y[bz, by * 8 + i, bx * 32 + j] = X[bz, by * 8 + i, bx * 32 + j] * B[bx * 32 + j]
    return Y


def transpose(X, bm: int = 64, bn: int = 64, threads: int = 128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((N, M), T.float16)
    with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
        s = T.alloc_shared((bm, bn), T.float16)
        T.copy(X[by * bm, bx * bn], s)
        for i, j in T.Parallel(bn, bm):
            Y[bx * bn + i, by * bm + j] = s[j, i]
    return Y


def all_paths(X, n: int = 64, threads: int = 128):
    M = T.const("M")
    X: T.Tensor((M, n), T.float16)
    Y = T.empty((M, n), T.float32)
    with T.Kernel(T.ceildiv(M, n), threads=threads) as bx:
        s = T.alloc_shared((n, n), T.float16)
        f = T.alloc_fragment((n, n), T.float16)
        g = T.alloc_fragment((n, n), T.float32)
        s2 = T.alloc_shared((n, n), T.float32)
        T.copy(X[bx * n, 0], s)
        T.copy(s, f)
        T.copy(f, g)
        T.copy(g, s2)
        T.copy(s2, Y[bx * n, 0])
    return Y


def halves(X, n: int = 64, threads: int = 128):
    M = T.const("M")
    X: T.Tensor((M, 2 * n), T.float16)
    Y = T.empty((M, n), T.float16)
    with T.Kernel(T.ceildiv(M, n), threads=threads) as bx:
        a = T.alloc_fragment((n, n), T.float16)
        b = T.alloc_fragment((n, n), T.float16)
        s = T.alloc_shared((n, 2 * n), T.float16)
        T.copy(X[bx * n : bx * n + n, 0 : 2 * n], s)
        T.copy(s[:, 0:n], a)
        T.copy(s[:, n : 2 * n], b)
        for i, j in T.Parallel(n, n):
            a[i, j] = a[i, j] + b[i, j]
        T.copy(a, Y[bx * n, 0])
    return Y


def add_transposed(X, n: int = 64, threads: int = 128):
    M = T.const("M")
    X: T.Tensor((M, n), T.float32)
    Y = T.empty((M, n), T.float32)
    with T.Kernel(T.ceildiv(M, n), threads=threads) as bx:
        x = T.alloc_fragment((n, n), T.float32)
        y = T.alloc_fragment((n, n), T.float32)
        T.copy(X[bx * n, 0], x)
        for i, j in T.Parallel(n, n):
            y[i, j] = x[i, j] + 1.0
        for i, j in T.Parallel(n, n):
            y[i, j] = y[i, j] + x[j, i]
        T.copy(y, Y[bx * n, 0])
    return Y


def gram(X, n: int = 32, threads: int = 128):
    M, K = T.const("M, K")
    X: T.Tensor((M, K), T.float32)
    Y = T.empty((M, M), T.float32)
    with T.Kernel(T.ceildiv(M, n), T.ceildiv(M, n), threads=threads) as (bx, by):
        acc = T.alloc_fragment((n, n), T.float32)
        T.clear(acc)
        for i, j in T.Parallel(n, n):
            for k in T.serial(K):
                acc[i, j] += X[by * n + i, k] * X[bx * n + j, k]
        T.copy(acc, Y[by * n, bx * n])
    return Y


def mirrored_sum(X, n: int = 32, threads: int = 128):
    M, K = T.const("M, K")
    X: T.Tensor((M, K), T.float32)
    Y = T.empty((M, n), T.float32)
    with T.Kernel(T.ceildiv(M, n), threads=threads) as bx:
        s = T.alloc_shared((n, n), T.float32)
        acc = T.alloc_fragment((n, n), T.float32)
        T.clear(acc)
        for k in T.serial(T.ceildiv(K, n)):
            T.copy(X[bx * n, k * n], s)
            for i, j in T.Parallel(n, n):
                acc[i, j] += s[i, n - 1 - j]
        T.copy(acc, Y[bx * n, 0])
    return Y


def dequantise(B, S, n: int = 32, k: int = 64, threads: int = 128):
    N, K2, G = T.const("N, K2, G")
    B: T.Tensor((N, K2), T.uint8)
    S: T.Tensor((N, G), T.float16)
    Y = T.empty((N, K2 * 2), T.float16)
    with T.Kernel(T.ceildiv(N, n), threads=threads) as bx:
        packed = T.alloc_fragment((n, k // 2), T.uint8)
        w = T.alloc_fragment((n, k), T.float16)
        T.copy(B[bx * n, 0], packed)
        for i, j in T.Parallel(n, k):
            w[i, j] = T.cast((packed[i, j // 2] >> (j % 2 * 4)) & 15, T.float16) * S[bx * n + i, j // 32]
        T.copy(w, Y[bx * n, 0])
    return Y


def layer_norm(X, G, cols: int = 1000, threads: int = 128):
    M = T.const("M")
    X: T.Tensor((M, cols), T.float16)
    G: T.Tensor((cols,), T.float16)
    Y = T.empty((M, cols), T.float16)
    with T.Kernel(M, threads=threads) as bx:
        x = T.alloc_fragment((1, cols), T.float32)
        mean = T.alloc_fragment((1,), T.float32)
        var = T.alloc_fragment((1,), T.float32)
        squares = T.alloc_fragment((1, cols), T.float32)
        T.copy(X[bx, 0], x)
        T.reduce_sum(x, mean, dim=1)
        for i in T.Parallel(1):
            mean[i] = mean[i] / cols
        for i, j in T.Parallel(1, cols):
            squares[i, j] = (x[i, j] - mean[i]) * (x[i, j] - mean[i])
        T.reduce_sum(squares, var, dim=1)
        for i, j in T.Parallel(1, cols):
            x[i, j] = (x[i, j] - mean[i]) * T.rsqrt(var[i] / cols + 1e-5) * G[j]
        T.copy(x, Y[bx, 0])
    return Y


def row_reduction(X, kind: str = "sum", bm: int = 4, cols: int = 229, dim: int = 1, threads: int = 128):
    M = T.const("M")
    X: T.Tensor((M, cols), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as bx:
        x = T.alloc_fragment((bm, cols), T.float32)
        y = T.alloc_fragment((bm,), T.float32)
        T.copy(X[bx * bm, 0], x)
        T.reduce(x, y, kind, dim=1)
        T.copy(y, Y[bx * bm])
    return Y


def integer_reduction(X, kind: str = "bitxor", bm: int = 4, cols: int = 100, threads: int = 128):
    M = T.const("M")
    X: T.Tensor((M, cols), T.int32)
    Y = T.empty((M,), T.int32)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as bx:
        x = T.alloc_fragment((bm, cols), T.int32)
        y = T.alloc_fragment((bm,), T.int32)
        T.copy(X[bx * bm, 0], x)
        T.reduce(x, y, kind, dim=1)
        T.copy(y, Y[bx * bm])
    return Y


def column_reduction(X, kind: str = "sum", bm: int = 100, cols: int = 64, threads: int = 128):
    N = T.const("N")
    X: T.Tensor((bm, N), T.float16)
    Y = T.empty((N,), T.float16)
    with T.Kernel(T.ceildiv(N, cols), threads=threads) as bx:
        x = T.alloc_fragment((bm, cols), T.float16)
        y = T.alloc_fragment((cols,), T.float16)
        T.copy(X[0, bx * cols], x)
        T.reduce(x, y, kind, dim=0)
        T.copy(y, Y[bx * cols])
    return Y


def running_reduction(X, kind: str = "sum", n: int = 48, threads: int = 128):
    M, K = T.const("M, K")
    X: T.Tensor((M, K), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(M, threads=threads) as bx:
        x = T.alloc_fragment((1, n), T.float32)
        y = T.alloc_fragment((1,), T.float32)
        T.fill(y, 1.0)
        for k in T.serial(T.ceildiv(K, n)):
            T.copy(X[bx, k * n], x)
            T.reduce(x, y, kind, dim=1, clear=False)
        T.copy(y, Y[bx])
    return Y


def softmax(X, bm: int = 4, cols: int = 1024, threads: int = 128):
    M = T.const("M")
    X: T.Tensor((M, cols), T.bfloat16)
    Y = T.empty((M, cols), T.bfloat16)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as bx:
        x = T.alloc_fragment((bm, cols), T.float32)
        top = T.alloc_fragment((bm,), T.float32)
        total = T.alloc_fragment((bm,), T.float32)
        T.copy(X[bx * bm, 0], x)
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(bm, cols):
            x[i, j] = T.exp(x[i, j] - top[i])
        T.reduce_sum(x, total, dim=1)
        for i, j in T.Parallel(bm, cols):
            x[i, j] = x[i, j] / total[i]
        T.copy(x, Y[bx * bm, 0])
    return Y


def attention(Q, K, V, bm: int = 64, bn: int = 64, threads: int = 128, stages: int = 2):
    S, L, D = T.const("S, L, D")
    Q: T.Tensor((S, D), T.float16)
    K: T.Tensor((L, D), T.float16)
    V: T.Tensor((L, D), T.float16)
    O = T.empty((S, D), T.float16)
    LSE = T.empty((S,), T.float32)
    with T.Kernel(T.ceildiv(S, bm), threads=threads) as bx:
        Q_shared = T.alloc_shared((bm, D), T.float16)
        K_shared = T.alloc_shared((bn, D), T.float16)
        V_shared = T.alloc_shared((bn, D), T.float16)
        S_local = T.alloc_fragment((bm, bn), T.float32)
        P_local = T.alloc_fragment((bm, bn), T.float16)
        O_local = T.alloc_fragment((bm, D), T.float32)
        m = T.alloc_fragment((bm,), T.float32)
        m_new = T.alloc_fragment((bm,), T.float32)
        l = T.alloc_fragment((bm,), T.float32)
        row_sum = T.alloc_fragment((bm,), T.float32)
        alpha = T.alloc_fragment((bm,), T.float32)
        T.copy(Q[bx * bm, 0], Q_shared)
        T.clear(O_local)
        T.fill(m, -T.infinity(T.float32))
        T.fill(l, 0)
        for j in T.Pipelined(T.ceildiv(L, bn), num_stages=stages):
            T.copy(K[j * bn, 0], K_shared)
            T.copy(V[j * bn, 0], V_shared)
            T.gemm(Q_shared, K_shared, S_local, transpose_B=True, clear_accum=True)
            for a, b in T.Parallel(bm, bn):
                S_local[a, b] = T.if_then_else(j * bn + b < L, S_local[a, b] * 0.125, -T.infinity(T.float32))
            T.copy(m, m_new)
            T.reduce_max(S_local, m_new, dim=1, clear=False)
            for a in T.Parallel(bm):
                alpha[a] = T.exp2((m[a] - m_new[a]) * 1.44269504)
            for a, b in T.Parallel(bm, bn):
                S_local[a, b] = T.exp2((S_local[a, b] - m_new[a]) * 1.44269504)
            T.reduce_sum(S_local, row_sum, dim=1)
            for a in T.Parallel(bm):
                l[a] = l[a] * alpha[a] + row_sum[a]
                m[a] = m_new[a]
            for a, b in T.Parallel(bm, D):
                O_local[a, b] *= alpha[a]
            T.copy(S_local, P_local)
            T.gemm(P_local, V_shared, O_local)
        for a, b in T.Parallel(bm, D):
            O_local[a, b] /= l[a]
        T.copy(O_local, O[bx * bm, 0])
        for a in T.Parallel(bm):
            l[a] = m[a] + T.log(l[a])
        T.copy(l, LSE[bx * bm])
    return O, LSE


def column_windows(A, B, threads: int = 128):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 64), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((64, 32), T.float16)
        B_shared = T.alloc_shared((32, 128), T.float16)
        S = T.alloc_shared((64, 32), T.float32)
        c = T.alloc_fragment((64, 128), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[k * 32, bx * 128], B_shared)
            T.gemm(A_shared, B_shared, c)
        for q in T.serial(4):
            T.copy(c[:, q * 32 : q * 32 + 32], S)
            for i, j in T.Parallel(64, 32):
                C[by * 64 + i, bx * 128 + q * 32 + j] = S[i, j]
    return C


def folded(X, n: int = 64, threads: int = 128):
    M = T.const("M")
    X: T.Tensor((M, 2 * n), T.float16)
    Y = T.empty((M, n), T.float16)
    with T.Kernel(T.ceildiv(M, n), threads=threads) as bx:
        a = T.alloc_fragment((n, 2 * n), T.float16)
        T.copy(X[bx * n, 0], a)
        for i, j in T.Parallel(n, n):
            Y[bx * n + i, j] = a[i, j] + a[i, j + n]
    return Y


def histogram(X, H, block: int = 256, threads: int = 128):
    N, B = T.const("N, B")
    X: T.Tensor((N,), T.int32)
    H: T.Tensor((B,), T.int32)
    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        for i in T.Parallel(block):
            if bx * block + i < N:
                T.atomic_add(H[X[bx * block + i]], 1)


def add_tiles(X, Y, bm: int = 64, bn: int = 64, dtype: str = "float32", threads: int = 128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((M, N), dtype)
    with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
        x = T.alloc_fragment((bm, bn), T.float32)
        T.copy(X[by * bm, bx * bn], x)
        for _ in T.serial(3):
            T.atomic_add(Y[by * bm, bx * bn], x)


def row_extremes(X, Y, kind: str = "max", bm: int = 64, bn: int = 64, threads: int = 128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((M,), T.float32)
    with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
        x = T.alloc_fragment((bm, bn), T.float32)
        y = T.alloc_fragment((bm,), T.float32)
        T.copy(X[by * bm, bx * bn], x)
        T.reduce(x, y, kind, dim=1)
        if kind == "max":
            T.atomic_max(Y[by * bm], y)
        else:
            T.atomic_min(Y[by * bm], y)


def own_elements(X, n: int = 64, threads: int = 128):
    M = T.const("M")
    X: T.Tensor((M, n), T.float32)
    Y = T.empty((M, n), T.float32)
    with T.Kernel(T.ceildiv(M, n), threads=threads) as bx:
        s = T.alloc_shared((n, n), T.float32)
        T.copy(X[bx * n, 0], s)
        for i, j in T.Parallel(n, n):
            s[i, j] = s[i, j] * 2.0
        T.copy(s, Y[bx * n, 0])
    return Y


def column_sums(X, bm: int = 64, threads: int = 128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as bx:
        x = T.alloc_fragment((bm, N), T.float32)
        total = T.alloc_fragment((N,), T.float32)
        T.copy(X[bx * bm, 0], x)
        T.reduce_sum(x, total, dim=0)
        T.atomic_add(Y, total)
    return Y


def logical_reduction(
    X, Old, kind: str = "any", dim: int = 1, clear: bool = False, dtype=None, threads: int = 128
):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Old: T.Tensor((M if dim else N,), dtype)
    Y = T.empty((M if dim else N,), dtype)
    with T.Kernel(1, threads=threads):
        x = T.alloc_fragment((M, N), dtype)
        y = T.alloc_fragment((M if dim else N,), dtype)
        T.copy(X, x)
        T.copy(Old, y)
        T.reduce(x, y, kind, dim=dim, clear=clear)
        T.copy(y, Y)
    return Y
