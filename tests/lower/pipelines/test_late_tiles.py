"""Tiles that are loaded behind T.sum_blocks: the consumers load them, and the producer stays."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
import pytest
from emulation import Array, generated, relative_error

import tilegen.language as T
from tilegen.emulate import run
from tilegen.target import load_target
from tilegen.toolchain.cuda import compile_cuda

SAID = "w is loaded by the consumers, as the last block of several alone needs it"
KINDS = ("element-wise", "gemm", "loop", "branch", "twice")


def late(A, B, W, kind="element-wise", splits=2, block=64, threads=128, persistent=None, cluster=(1, 1, 1)):
    """A @ B, and behind its sum something with tiles of W."""
    M, K, N = T.const("M, K, N")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    W: T.Tensor((M, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(
        T.ceildiv(N, block),
        T.ceildiv(M, block),
        splits,
        threads=threads,
        persistent=persistent,
        cluster_dims=cluster,
    ) as (bx, by, bz):
        a = T.alloc_shared((block, 32), T.float16)
        b = T.alloc_shared((32, block), T.float16)
        w = T.alloc_shared((block, block), T.float16)
        h = T.alloc_fragment((block, block), T.float16)
        d = T.alloc_fragment((block, block), T.float32)
        c = T.alloc_fragment((block, block), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32 * splits), num_stages=2):
            T.copy(A[by * block, (k * splits + bz) * 32], a)
            T.copy(B[(k * splits + bz) * 32, bx * block], b)
            T.gemm(a, b, c)
        T.sum_blocks(c, bz)
        if kind == "gemm":
            T.copy(W[bx * block, bx * block], w)
            T.copy(c, h)
            T.gemm(h, w, d, clear_accum=True)
            T.copy(d, C[by * block, bx * block])
        elif kind == "loop":
            for n in T.serial(3):
                T.copy(W[by * block, n * block], w)
                for i, j in T.Parallel(block, block):
                    c[i, j] += w[i, j]
            T.copy(c, C[by * block, bx * block])
        elif kind == "branch":
            if bx > 0:
                T.copy(W[by * block, bx * block], w)
                for i, j in T.Parallel(block, block):
                    c[i, j] += w[i, j]
            T.copy(c, C[by * block, bx * block])
        elif kind == "pipelined":
            for n in T.Pipelined(3, num_stages=2):
                T.copy(W[by * block, n * block], w)
                for i, j in T.Parallel(block, block):
                    c[i, j] += w[i, j]
            T.copy(c, C[by * block, bx * block])
        else:
            T.copy(W[by * block, bx * block], w)
            for i, j in T.Parallel(block, block):
                c[i, j] += w[i, j]
            if kind == "twice":
                T.copy(W[by * block, 0], w)
                for i, j in T.Parallel(block, block):
                    c[i, j] += w[i, j]
            T.copy(c, C[by * block, bx * block])
    return C


def operands() -> list[Array]:
    rng = np.random.default_rng(8)
    return [rng.integers(-2, 3, s).astype(np.float16) for s in ((136, 104), (104, 136), (136, 136))]


def expected(kind, a, b, w):
    c, w = a.astype(np.float64) @ b, w.astype(np.float64)
    tiles = [slice(64 * n, 64 * n + 64) for n in range(3)]
    for at in tiles:
        if kind == "gemm":
            c[:, at] = c[:, at] @ w[at, at]
        elif kind in ("loop", "pipelined"):
            for n in tiles:
                part = w[:, n]
                c[:, at][:, : part.shape[1]] += part[:, : c[:, at].shape[1]]
        elif kind != "branch" or at.start > 0:
            c[:, at] += w[:, at]
            if kind == "twice":
                c[:, at] += w[:, :64][:, : c[:, at].shape[1]]
    return c


@pytest.mark.parametrize("kind", [*KINDS, "pipelined"])
@pytest.mark.parametrize("persistent", [False, True])
def test_the_consumers_load_them(kind, persistent, require_tool):
    require_tool("host_compiler")
    arrays = operands()
    files = generated(late, "sm_90a", arrays, kind=kind, persistent=persistent)
    assert (files.plan.kind == "warp_specialised") == (SAID in files.source) == (kind != "pipelined")
    for schedule, asynchronous in (("fifo", "eager"), ("random", "lazy"), ("reverse", "random")):
        options = {"schedule": schedule, "asynchronous": asynchronous, "seed": 1, "multiprocessors": 2}
        found = np.asarray(run(files.source, files.manifest, arrays, **options))
        assert relative_error(found, expected(kind, *arrays)) < 1e-3


@pytest.mark.parametrize(
    "parameters",
    [{"threads": 256, "block": 128}, {"threads": 256, "block": 128, "cluster": (2, 1, 1)}],
    ids=str,
)
def test_among_several_consumers_and_in_clusters(parameters, require_tool):
    require_tool("host_compiler")
    arrays = operands()
    files = generated(late, "sm_90a", arrays, **parameters)
    assert SAID in files.source
    found = np.asarray(
        run(files.source, files.manifest, arrays, schedule="random", asynchronous="lazy", seed=2)
    )
    assert relative_error(found, expected("", *arrays)) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_spills(kind, require_tool):
    require_tool("nvcc")
    source = generated(late, "sm_90a", operands(), kind=kind).source
    assert compile_cuda(source, load_target("sm_90a")).spills == 0


def beside_sums(A, B, W):
    """Two blocks share a multiprocessor, and what the consumers load stands beside 50 sums a thread."""
    M, K, N = T.const("M, K, N")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    W: T.Tensor((M, N), T.float16)
    C = T.empty((M, N), T.float16)
    R = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(N, 96), 1, T.ceildiv(M, 128), threads=256, persistent=True) as (bx, bz, by):
        a = T.alloc_shared((128, 64), T.float16)
        b = T.alloc_shared((64, 96), T.float16)
        w = T.alloc_shared((128, 96), T.float16)
        c = T.alloc_fragment((128, 96), T.float32)
        r = T.alloc_fragment((128,), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64)):
            T.copy(A[by * 128, (k + bz) * 64], a)
            T.copy(B[(k + bz) * 64, bx * 96], b)
            T.gemm(a, b, c)
        T.reduce_sum(c, r, dim=1)
        T.sum_blocks([c, r], bz)
        for _ in T.serial(2):
            T.copy(W[by * 128, bx * 96], w)
            for i, j in T.Parallel(128, 96):
                c[i, j] += w[i, j]
        T.copy(c, C[by * 128, bx * 96])
        if bx == 0:
            T.copy(r, R[by * 128])
    return C, R


def test_few_loads_run_at_once_where_blocks_share_the_registers(require_tool):
    require_tool("nvcc")
    arrays = [np.zeros(shape, np.float16) for shape in ((256, 256), (256, 96), (256, 96))]
    source = generated(beside_sums, "sm_90a", arrays).source
    assert "__launch_bounds__(kThreads, 2)" in source
    assert compile_cuda(source, load_target("sm_90a")).spills == 0
