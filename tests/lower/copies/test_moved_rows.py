"""Swizzles of rows shorter than a line of all banks move whole rows: who fills a tile agrees with who reads it, and no
row leaves the tile."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
import pytest
from emulation import TARGETS

import tilegen
import tilegen.language as T

MODES = (("fifo", "eager"), ("random", "lazy"))


@tilegen.jit
def columns_of_words(
    W, dtype: T.dtype = T.uint8, rows: int = 32, columns: int = 16, threads: int = 128, stages: int = 3
):
    """A pipeline's tile, read along its columns."""
    N, K = T.const("N, K")
    W: T.Tensor((N, K), dtype)
    O = T.empty((K, N), dtype)
    with T.Kernel(T.ceildiv(N, rows), threads=threads) as bx:
        tile = T.alloc_shared((rows, columns), dtype)
        for k in T.Pipelined(T.ceildiv(K, columns), num_stages=stages):
            T.copy(W[bx * rows, k * columns], tile)
            for j, i in T.Parallel(columns, rows):
                O[k * columns + j, bx * rows + i] = tile[i, j]
    return O


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [T.uint8, T.int8, T.float16, T.int32], ids=str)
@pytest.mark.parametrize(("rows", "threads"), [(32, 128), (64, 64), (128, 64)])
@pytest.mark.parametrize("row_bytes", [16, 32, 64])
def test_a_ring_of_short_rows(target, dtype, rows, threads, row_bytes, require_tool):
    require_tool("host_compiler")
    w = np.random.default_rng(1).integers(0, 100, (rows + 16, 4 * row_bytes)).astype(dtype.name)
    emission = columns_of_words.emit(
        T.Tensor(w.shape, dtype),
        target=target,
        dtype=dtype,
        rows=rows,
        columns=row_bytes // dtype.bytes,
        threads=threads,
    )
    for schedule, asynchronous in MODES:
        np.testing.assert_array_equal(emission.emulate(w, schedule=schedule, asynchronous=asynchronous), w.T)


@tilegen.jit
def permuted(X, dtype: T.dtype = T.float64, tile=(8, 2, 4), threads: int = 128):
    D0, D1, D2 = T.const("D0, D1, D2")
    X: T.Tensor((D0, D1, D2), dtype)
    O = T.empty((D1, D0, D2), dtype)
    with T.Kernel(
        *(T.ceildiv(extent, part) for extent, part in zip((D0, D1, D2), tile, strict=True)), threads=threads
    ) as blocks:
        at = [block * part for block, part in zip(blocks, tile, strict=True)]
        s = T.alloc_shared(tile, dtype)
        T.copy(X[at[0], at[1], at[2]], s)
        for i, j, k in T.Parallel(tile[1], tile[0], tile[2]):
            O[at[1] + i, at[0] + j, at[2] + k] = s[j, i, k]
    return O


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [T.float64, T.float32, T.float16], ids=str)
@pytest.mark.parametrize("tile", [(8, 2, 4), (16, 2, 8), (4, 3, 8), (2, 8, 4), (16, 1, 8)], ids=str)
def test_a_tile_of_three_axes(target, dtype, tile, require_tool):
    require_tool("host_compiler")
    x = np.random.default_rng(2).integers(0, 100, (11, 9, 16)).astype(dtype.name)
    emission = permuted.emit(T.Tensor(x.shape, dtype), target=target, dtype=dtype, tile=tile)
    np.testing.assert_array_equal(emission.emulate(x, schedule="random"), x.transpose(1, 0, 2))
