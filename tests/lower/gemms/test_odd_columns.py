"""Gemms on mma.sync whose warps have an odd number of tiles of 8 columns: ldmatrix reads pairs, then the last alone."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
import pytest
from emulation import relative_error

import tilegen
import tilegen.language as T
from tilegen.toolchain import compile_cuda


@tilegen.jit
def product(A, B, block_M=64, block_N=40, block_K=64, warps=2, transposed=False, stages=3, twice=False):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K) if transposed else (K, N), T.float16)
    C = T.empty((M, N), T.float32)
    tile = (block_N, block_K) if transposed else (block_K, block_N)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=32 * warps) as (bx, by):
        a = T.alloc_shared((block_M, block_K), T.float16)
        b = T.alloc_shared(tile, T.float16)
        held = T.alloc_fragment(tile, T.float16)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[by * block_M, k * block_K], a)
            if transposed:
                T.copy(B[bx * block_N, k * block_K], b)
            else:
                T.copy(B[k * block_K, bx * block_N], b)
            T.gemm(a, b, c, transpose_B=transposed)
            if twice:
                T.copy(b, held)
                T.gemm(a, held, c, transpose_B=transposed)
        T.copy(c, C[by * block_M, bx * block_N])
    return C


TILES = [(64, 40, 2), (64, 24, 1), (80, 16, 2), (128, 40, 4), (80, 48, 2), (16, 8, 1), (16, 120, 1)]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("transposed", [False, True], ids=["rows along n", "rows along k"])
@pytest.mark.parametrize(("block_M", "block_N", "warps"), TILES)
def test_an_odd_number_of_tiles_of_columns(target, transposed, block_M, block_N, warps, require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(block_N)
    rows, columns, depth = block_M + 5, 2 * block_N + 8, 136
    a = rng.standard_normal((rows, depth)).astype(np.float16)
    b = rng.standard_normal((columns, depth) if transposed else (depth, columns)).astype(np.float16)
    emission = product.emit(
        *(T.Tensor(x.shape, T.float16) for x in (a, b)),
        target=target,
        block_M=block_M,
        block_N=block_N,
        warps=warps,
        transposed=transposed,
    )
    if "wgmma" not in emission.source:
        assert f"ldmatrix_x2{'' if transposed else '_trans'}(" in emission.source
    expected = a.astype(np.float64) @ (b.T if transposed else b).astype(np.float64)
    for schedule, asynchronous in (("fifo", "eager"), ("random", "lazy")):
        found = emission.emulate(a, b, schedule=schedule, asynchronous=asynchronous, seed=4)
        assert relative_error(found, expected) < 1e-3


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("block_M", "block_N", "warps"), TILES)
def test_it_compiles_without_warnings(transposed, block_M, block_N, warps, require_tool):
    require_tool("nvcc")
    tile = {"block_M": block_M, "block_N": block_N, "warps": warps, "transposed": transposed}
    emission = product.emit(target="sm_80", dims={"M": 100, "N": 200, "K": 136}, **tile)
    assert compile_cuda(emission.source, emission.target, "nvcc").spills == 0


def test_pairs_are_taken_where_there_is_a_choice():
    """64 x 48 of 4 warps: 2 x 2 would have warps of 24 columns."""
    text = product.emit(target="sm_80", dims={"M": 64, "N": 96, "K": 64}, block_N=48, warps=4).source
    assert "ldmatrix_x2" not in text


@pytest.mark.parametrize("tile", [(64, 40, 2), (112, 80, 4)])
def test_operands_in_registers_and_in_shared_memory_add_to_the_same_sums(tile, require_tool):
    """Warps share a tile alike wherever its B comes from."""
    require_tool("host_compiler")
    block_M, block_N, warps = tile
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((130, 128), (128, 90)))
    emission = product.emit(
        *(T.Tensor(x.shape, T.float16) for x in (a, b)),
        target="sm_80",
        block_M=block_M,
        block_N=block_N,
        warps=warps,
        block_K=64,
        twice=True,
        stages=2,
    )
    expected = 2 * a.astype(np.float64) @ b.astype(np.float64)
    assert relative_error(emission.emulate(a, b, schedule="random", asynchronous="random"), expected) < 1e-3


@pytest.mark.parametrize("registers", [False, True])
def test_warpgroups_that_can_share_k_do_so_by_wgmma(registers):
    """A tile of 64 x 16 for two of them: warps of mma.sync would have 8 columns each, and two the same rows of A."""

    @tilegen.jit
    def low(A, B):
        A: T.Tensor((64, 512), T.float16)
        B: T.Tensor((16, 512), T.float16)
        C = T.empty((64, 16), T.float32)
        with T.Kernel(1, threads=256) as _:
            a = T.alloc_shared((64, 128), T.float16)
            b = T.alloc_shared((16, 128), T.float16)
            held = T.alloc_fragment((64, 128), T.float16) if registers else a
            c = T.alloc_fragment((64, 16), T.float32)
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 128], a)
                T.copy(B[0, k * 128], b)
                if registers:
                    T.copy(a, held)
                T.gemm(held, b, c, transpose_B=True)
            T.copy(c, C)
        return C

    assert "math by SM90_64x16x16" in low.emit(target="sm_90a").source
    source = low.emit(target="sm_90a").source
    assert "math by SM90_64x16x16" in source and "each take half of every tile's k" in source
