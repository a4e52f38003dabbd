"""Tiles whose place or number an element of a tensor tells: where the kernel only reads it, the producer does, too."""

# mypy: ignore-errors

from itertools import pairwise

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.target import load_target, target_names
from tilegen.toolchain.cuda import build_cuda


@tilegen.jit
def grouped(A, W, E, persistent=None, cluster=(1, 1), mark=False):
    """Rows of tiles of A times the matrix that E names for each of them."""
    M, K, G, N, R = T.const("M, K, G, N, R")
    A: T.Tensor((M, K), T.float16)
    W: T.Tensor((G, K, N), T.float16)
    E: T.Tensor((R,), T.int32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), R, threads=128, persistent=persistent, cluster_dims=cluster) as (bx, by):
        a = T.alloc_shared((64, 64), T.float16)
        w = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        e = E[by]
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
            T.copy(A[by * 64, k * 64], a)
            T.copy(W[e, k * 64, bx * 64], w)
            T.gemm(a, w, c)
        T.copy(c, C[by * 64, bx * 64])
        if mark:  # as read
            E[by] = -1
    return C


def operands():
    rng = np.random.default_rng(1)
    a = rng.integers(-2, 3, (300, 136)).astype(np.float16)
    w = rng.integers(-2, 3, (3, 136, 136)).astype(np.float16)
    e = np.array([2, 0, 1, 2, 0], np.int32)
    expected = np.concatenate(
        [a[64 * i : 64 * i + 64].astype(np.float64) @ w[group] for i, group in enumerate(e)]
    )
    return (a, w, e), expected


def specs_of(arrays):
    return [T.Tensor(array.shape, str(array.dtype)) for array in arrays]


@pytest.mark.parametrize("target", target_names())
@pytest.mark.parametrize("persistent", [False, True])
def test_an_index_names_the_matrix(target, persistent, require_tool):
    require_tool("host_compiler")
    arrays, expected = operands()
    emission = grouped.emit(*specs_of(arrays), target=target, persistent=persistent)
    for schedule in ("fifo", "random"):
        result = emission.emulate(*arrays, schedule=schedule, asynchronous="lazy", seed=2)
        np.testing.assert_array_equal(result, expected)


def test_the_producer_reads_the_index(require_tool):
    require_tool("nvcc")
    arrays, _ = operands()
    source = grouped.emit(*specs_of(arrays), target="sm_90a").source
    producer, _, consumers = source.partition("- producer\n")[2].partition("- consumers\n")
    assert "const int e = E[by];" in producer and "tma_load_3d(shared.w" in producer
    assert "E[by]" not in consumers  # nor a comment that quotes what is not there
    assert build_cuda(source, load_target("sm_90a")).spills == 0


def test_clusters_share_what_is_named_alike_for_all(require_tool):
    """Blocks along x have one row of tiles and so one index, blocks along y have others."""
    require_tool("host_compiler")
    arrays, expected = operands()
    for cluster, shared in (((2, 1), "a"), ((1, 2), "")):
        emission = grouped.emit(*specs_of(arrays), target="sm_90a", cluster=cluster)
        assert ("multicast(shared.a" in emission.source) == (shared == "a")
        assert "multicast(shared.w" not in emission.source
        np.testing.assert_array_equal(emission.emulate(*arrays, schedule="random", seed=3), expected)


def test_what_the_kernel_writes_is_read_by_the_consumers(require_tool):
    require_tool("host_compiler")
    arrays, _ = operands()
    emission = grouped.emit(*specs_of(arrays), target="sm_90a", mark=True)
    assert "its position is computed by the consumers" in emission.source
    assert "tma_load" not in emission.source


@tilegen.jit
def scattered(X, E, dtype="int64"):
    """Tiles at places that are computed from elements of any type."""
    N, R = T.const("N, R")
    X: T.Tensor((N, 64), T.float16)
    E: T.Tensor((R,), dtype)
    Y = T.empty((R, 64), T.float32)
    with T.Kernel(R, threads=128) as r:
        x = T.alloc_shared((16, 64), T.float16)
        y = T.alloc_fragment((64,), T.float32)
        T.clear(y)
        e = E[r]
        place = T.cast(e * 2, T.int32)
        for t in T.Pipelined(2, num_stages=2):
            T.copy(X[place + 16 * t, 0], x)
            for i in T.serial(16):
                for j in T.Parallel(64):
                    y[j] += x[i, j]
        T.copy(y, Y[r, 0])
    return Y


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "int32"])
def test_producer_and_consumers_read_a_place_as_the_same_type(dtype, require_tool):
    require_tool("host_compiler")
    x = np.random.default_rng(3).integers(-2, 3, (100, 64)).astype(np.float16)
    e = np.array([0.5, 3.5, 20, 1.5]).astype(dtype)
    emission = scattered.emit(*specs_of((x, e)), target="sm_90a", dtype=dtype)
    assert "tma_load_2d(shared.x" in emission.source
    places = (e.astype(np.float64) * 2).astype(int)
    expected = np.stack([x[at : at + 32].astype(np.float32).sum(axis=0) for at in places])
    result = emission.emulate(x, e, schedule="random", asynchronous="lazy", seed=2)
    np.testing.assert_array_equal(result, expected)


@tilegen.jit
def segments(X, P):
    """Sums of the rows between two offsets, a tile of 16 at a time."""
    N, S, C = T.const("N, S, C")
    X: T.Tensor((N, C), T.float16)
    P: T.Tensor((S,), T.int32)
    Y = T.empty((S - 1, C), T.float32)
    with T.Kernel(S - 1, threads=128) as s:
        x = T.alloc_shared((16, 64), T.float16)
        y = T.alloc_fragment((64,), T.float32)
        T.clear(y)
        first = P[s]
        last = P[s + 1]
        for t in T.Pipelined(T.ceildiv(last - first, 16), num_stages=2):
            T.copy(X[first + t * 16, 0], x)
            for i in T.serial(16):
                for j in T.Parallel(64):
                    y[j] += T.if_then_else(first + t * 16 + i < last, x[i, j], 0)
        T.copy(y, Y[s, 0])
    return Y


@pytest.mark.parametrize("target", target_names())
def test_offsets_tell_where_and_how_often(target, require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(4)
    x = rng.integers(-2, 3, (100, 64)).astype(np.float16)
    p = np.array([0, 7, 7, 40, 99], np.int32)
    emission = segments.emit(*specs_of((x, p)), target=target)
    expected = np.stack([x[a:b].astype(np.float32).sum(axis=0) for a, b in pairwise(p)])
    for schedule in ("reverse", "random"):
        result = emission.emulate(x, p, schedule=schedule, asynchronous="lazy", seed=5)
        np.testing.assert_array_equal(result, expected)
    if target == "sm_90a":
        producer = emission.source.partition("- producer\n")[2].partition("- consumers\n")[0]
        assert "const int first = P[s];" in producer


@tilegen.jit
def paged(A, W, B):
    """A times the pages of W that a row of B names for each row of tiles, one a step."""
    M, K, G, N, R, S = T.const("M, K, G, N, R, S")
    A: T.Tensor((M, K), T.float16)
    W: T.Tensor((G, 64, N), T.float16)
    B: T.Tensor((R, S), T.int32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), R, threads=128) as (bx, by):
        a = T.alloc_shared((64, 64), T.float16)
        w = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(S, num_stages=3):
            page = B[by, k]
            T.copy(A[by * 64, k * 64], a)
            T.copy(W[page, 0, bx * 64], w)
            T.gemm(a, w, c)
        T.copy(c, C[by * 64, bx * 64])
    return C


@pytest.mark.parametrize("target", target_names())
def test_a_page_a_step(target, require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(8)
    a = rng.integers(-2, 3, (130, 320)).astype(np.float16)
    w = rng.integers(-2, 3, (7, 64, 136)).astype(np.float16)
    b = rng.integers(0, 7, (3, 5)).astype(np.int32)
    emission = paged.emit(*specs_of((a, w, b)), target=target)
    rows = [
        a[64 * i : 64 * i + 64].astype(np.float64) @ np.concatenate(list(w[pages]))
        for i, pages in enumerate(b)
    ]
    for schedule in ("fifo", "random"):
        result = emission.emulate(a, w, b, schedule=schedule, asynchronous="lazy", seed=9)
        np.testing.assert_array_equal(result, np.concatenate(rows))
    if target == "sm_90a":
        producer = emission.source.partition("- producer\n")[2].partition("- consumers\n")[0]
        assert "page = B[by * kS + k];" in producer and "tma_load_3d(shared.w" in producer


@tilegen.jit
def attention(Q, K, V, P, causal=False, persistent=None):
    """Attention of sequences that lie one behind the other; P holds where each begins."""
    N, H, S = T.const("N, H, S")
    Q: T.Tensor((N, H, 64), T.float16)
    K: T.Tensor((N, H, 64), T.float16)
    V: T.Tensor((N, H, 64), T.float16)
    P: T.Tensor((S,), T.int32)
    O = T.empty((N, H, 64), T.float32)
    with T.Kernel(3, H, S - 1, threads=128, persistent=persistent) as (bx, h, s):
        q = T.alloc_shared((64, 64), T.float16)
        k = T.alloc_shared((64, 64), T.float16)
        v = T.alloc_shared((64, 64), T.float16)
        scores = T.alloc_fragment((64, 64), T.float32)
        p = T.alloc_fragment((64, 64), T.float16)
        o = T.alloc_fragment((64, 64), T.float32)
        top, old, scale, total, new = (T.alloc_fragment((64,), T.float32) for _ in range(5))
        first = P[s]
        length = P[s + 1] - first
        T.copy(Q[first + bx * 64 : first + bx * 64 + 64, h, :], q)
        T.clear(o)
        T.clear(total)
        T.fill(top, -T.infinity(T.float32))
        keys = T.min((bx + 1) * 64, length) if causal else length
        for j in T.Pipelined(T.ceildiv(keys, 64), num_stages=2):
            T.copy(K[first + j * 64 : first + (j + 1) * 64, h, :], k)
            T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
            for a, b in T.Parallel(64, 64):
                seen = T.min(bx * 64 + a + 1, length) if causal else length
                scores[a, b] = T.if_then_else(j * 64 + b < seen, scores[a, b], -T.infinity(T.float32))
            T.copy(top, old)
            T.reduce_max(scores, top, dim=1, clear=False)
            for a in T.Parallel(64):
                scale[a] = T.exp2(old[a] - top[a])
            for a, b in T.Parallel(64, 64):
                scores[a, b] = T.exp2(scores[a, b] - top[a])
            T.reduce_sum(scores, new, dim=1)
            for a in T.Parallel(64):
                total[a] = total[a] * scale[a] + new[a]
            T.copy(scores, p)
            for a, d in T.Parallel(64, 64):
                o[a, d] *= scale[a]
            T.copy(V[first + j * 64 : first + (j + 1) * 64, h, :], v)
            T.gemm(p, v, o)
        for a, d in T.Parallel(64, 64):
            if bx * 64 + a < length:
                O[first + bx * 64 + a, h, d] = o[a, d] / total[a]
    return O


def attended(q, k, v, starts, causal):
    out = np.zeros(q.shape)
    for a, b in pairwise(starts):
        for h in range(q.shape[1]):
            scores = q[a:b, h].astype(np.float64) @ k[a:b, h].T
            if causal:
                scores[np.triu_indices(b - a, 1)] = -np.inf
            weights = np.exp2(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
            out[a:b, h] = weights / weights.sum(axis=1, keepdims=True) @ v[a:b, h]
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("target", "persistent"), [("sm_90a", None), ("sm_90a", True), ("sm_80", None), ("gfx942", None)]
)
def test_sequences_of_their_own_lengths(target, persistent, causal, require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(6)
    starts = np.array([0, 30, 31, 160, 200], np.int32)
    q, k, v = (rng.standard_normal((200, 2, 64)).astype(np.float16) for _ in range(3))
    emission = attention.emit(
        *specs_of((q, k, v, starts)), target=target, causal=causal, persistent=persistent
    )
    if target == "sm_90a":
        loaded = emission.source.partition("producer: TMA to ")[2].partition("\n")[0]
        assert "q once a tile" in loaded and "k and v ahead of loop j" in loaded
        assert "loop j is skewed" in emission.source
    result = emission.emulate(q, k, v, starts, schedule="random", asynchronous="lazy", seed=7)
    expected = attended(q, k, v, starts, causal)
    assert np.linalg.norm(result - expected) / np.linalg.norm(expected) < 1e-3
