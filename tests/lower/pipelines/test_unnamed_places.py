"""Tiles whose copy itself reads where they lie: the element gets a name, and the producer reads it."""

# mypy: ignore-errors

from itertools import pairwise

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.target import load_target, target_names
from tilegen.toolchain.cuda import build_cuda


@tilegen.jit
def multiplied(A, W, E, kind="group", mark=False, persistent=None, cluster=(1, 1)):
    """Rows of tiles of A times the matrix, or the pages of one, that E names."""
    M, K, G, D, N, R, S = T.const("M, K, G, D, N, R, S")
    A: T.Tensor((M, K), T.float16)
    W: T.Tensor((G, D, N), T.float16)
    E: T.Tensor((R, S), T.int32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(
        T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128, persistent=persistent, cluster_dims=cluster
    ) as (
        bx,
        by,
    ):
        a = T.alloc_shared((64, 64), T.float16)
        w = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
            T.copy(A[by * 64, k * 64], a)
            if kind == "group":
                T.copy(W[E[by, 0], k * 64, bx * 64], w)
            elif kind == "page":
                T.copy(W[E[by, k], 0, bx * 64], w)
            else:  # the page that another element names
                T.copy(W[E[E[by, k] % 3, k], 0, bx * 64], w)
            T.gemm(a, w, c)
        T.copy(c, C[by * 64, bx * 64])
        if mark:  # as read
            E[by, 0] = -1
    return C


def operands(kind):
    rng = np.random.default_rng(1)
    a = rng.integers(-2, 3, (130, 192)).astype(np.float16)
    w = rng.integers(-2, 3, (4, 192 if kind == "group" else 64, 136)).astype(np.float16)
    e = rng.integers(0, 4, (3, 3)).astype(np.int32)
    steps = np.arange(3)
    pages = {"group": e[:, :1], "page": e, "chain": e[e % 3, steps]}[kind]
    rows = [a[64 * i : 64 * i + 64].astype(np.float64) @ np.concatenate(list(w[pages[i]])) for i in range(3)]
    return (a, w, e), np.concatenate(rows)


def specs_of(arrays):
    return [T.Tensor(array.shape, str(array.dtype)) for array in arrays]


def roles(source):
    producer, _, consumers = source.partition("- producer\n")[2].partition("- consumers\n")
    return producer, consumers


@pytest.mark.parametrize("target", target_names())
@pytest.mark.parametrize("kind", ["group", "page", "chain"])
def test_an_element_names_the_matrix(target, kind, require_tool):
    require_tool("host_compiler")
    arrays, expected = operands(kind)
    for persistent, schedule in ((False, "fifo"), (True, "random")):
        emission = multiplied.emit(*specs_of(arrays), target=target, kind=kind, persistent=persistent)
        result = emission.emulate(*arrays, schedule=schedule, asynchronous="lazy", seed=2)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", ["group", "page", "chain"])
def test_the_producer_reads_it_once(kind, require_tool):
    require_tool("nvcc")
    arrays, _ = operands(kind)
    source = multiplied.emit(*specs_of(arrays), target="sm_90a", kind=kind).source
    producer, consumers = roles(source)
    assert "tma_load_3d(shared.w" in producer and "E[" not in consumers
    declared = producer.index(f"const int {'E_by_0' if kind == 'group' else 'E_by_k'} = ")
    assert producer.count("= E[") == (2 if kind == "chain" else 1)
    assert (declared < producer.index("for (int k")) == (kind == "group")
    assert declared < producer.index("tma_load_3d(shared.w")
    assert build_cuda(source, load_target("sm_90a")).spills == 0


def test_loads_run_ahead_by_what_is_read_before_the_loop():
    arrays, _ = operands("group")
    source = multiplied.emit(*specs_of(arrays), target="sm_80").source
    assert "loads no tile ahead" not in source


def test_clusters_share_what_is_named_alike_for_all(require_tool):
    require_tool("host_compiler")
    arrays, expected = operands("group")
    for cluster, shared in (((2, 1), "a"), ((1, 2), "")):
        emission = multiplied.emit(*specs_of(arrays), target="sm_90a", cluster=cluster)
        assert ("multicast(shared.a" in emission.source) == (shared == "a")
        assert "multicast(shared.w" not in emission.source
        np.testing.assert_array_equal(emission.emulate(*arrays, schedule="random", seed=3), expected)


def test_what_the_kernel_writes_is_read_where_it_stands():
    arrays, _ = operands("group")
    source = multiplied.emit(*specs_of(arrays), target="sm_90a", mark=True).source
    assert "its position is computed by the consumers" in source and "E_by_0" not in source


@tilegen.jit
def segments(X, P, wanted):
    """Sums of the wanted rows that begin at two offsets each, a tile of 16 at a time."""
    N, S, C = T.const("N, S, C")
    X: T.Tensor((N, C), T.float16)
    P: T.Tensor((S,), T.int32)
    wanted: T.Tensor((S,), T.int32)
    Y = T.empty((S - 1, C), T.float32)
    with T.Kernel(S - 1, threads=128) as s:
        x = T.alloc_shared((16, 64), T.float16)
        y = T.alloc_fragment((64,), T.float32)
        T.clear(y)
        for t in T.Pipelined(T.ceildiv(P[s + 1] - P[s], 16), num_stages=2):
            if wanted[s] > 0:
                T.copy(X[P[s] + t * 16, 0], x)
                for i in T.serial(16):
                    for j in T.Parallel(64):
                        y[j] += T.if_then_else(P[s] + t * 16 + i < P[s + 1], x[i, j], 0)
        T.copy(y, Y[s, 0])
    return Y


@pytest.mark.parametrize("target", target_names())
def test_offsets_tell_where_how_often_and_whether(target, require_tool):
    require_tool("host_compiler")
    x = np.random.default_rng(4).integers(-2, 3, (100, 64)).astype(np.float16)
    p, wanted = np.array([0, 7, 7, 40, 99], np.int32), np.array([1, 1, 0, 3, 1], np.int32)
    emission = segments.emit(*specs_of((x, p, wanted)), target=target)
    parts = zip(pairwise(p), wanted, strict=False)
    expected = np.stack([(w > 0) * x[a:b].astype(np.float32).sum(axis=0) for (a, b), w in parts])
    for schedule in ("reverse", "random"):
        result = emission.emulate(x, p, wanted, schedule=schedule, asynchronous="lazy", seed=5)
        np.testing.assert_array_equal(result, expected)
    if target == "sm_90a":
        assert "tma_load_2d(shared.x" in roles(emission.source)[0]


@tilegen.jit
def moving(X, E):
    """The place of a tile is found by a variable that changes along the loop."""
    N, R = T.const("N, R")
    X: T.Tensor((N, 64), T.float16)
    E: T.Tensor((R,), T.int32)
    Y = T.empty((64,), T.float32)
    with T.Kernel(1, threads=128) as _:
        x = T.alloc_shared((16, 64), T.float16)
        y = T.alloc_fragment((64,), T.float32)
        T.clear(y)
        at = 0
        for _ in T.Pipelined(R // 2, num_stages=2):
            T.copy(X[E[at] * 16, 0], x)
            for i in T.serial(16):
                for j in T.Parallel(64):
                    y[j] += x[i, j]
            at = at + 2
        T.copy(y, Y)
    return Y


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_an_element_found_by_what_changes_is_read_anew(target, require_tool):
    require_tool("host_compiler")
    x = np.random.default_rng(5).integers(-2, 3, (80, 64)).astype(np.float16)
    e = np.array([3, 9, 0, 9, 4, 9], np.int32)
    emission = moving.emit(*specs_of((x, e)), target=target)
    expected = sum(x[16 * at : 16 * at + 16].astype(np.float32).sum(axis=0) for at in e[::2])
    result = emission.emulate(x, e, schedule="random", asynchronous="lazy", seed=6)
    np.testing.assert_array_equal(result, expected)


@tilegen.jit
def shifted(X, E):
    """Tiles whose places are elements beside the block's own, by indices of several forms."""
    N, R = T.const("N, R")
    X: T.Tensor((N, 64), T.float16)
    E: T.Tensor((R,), T.int32)
    Y = T.empty((R, 64), T.float32)
    with T.Kernel(R, threads=128) as r:
        E_r = E[r]
        x = T.alloc_shared((16, 64), T.float16)
        z = T.alloc_shared((16, 64), T.float16)
        y = T.alloc_fragment((64,), T.float32)
        T.clear(y)
        for t in T.Pipelined(2, num_stages=2):
            T.copy(X[E[r + -1] * 16 + t * 8, 0], x)
            T.copy(X[E[r] * 16 + E[2 * r - 3], 0], z)
            for i in T.serial(16):
                for j in T.Parallel(64):
                    y[j] += x[i, j] + 2 * z[i, j] + E_r
        T.copy(y, Y[r, 0])
    return Y


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_every_index_makes_a_name(target, require_tool):
    require_tool("host_compiler")
    x = np.random.default_rng(5).integers(-2, 3, (80, 64)).astype(np.float16)
    e = np.array([3, 1, 0, 2], np.int32)
    emission = shifted.emit(*specs_of((x, e)), target=target)

    def rows(at):
        return x[at : at + 16].astype(np.float32).sum(axis=0)

    def element(i):  # 0 outside of the tensor
        return e[i] if 0 <= i < 4 else 0

    expected = [
        sum(
            rows(16 * element(r - 1) + 8 * t) + 2 * rows(16 * e[r] + element(2 * r - 3)) + 16 * e[r]
            for t in (0, 1)
        )
        for r in range(4)
    ]
    result = emission.emulate(x, e, schedule="random", asynchronous="lazy", seed=6)
    np.testing.assert_array_equal(result, np.stack(expected))
    if target == "sm_90a":
        assert "tma_load_2d(shared.x" in roles(emission.source)[0]
