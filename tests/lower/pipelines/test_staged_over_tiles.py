"""What is staged in the place of a pipeline's tiles waits for their last readers, and only where these have not met
since: every barrier is needed, and none is missing."""

# mypy: ignore-errors

from __future__ import annotations

import re

import numpy as np
import pytest
from emulation import Array, generated, kernel_text, relative_error

import tilegen.language as T
from tilegen.emulate import run
from tilegen.emulate.errors import EmulationError

TARGETS = ("gfx90a", "gfx942", "gfx950")
ORDERS = [("fifo", "eager"), ("reverse", "lazy"), ("random", "random"), ("random", "lazy")]


def halved(A, B, block: int = 64, block_K: int = 32, work: bool = True, behind: str = "", splits: int = 1):
    """A product, of halves of A's elements with `work`, which keeps operands from being read ahead; behind it nothing,
    a tile that all threads load, or a sum over blocks."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    grid = (T.ceildiv(N, block), T.ceildiv(M, block), splits)
    with T.Kernel(*grid, threads=128) as (bx, by, bz):
        A_shared = T.alloc_shared((block, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block), T.float16)
        A_local = T.alloc_fragment((block, block_K), T.float16)
        C_local = T.alloc_fragment((block, block), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K * splits), num_stages=2):
            T.copy(A[by * block, (k * splits + bz) * block_K], A_shared)
            T.copy(B[(k * splits + bz) * block_K, bx * block], B_shared)
            if work:
                T.copy(A_shared, A_local)
                for i, j in T.Parallel(block, block_K):
                    A_local[i, j] = A_local[i, j] / 2
                T.gemm(A_local, B_shared, C_local)
            else:
                T.gemm(A_shared, B_shared, C_local)
        if behind == "sum":
            T.sum_blocks(C_local, axis=bz)
        if behind == "tile":
            row = T.alloc_shared((block,), T.float16)
            T.copy(A[by * block : (by + 1) * block, 0], row)
            for i, j in T.Parallel(block, block):
                C_local[i, j] += row[block - 1 - i]
        T.copy(C_local, C[by * block, bx * block])
    return C


@pytest.mark.parametrize("target", TARGETS)
def test_registers_of_a_tile_that_is_not_ahead_are_not_the_next_ones(target):
    """A loop's next tile waits in registers; what is loaded once goes through them at once."""

    def mirrored(X, block: int = 64):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float16)
        Y = T.empty((M, N), T.float16)
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            tile = T.alloc_shared((block, block), T.float16)
            T.copy(X[by * block, bx * block], tile)
            for i, j in T.Parallel(block, block):
                Y[by * block + i, bx * block + j] = tile[block - 1 - i, j]
        return Y

    once = kernel_text(generated(mirrored, target, [np.zeros((128, 128), np.float16)]))
    assert "tile_loaded[" in once and "_next" not in once
    ahead = kernel_text(generated(halved, target, operands()))
    assert "B_next[" in ahead and "_loaded" not in ahead


PROGRAMS = [  # parameters, and whether a barrier is for the staged tile alone
    ({"work": False}, True),
    ({}, False),
    ({"work": False, "behind": "tile"}, False),
    ({"work": False, "behind": "sum", "splits": 2}, False),
    ({"behind": "sum", "splits": 2}, False),
]


def operands() -> list[Array]:
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape).astype(np.float16) for shape in ((64, 136), (136, 72))]


def expected(a: Array, b: Array, parameters: dict) -> Array:
    a, b = a.astype(np.float64), b.astype(np.float64)
    product = a @ b / (2 if parameters.get("work", True) else 1)
    return product + a[::-1, :1] if parameters.get("behind") == "tile" else product


def findings(source: str, files, arrays: list[Array], wanted: Array) -> list[str]:
    """The kinds of the reports over a few orders, "wrong" for a wrong result."""
    kinds = []
    for seed, (schedule, asynchronous) in enumerate(ORDERS):
        try:
            found = run(source, files.manifest, arrays, schedule, asynchronous, seed=seed)
        except EmulationError as error:
            kinds.append(error.kind)
        else:
            kinds += ["wrong"] if not relative_error(found, wanted) < 1e-3 else []
    return kinds


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("parameters", "waits"), PROGRAMS, ids=str)
def test_a_barrier_stands_where_threads_have_not_met_since(parameters, waits, target, require_tool):
    require_tool("host_compiler")
    arrays = operands()
    files = generated(halved, target, arrays, **parameters)
    assert "lies over A_shared and B_shared" in files.source.partition("#include")[0]
    assert ("lies over" in kernel_text(files)) == waits
    assert not findings(files.source, files, arrays, expected(*arrays, parameters))


@pytest.mark.parametrize(("parameters", "waits"), PROGRAMS[:3], ids=str)
def test_no_barrier_can_be_left_out(parameters, waits, require_tool):
    require_tool("host_compiler")
    arrays = operands()
    files = generated(halved, "gfx942", arrays, **parameters)
    lines = files.source.splitlines()
    for barrier in (n for n, line in enumerate(lines) if re.match(r"\s+block_sync_lds\(\);", line)):
        text = "\n".join(line for n, line in enumerate(lines) if n != barrier) + "\n"
        assert findings(text, files, arrays, expected(*arrays, parameters)), lines[barrier]
