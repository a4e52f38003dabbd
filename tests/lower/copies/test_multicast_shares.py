"""How the blocks of a cluster share out a tile: by column groups, or by rows where the groups do not divide."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.target import load_target
from tilegen.toolchain.cuda import build_cuda


@tilegen.jit
def product(A, B, block_M=64, block_N=192, cluster=(1, 2), transpose_B=False, num_stages=2, dtype="float16"):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((N, K) if transpose_B else (K, N), dtype)
    C = T.empty((M, N), T.float32)
    with T.Kernel(
        T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128 * (block_M // 64), cluster_dims=cluster
    ) as (bx, by):
        a = T.alloc_shared((block_M, 64), dtype)
        b = T.alloc_shared((block_N, 64) if transpose_B else (64, block_N), dtype)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        T.use_swizzle(8)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=num_stages):
            T.copy(A[by * block_M, k * 64], a)
            if transpose_B:
                T.copy(B[bx * block_N, k * 64], b)
            else:
                T.copy(B[k * 64, bx * block_N], b)
            T.gemm(a, b, c, transpose_B=transpose_B)
        T.copy(c, C[by * block_M, bx * block_N])
    return C


# Columns of B's tile, blocks along y that share it, and how.
SHARES = [
    (64, 2, "rows"),
    (128, 2, "groups"),
    (128, 4, "rows"),
    (192, 2, "rows"),
    (192, 4, "rows"),
    (192, 8, "rows"),
    (160, 2, "rows"),  # five groups of 32 columns
    (256, 4, "groups"),
]


def emitted(shape, **parameters):
    m, n, k = shape
    b = (n, k) if parameters.get("transpose_B") else (k, n)
    return product.emit(T.Tensor((m, k), T.float16), T.Tensor(b, T.float16), target="sm_90a", **parameters)


@pytest.mark.parametrize(("columns", "blocks", "by"), SHARES)
@pytest.mark.parametrize("schedule", ["fifo", "random"])
def test_a_shared_tile_arrives_whole_in_every_block(columns, blocks, by, schedule, require_tool):
    require_tool("host_compiler")
    emission = emitted((64 * blocks - 8, columns + 40, 136), block_N=columns, cluster=(1, blocks))
    share = "[rank * (64 / kCluster)]" if by == "rows" else "[group]"
    assert "tma_load_2d_multicast(shared.b" in emission.source
    assert share in emission.source.partition("tma_load_2d_multicast(shared.b")[2].partition(";")[0]
    rng = np.random.default_rng(columns + blocks)
    a = rng.integers(-2, 3, (64 * blocks - 8, 136)).astype(np.float16)
    b = rng.integers(-2, 3, (136, columns + 40)).astype(np.float16)
    result = emission.emulate(a, b, schedule=schedule, asynchronous="lazy", seed=columns)
    np.testing.assert_array_equal(result, a.astype(np.float64) @ b)


@pytest.mark.parametrize(("transpose_B", "cluster"), [(True, (1, 2)), (True, (2, 1)), (False, (2, 1))])
def test_either_operand_is_shared_along_either_axis(transpose_B, cluster, require_tool):
    require_tool("host_compiler")
    shape = (136, 392, 72)
    emission = emitted(shape, block_M=128, cluster=cluster, transpose_B=transpose_B)
    shared = "b" if cluster == (1, 2) else "a"
    assert f"tma_load_2d_multicast(shared.{shared}" in emission.source
    rng = np.random.default_rng(3)
    a = rng.integers(-2, 3, shape[::2]).astype(np.float16)
    b = rng.integers(-2, 3, shape[2:0:-1]).astype(np.float16)
    result = emission.emulate(
        a, b.T.copy() if transpose_B else b, schedule="reverse", asynchronous="random", seed=4
    )
    np.testing.assert_array_equal(result, a.astype(np.float64) @ b)


@pytest.mark.parametrize("cluster", [(1, 2), (2, 1), (1, 4)])
@pytest.mark.parametrize("columns", [128, 192, 256])
def test_shares_cost_the_producer_no_spills(columns, cluster, require_tool):
    require_tool("nvcc")
    stages = 3 if columns == 256 else 4
    shape = (3072, 3072, 3072)
    emission = emitted(shape, block_M=128, block_N=columns, cluster=cluster, num_stages=stages)
    assert build_cuda(emission.source, load_target("sm_90a")).spills == 0


@tilegen.jit
def gathered(X, deep=True):
    """Every block adds up the same tile of several planes."""
    P, R, C = T.const("P, R, C")
    X: T.Tensor((P, R, C), T.float16)
    Y = T.empty((4, R, C), T.float32)
    with T.Kernel(4, threads=128, cluster_dims=(2,)) as bx:
        x = T.alloc_shared((2, 16, 64) if deep else (32, 64), T.float16)
        y = T.alloc_fragment((16, 64), T.float32)
        T.clear(y)
        for p in T.Pipelined(P // 2, num_stages=2):
            if deep:
                T.copy(X[2 * p : 2 * p + 2, 0:16, 0:64], x)
            else:
                T.copy(X[p, 0:32, 0:64], x)
            for i, j in T.Parallel(16, 64):
                y[i, j] += x[0, i, j] + x[1, i, j] if deep else x[i, j]
        T.copy(y, Y[bx, 0:16, 0:64])
    return Y


@pytest.mark.parametrize("deep", [True, False])
def test_tiles_of_several_planes_are_right_in_clusters(deep, require_tool):
    require_tool("host_compiler")
    rows = 16 if deep else 32
    x = np.random.default_rng(5).integers(-2, 3, (6, rows, 64)).astype(np.float16)
    emission = gathered.emit(T.Tensor(x.shape, T.float16), target="sm_90a", deep=deep)
    result = emission.emulate(x, schedule="random", asynchronous="lazy", seed=6)
    used = x if deep else x[:3]
    np.testing.assert_array_equal(result[:, :16], np.broadcast_to(used[:, :16].sum(axis=0), (4, 16, 64)))


@tilegen.jit
def scores(Q, K, cluster=(1, 2)):
    """Products of each head's rows with those of the key head that it shares with others."""
    H, H_kv, M, N = T.const("H, H_kv, M, N")
    Q: T.Tensor((H, M, 64), T.float16)
    K: T.Tensor((H_kv, N, 64), T.float16)
    S = T.empty((H, M), T.float32)
    T.assume(H % H_kv == 0)
    with T.Kernel(T.ceildiv(M, 64), H, threads=128, cluster_dims=cluster) as (bx, h):
        q = T.alloc_shared((64, 64), T.float16)
        k = T.alloc_shared((64, 64), T.float16)
        s = T.alloc_fragment((64, 64), T.float32)
        sums = T.alloc_fragment((64,), T.float32)
        T.copy(Q[h, bx * 64, 0], q)
        T.clear(s)
        head = h // (H // H_kv)
        for n in T.Pipelined(T.ceildiv(N, 64), num_stages=2):
            T.copy(K[head, n * 64, 0], k)
            T.gemm(q, k, s, transpose_B=True)
        T.reduce_sum(s, sums, dim=1)
        T.copy(sums, S[h, bx * 64])
    return S


# Heads, key heads, the cluster, whether extents are open, and whether all blocks of a cluster have one key head.
HEADS = [
    (4, 2, (1, 2), False, True),
    (8, 1, (1, 4), False, True),
    (4, 2, (1, 4), False, False),  # two key heads in a cluster
    (6, 2, (1, 2), False, False),  # the second of three clusters has both
    (4, 2, (2, 1), False, True),
    (4, 2, (2, 1), True, True),  # heads by extents that all blocks know alike
    (4, 2, (1, 2), True, False),
]


@pytest.mark.parametrize(("heads", "key_heads", "cluster", "open_", "shared"), HEADS)
def test_what_is_the_same_in_a_cluster_is_shared(heads, key_heads, cluster, open_, shared, require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(heads)
    q = rng.integers(-2, 3, (heads, 120, 64)).astype(np.float16)
    k = rng.integers(-2, 3, (key_heads, 136, 64)).astype(np.float16)
    shapes = (("H", 120, 64), ("H_kv", 136, 64)) if open_ else (q.shape, k.shape)
    emission = scores.emit(*(T.Tensor(s, T.float16) for s in shapes), target="sm_90a", cluster=cluster)
    assert ("tma_load_3d_multicast(shared.k" in emission.source) == shared
    assert "tma_load_3d_multicast(shared.q" not in emission.source
    result = emission.emulate(q, k, schedule="random", asynchronous="lazy", seed=heads)
    total = np.repeat(k.astype(np.float64).sum(axis=1), heads // key_heads, axis=0)
    np.testing.assert_array_equal(result, np.einsum("hmd,hd->hm", q.astype(np.float64), total))
