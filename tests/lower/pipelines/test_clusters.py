"""Clusters that a target cannot run are errors at the line that asks for them, whatever the kernel's schedule."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.target import load_target, target_names
from tilegen.toolchain.cuda import build_cuda


@tilegen.jit
def twice(X, block: int = 256, cluster=(2,)):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=128, cluster_dims=cluster) as bx:
        for i in T.Parallel(block):
            Y[bx * block + i] = X[bx * block + i] * 2
    return Y


@tilegen.jit
def product(A, B, cluster=(2, 1)):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(N // 128, M // 128, threads=256, cluster_dims=cluster) as (bx, by):
        A_shared = T.alloc_shared((128, 32), T.float16)
        B_shared = T.alloc_shared((32, 128), T.float16)
        C_local = T.alloc_fragment((128, 128), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(K // 32):
            T.copy(A[by * 128, k * 32], A_shared)
            T.copy(B[k * 32, bx * 128], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * 128, bx * 128])
    return C


PROGRAMS = [(twice, [(1000,)], (2,)), (product, [(512, 256), (256, 512)], (2, 1))]


@pytest.mark.parametrize("target", [name for name in target_names() if not load_target(name).has("cluster")])
@pytest.mark.parametrize(("program", "shapes", "cluster"), PROGRAMS, ids=["simple", "pipelined"])
def test_a_target_without_clusters_says_so(program, shapes, cluster, target):
    dtype = T.float32 if program is twice else T.float16
    specs = [T.Tensor(shape, dtype) for shape in shapes]
    with pytest.raises(ProgramError) as refused:
        program.emit(*specs, target=target, cluster=cluster)
    assert refused.value.message == f"cluster_dims asks for 2 blocks a cluster, but {target} has no clusters"
    assert refused.value.location.text.startswith("with T.Kernel(")
    assert "sm_90a" in refused.value.remedy
    assert program.emit(*specs, target=target, cluster=(1,)).source


def test_too_large_a_cluster_says_what_fits():
    with pytest.raises(ProgramError, match="asks for 16 blocks a cluster, but sm_90a runs at most 8"):
        twice.emit(T.Tensor((1000,), T.float32), target="sm_90a", cluster=(16,))


def row_sums(A, B, columns=64):
    """A @ B and the sums of its rows, which are the business of one block a row of tiles."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    S = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, 64), threads=128, cluster_dims=(2, 1)) as (bx, by):
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, columns), T.float16)
        c = T.alloc_fragment((64, columns), T.float32)
        s = T.alloc_fragment((64,), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * 64, k * 64], a)
            T.copy(B[k * 64, bx * columns], b)
            T.gemm(a, b, c)
        T.reduce_sum(c, s, dim=1)
        T.copy(s, S[by * 64])
        T.copy(c, C[by * 64, bx * columns])
    return C, S


def test_blocks_beyond_the_grid_must_not_store() -> None:
    """With one column of tiles a cluster's second block would write sums of nothing over those of the first."""
    a, b = T.Tensor((128, 192), T.float16), T.Tensor((192, 64), T.float16)
    with pytest.raises(
        ProgramError, match="reach beyond the grid along bx, and the blocks there would write S"
    ):
        tilegen.jit(row_sums).emit(a, b, target="sm_90a")
    even = tilegen.jit(row_sums).emit(a, T.Tensor((192, 128), T.float16), target="sm_90a")
    assert even.manifest.cluster == (2, 1, 1)
    assert tilegen.jit(assumed).emit(target="sm_90a").manifest.cluster == (2, 1, 1)
    for dims in ({}, {"N": 320}):  # whose last tiles begin beyond C
        tilegen.jit(triangular).emit(target="sm_90a", dims=dims)


def assumed(X, rounded=True):
    """A grid of pairs of tiles, as the program says; each block stores its number."""
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.int32)
    T.assume(N % 128 == 0)
    with T.Kernel(T.ceildiv(N, 64) if rounded else N // 64, threads=64, cluster_dims=(2,)) as bx:
        x = T.alloc_fragment((64,), T.float32)
        T.copy(X[bx * 64], x)
        for i in T.Parallel(64):
            Y[i] = bx
    return Y


STEPS = {"pairs": 2, "fours": 4, "threes": 3}  # blocks along x whose loops are alike


def triangular(A, B, trips="along"):
    """Products of as much of K as the block's place says."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128, cluster_dims=(2, 1)) as (bx, by):
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        if trips in STEPS:
            count = bx // STEPS[trips] + 1
        elif trips == "falling":  # from one block of a pair to the other
            count = bx // -2 + 3
        else:
            count = bx + 1 if trips in ("along", "named") else by + 1
        if trips == "named":
            count = T.min(count * 64, K) // 64
        for k in T.Pipelined(count, num_stages=2):
            T.copy(A[by * 64, k * 64], a)
            T.copy(B[k * 64, bx * 64], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 64, bx * 64])
    return C


TRIPS = {
    "along": lambda bx, by: bx + 1,
    "named": lambda bx, by: bx + 1,
    "across": lambda bx, by: by + 1,
    "pairs": lambda bx, by: bx // 2 + 1,
    "fours": lambda bx, by: bx // 4 + 1,
    "threes": lambda bx, by: bx // 3 + 1,
    "falling": lambda bx, by: bx // -2 + 3,
}


@pytest.mark.parametrize("trips", TRIPS)
def test_blocks_share_loads_that_all_of_them_wait_for(trips, require_tool) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-1, 2, (256, 256)).astype(np.float16) for _ in range(2))
    emission = tilegen.jit(triangular).emit(
        T.Tensor(a.shape, T.float16), T.Tensor(b.shape, T.float16), target="sm_90a", trips=trips
    )
    assert ("multicast" in emission.source) == (trips in ("across", "pairs", "fours"))
    expected = np.empty((256, 256))
    for by, bx in np.ndindex(4, 4):
        depth = 64 * TRIPS[trips](bx, by)
        rows, columns = slice(64 * by, 64 * by + 64), slice(64 * bx, 64 * bx + 64)
        expected[rows, columns] = a[rows, :depth].astype(np.float64) @ b[:depth, columns]
    for schedule in ("fifo", "reverse"):
        np.testing.assert_array_equal(
            emission.emulate(a, b, schedule=schedule, asynchronous="lazy"), expected
        )


def steps(A, B, cluster=4):
    """Persistent blocks in clusters along y."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(
        T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128, persistent=True, cluster_dims=(1, cluster)
    ) as (bx, by):
        a = T.alloc_shared((64, 32), T.float16)
        b = T.alloc_shared((32, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 64, k * 32], a)
            T.copy(B[k * 32, bx * 64], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 64, bx * 64])
    return C


@pytest.mark.parametrize("cluster", [2, 4, 8])
@pytest.mark.parametrize("multiprocessors", [2, 8, 33])
def test_persistent_clusters_are_no_more_than_run_at_once(cluster, multiprocessors, require_tool) -> None:
    """GPCs of 16 or 18 multiprocessors hold whole clusters: 32 of four on an H200, whose 132 would be 33."""
    require_tool("host_compiler")
    rng = np.random.default_rng(2)
    a, b = (
        rng.integers(-2, 3, (520, 72)).astype(np.float16),
        rng.integers(-2, 3, (72, 136)).astype(np.float16),
    )
    emission = tilegen.jit(steps).emit(
        T.Tensor(a.shape, T.float16), T.Tensor(b.shape, T.float16), target="sm_90a", cluster=cluster
    )
    asks = "cudaOccupancyMaxActiveClusters(clusters, steps, &launch)" in emission.source
    assert asks == (cluster > 2) == ("clusters" in str(emission.manifest.grid))
    result = emission.emulate(a, b, schedule="random", asynchronous="lazy", multiprocessors=multiprocessors)
    np.testing.assert_array_equal(result, (a.astype(np.float64) @ b).astype(np.float16))


def test_the_launcher_counts_clusters_for_nvcc(require_tool) -> None:
    require_tool("nvcc")
    specs = [T.Tensor((520, 72), T.float16), T.Tensor((72, 136), T.float16)]
    source = tilegen.jit(steps).emit(*specs, target="sm_90a").source
    assert build_cuda(source, load_target("sm_90a")).spills == 0


def test_the_text_says_what_a_cluster_shares():
    specs = [T.Tensor(shape, T.float16) for shape in ((512, 256), (256, 512))]
    text = product.emit(*specs, target="sm_90a").source
    assert "constexpr int kClusterMask = (1 << kCluster) - 1;  // a bit for each block of a cluster" in text
    assert "//            producer: a block loads 1/2 of A_shared, for all blocks of its cluster\n" in text
    alone = product.emit(*specs, target="sm_90a", cluster=(1, 1)).source
    assert "of its cluster" not in alone and "kClusterMask" not in alone


def by_hand(A, B, causal=False):
    """Rows of tiles that a cluster's blocks take in turn: five of them, or of lengths of their own."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(2, threads=128, cluster_dims=(2,)) as block:
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        for by, bx in T.Persistent((M // 64, N // 64), 2, block):
            T.clear(c)
            for k in T.Pipelined(by + 1 if causal else K // 64, num_stages=2):
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])
    return C


@pytest.mark.parametrize("causal", [False, True])
def test_blocks_that_walk_by_hand_share_nothing(causal, require_tool) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-1, 2, shape).astype(np.float16) for shape in ((320, 320), (320, 64)))
    specs = [T.Tensor(array.shape, T.float16) for array in (a, b)]
    emission = tilegen.jit(by_hand).emit(*specs, target="sm_90a", causal=causal)
    depth = 64 * (np.arange(320) // 64 + 1)[:, None] if causal else 320
    expected = np.where(np.arange(320) < depth, a, 0).astype(np.float64) @ b
    np.testing.assert_array_equal(emission.emulate(a, b, asynchronous="lazy"), expected)
    assert "multicast" not in emission.source


def split(A, B, splits=2, cluster=(2, 1)):
    """Products of parts of K, which the blocks along bz add up."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), splits, threads=128, cluster_dims=cluster) as (bx, bz):
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64 * splits), num_stages=2):
            T.copy(A[0, (k * splits + bz) * 64], a)
            T.copy(B[(k * splits + bz) * 64, bx * 64], b)
            T.gemm(a, b, c)
        T.sum_blocks(c, bz)
        T.copy(c, C[0, bx * 64])
    return C


@pytest.mark.parametrize(("columns", "splits", "cluster"), [(192, 2, (2, 1)), (128, 3, (1, 2))])
def test_blocks_beyond_the_grid_must_not_leave_parts(columns, splits, cluster) -> None:
    """Their parts and counts would be those of other blocks."""
    specs = [T.Tensor(shape, T.float16) for shape in ((64, 256), (256, columns))]
    with pytest.raises(ProgramError, match="and the blocks there would leave parts as well"):
        tilegen.jit(split).emit(*specs, target="sm_90a", splits=splits, cluster=cluster)


@pytest.mark.parametrize("cluster", [(2, 1), (1, 2)])
def test_blocks_of_a_cluster_sum(cluster, require_tool) -> None:
    """Also over each other: an atomic between fences orders threads of a cluster as it does those of others."""
    require_tool("host_compiler")
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-1, 2, shape).astype(np.float16) for shape in ((64, 256), (256, 256)))
    specs = [T.Tensor(array.shape, T.float16) for array in (a, b)]
    emission = tilegen.jit(split).emit(*specs, target="sm_90a", cluster=cluster)
    expected = a.astype(np.float64) @ b
    for schedule in ("fifo", "reverse"):
        found = emission.emulate(a, b, schedule=schedule, asynchronous="lazy", multiprocessors=2)
        np.testing.assert_array_equal(found, expected)
