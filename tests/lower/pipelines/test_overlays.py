"""Tiles that take the place of rings whose loops are over, where shared memory does not hold both."""

# mypy: ignore-errors

import re

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.emulate import run
from tilegen.emulate.errors import EmulationError
from tilegen.errors import TilegenError
from tilegen.target import load_target
from tilegen.toolchain.cuda import build_cuda


@tilegen.jit
def product(
    A, B, block_M=128, block_N=128, block_K=64, num_stages=None, threads=256, persistent=None, early=False,
    cluster=(1, 1),
):  # fmt: skip
    """C = A B; C leaves through a shared tile of the program's own."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    grid = T.ceildiv(N, block_N), T.ceildiv(M, block_M)
    with T.Kernel(*grid, threads=threads, persistent=persistent, cluster_dims=cluster) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        C_shared = T.alloc_shared((block_M, block_N), T.float32)
        T.clear(C_local)
        if early:
            T.clear(C_shared)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C_shared)
        for i, j in T.Parallel(block_M, block_N):
            if by * block_M + i < M and bx * block_N + j < N:
                C[by * block_M + i, bx * block_N + j] = C_shared[i, block_N - 1 - j]
    return C


def operands(shape, **parameters):
    """A, B and what `product` makes of them: each tile of C from right to left."""
    rng = np.random.default_rng(1)
    m, n, k = shape
    a, b = (rng.integers(-2, 3, size).astype(np.float16) for size in ((m, k), (k, n)))
    width = parameters.get("block_N", 128)
    padded = np.zeros((m, -(-n // width) * width))
    padded[:, :n] = a.astype(np.float64) @ b
    return a, b, padded.reshape(m, -1, width)[:, :, ::-1].reshape(m, -1)[:, :n]


def emitted(shape=(200, 136, 392), **parameters):
    a, b, expected = operands(shape, **parameters)
    specs = [T.Tensor(array.shape, T.float16) for array in (a, b)]
    return product.emit(*specs, target="sm_90a", **parameters), (a, b), expected


CASES = {  # rings and the tile of 64 KB are more than 227 KB
    "two warpgroups": {"num_stages": 6},
    "one warpgroup": {"block_M": 64, "block_N": 256, "num_stages": 5, "threads": 128},
    "three warpgroups": {"block_M": 192, "num_stages": 5, "threads": 384},
    "a cluster": {"num_stages": 6, "cluster": (1, 2)},
    "stages left open": {"block_K": 192},
}


@pytest.mark.parametrize("case", CASES)
def test_a_tile_lies_over_a_ring(case, require_tool):
    require_tool("host_compiler")
    require_tool("nvcc")
    emission, arrays, expected = emitted(**CASES[case])
    assert re.search(r"C_shared\[.*;  // once loop k is over", emission.source)
    assert "lies over " in emission.source and "lies over " in emission.report()
    for schedule, asynchronous in (("fifo", "eager"), ("reverse", "lazy"), ("random", "random")):
        result = emission.emulate(*arrays, schedule=schedule, asynchronous=asynchronous, seed=3)
        np.testing.assert_array_equal(result, expected)
    kernel = build_cuda(emission.source, load_target("sm_90a"))
    assert kernel.spills == 0


def test_stages_stay():
    """Two stages that the program leaves open are not given up where a tile can lie over them."""
    emission, _, _ = emitted(**CASES["stages left open"])
    assert "kStages = 2" in emission.source and "one stage" not in emission.source


@pytest.mark.parametrize("case", ["two warpgroups", "three warpgroups"])
def test_threads_meet_before_they_write_over_a_ring(case, require_tool):
    """Without the barrier one warpgroup writes over what another still multiplies."""
    require_tool("host_compiler")
    emission, arrays, _ = emitted(**CASES[case])
    barrier = r"// C_shared lies over \w+, which has been read\n *named_barrier_sync\([^;]*;\n"
    broken, count = re.subn(barrier, "", emission.source)
    assert count == 1
    with pytest.raises(EmulationError, match="race"):
        for seed in range(4):
            run(broken, emission.manifest, arrays, schedule="random", asynchronous="lazy", seed=seed)


def test_where_both_fit_each_has_its_place():
    emission, _, _ = emitted(num_stages=3)
    assert "lies over" not in emission.source and "union" not in emission.source


@pytest.mark.parametrize("why", [{"persistent": True}, {"early": True}])
def test_what_is_in_use_is_no_place(why):
    """The next tile's loads, or what the tile held before, would be overwritten."""
    with pytest.raises(TilegenError, match="more than a block has"):
        emitted(num_stages=6, **why)


def test_the_kernel_is_not_persistent():
    assert "persistent" not in emitted(num_stages=6)[0].source
    assert "persistent" in emitted(num_stages=3)[0].source


@tilegen.jit
def added_products(Q, K, block_N=96, num_stages=3, threads=256):
    """C = sum over j of Q K_j^T; Q is loaded once, C leaves through a shared tile."""
    M, D, J, N = T.const("M, D, J, N")
    Q: T.Tensor((M, D), T.float16)
    K: T.Tensor((J, N, D), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, 128), threads=threads) as (bx, by):
        Q_shared = T.alloc_shared((128, 256), T.float16)
        K_shared = T.alloc_shared((block_N, 256), T.float16)
        C_shared = T.alloc_shared((128, block_N), T.float32)
        c = T.alloc_fragment((128, block_N), T.float32)
        T.copy(Q[by * 128, 0], Q_shared)
        T.clear(c)
        for j in T.Pipelined(J, num_stages=num_stages):
            T.copy(K[j, bx * block_N, 0], K_shared)
            T.gemm(Q_shared, K_shared, c, transpose_B=True)
        T.copy(c, C_shared)
        for i, n in T.Parallel(128, block_N):
            if by * 128 + i < M and bx * block_N + n < N:
                C[by * 128 + i, bx * block_N + n] = C_shared[i, n]
    return C


def test_a_tile_lies_over_one_that_was_filled_once(require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(7)
    q, k = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((130, 256), (5, 100, 256)))
    specs = [T.Tensor(array.shape, T.float16) for array in (q, k)]
    emission = added_products.emit(*specs, target="sm_90a")
    assert "C_shared lies over Q_shared, which has been read" in emission.source
    assert "// once Q_shared has been read" in emission.source
    expected = sum(q.astype(np.float64) @ one.T.astype(np.float64) for one in k)
    for schedule in ("reverse", "random"):
        result = emission.emulate(q, k, schedule=schedule, asynchronous="lazy", seed=2)
        np.testing.assert_array_equal(result, expected)
    broken, count = re.subn(
        r"// C_shared lies over[^\n]*\n *named_barrier_sync\([^;]*;\n", "", emission.source
    )
    assert count == 1
    with pytest.raises(EmulationError, match="race"):
        for seed in range(4):
            run(broken, emission.manifest, (q, k), schedule="random", asynchronous="lazy", seed=seed)


@tilegen.jit
def multiplied_last(Q, K, W):
    """A gemm that nobody waits for yet still reads Q where C_shared takes its place."""
    M, D, J, N = T.const("M, D, J, N")
    Q: T.Tensor((M, D), T.float16)
    K: T.Tensor((J, N, D), T.float16)
    W: T.Tensor((N, D), T.float16)
    C = T.empty((M, N), T.float32)
    E = T.empty((M, N), T.float32)
    with T.Kernel(1, threads=256) as _:
        Q_shared = T.alloc_shared((128, 256), T.float16)
        W_shared = T.alloc_shared((96, 256), T.float16)
        K_shared = T.alloc_shared((96, 256), T.float16)
        C_shared = T.alloc_shared((128, 96), T.float32)
        c = T.alloc_fragment((128, 96), T.float32)
        e = T.alloc_fragment((128, 96), T.float32)
        T.copy(Q, Q_shared)
        T.copy(W, W_shared)
        T.clear(c)
        for j in T.Pipelined(J, num_stages=2):
            T.copy(K[j, 0, 0], K_shared)
            T.gemm(Q_shared, K_shared, c, transpose_B=True)
        T.gemm(Q_shared, W_shared, e, transpose_B=True, clear_accum=True)
        T.copy(c, C_shared)
        for i, n in T.Parallel(128, 96):
            C[i, n] = C_shared[i, 95 - n]
        T.copy(e, E)
    return C, E


def test_what_tensor_cores_still_read_is_waited_for(require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(8)
    q, k, w = (rng.integers(-2, 3, s).astype(np.float16) for s in ((128, 256), (4, 96, 256), (96, 256)))
    emission = multiplied_last.emit(*(T.Tensor(a.shape, T.float16) for a in (q, k, w)), target="sm_90a")
    assert "C_shared lies over Q_shared, which has been read" in emission.source
    sums = sum(q.astype(np.float64) @ one.T.astype(np.float64) for one in k)
    for schedule, asynchronous in (("fifo", "eager"), ("random", "lazy")):
        c, e = emission.emulate(q, k, w, schedule=schedule, asynchronous=asynchronous, seed=2)
        np.testing.assert_array_equal(c, sums[:, ::-1])
        np.testing.assert_array_equal(e, q.astype(np.float64) @ w.T.astype(np.float64))
