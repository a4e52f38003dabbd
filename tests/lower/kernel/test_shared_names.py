"""What a program may call its tiles, tensors and variables in persistent kernels of a producer and consumers."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import emulated, generated, kernel_text, relative_error

import tilegen.language as T


def two_triangles(tile, round, done, next_tile, tile_counter, block=64):
    """stage_of[h, i] = blocks k < i of tile[h] @ round[h], and blocks j <= i of next_tile[h] @ done[h]."""
    H, N, D = T.const("H, N, D")
    tile: T.Tensor((H, N, N), T.float16)
    round: T.Tensor((H, N, D), T.float16)
    done: T.Tensor((H, N, D), T.float16)
    next_tile: T.Tensor((H, N, N), T.float16)
    tile_counter: T.Tensor((H, N), T.float32)
    stage_of = T.empty((H, N, D), T.float16)
    with T.Kernel(T.ceildiv(N, block), H, threads=128, persistent=True) as (i, h):
        ring = T.alloc_shared((block, block), T.float16)
        ring_empty = T.alloc_shared((block, D), T.float16)
        ring_shared = T.alloc_shared((block, block), T.float16)
        tile_full = T.alloc_shared((block, D), T.float16)
        total = T.alloc_fragment((block, D), T.float32)
        T.clear(total)
        for k in T.Pipelined(i, num_stages=2):
            T.copy(tile[h, i * block, k * block], ring)
            T.copy(round[h, k * block, 0], ring_empty)
            T.gemm(ring, ring_empty, total)
        for j in T.Pipelined(i + 1, num_stages=3):
            T.copy(next_tile[h, i * block, j * block], ring_shared)
            T.copy(done[h, j * block, 0], tile_full)
            T.gemm(ring_shared, tile_full, total)
        for r, c in T.Parallel(block, D):
            total[r, c] = total[r, c] + tile_counter[h, i * block + r]
        T.copy(total, stage_of[h, i * block, 0])
    return stage_of


def test_a_program_may_use_the_words_of_producers_and_counters(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(0)
    shapes = ((2, 200, 200), (2, 200, 64), (2, 200, 64), (2, 200, 200))
    a, b, d, c = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
    bias = rng.standard_normal((2, 200)).astype(np.float32)
    files = generated(two_triangles, "sm_90a", [a, b, d, c, bias])
    assert files.plan.draws_tiles
    text = kernel_text(files)
    assert "RingState<kRingStages>" in text
    assert "RingState<kRing2Stages>" in text
    row, column = (np.arange(200) // 64 for _ in range(2))
    below = np.where(row[:, None] > column, a, 0).astype(np.float64) @ b
    up_to = np.where(row[:, None] >= column, c, 0).astype(np.float64) @ d
    options = {"schedule": "random", "asynchronous": "lazy", "seed": 2}
    (found,) = emulated(two_triangles, "sm_90a", [a, b, d, c, bias], options)
    assert relative_error(found, below + up_to + bias[:, :, None]) < 1e-3


def in_an_if(X, Y, block=64):
    """The loop stands in an if, so that nothing runs ahead; the text's own loops run over i."""
    H, N, D = T.const("H, N, D")
    X: T.Tensor((H, N, N), T.float16)
    Y: T.Tensor((H, N, D), T.float16)
    Z = T.empty((H, N, D), T.float16)
    with T.Kernel(T.ceildiv(N, block), H, threads=128, persistent=True) as (i, h):
        X_shared = T.alloc_shared((block, block), T.float16)
        Y_shared = T.alloc_shared((block, D), T.float16)
        total = T.alloc_fragment((block, D), T.float32)
        T.clear(total)
        if i % 2 == 0:
            for k in T.Pipelined(i + 1, num_stages=2):
                T.copy(X[h, i * block, k * block], X_shared)
                T.copy(Y[h, k * block, 0], Y_shared)
                T.gemm(X_shared, Y_shared, total)
        T.copy(total, Z[h, i * block, 0])
    return Z


def test_a_block_index_that_gets_another_name_has_a_constant(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(shape).astype(np.float16) for shape in ((2, 200, 200), (2, 200, 64)))
    assert "[i_, h] = tile_coordinates(tile, kTilesI, kH)" in generated(in_an_if, "sm_90a", [x, y]).source
    (found,) = emulated(in_an_if, "sm_90a", [x, y])
    row, column = (np.arange(200) // 64 for _ in range(2))
    reach = (row[:, None] >= column) & (row[:, None] % 2 == 0)
    assert relative_error(found, np.where(reach, x, 0).astype(np.float64) @ y) < 1e-3


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_loops_may_run_over_r_again(target: str, require_tool: Callable[[str], None]) -> None:
    """The text walks registers with r, too."""
    require_tool("host_compiler")

    def row_sums(X, rows=64, columns=64):
        M = T.const("M")
        X: T.Tensor((M, columns), T.float32)
        Y = T.empty((M,), T.float32)
        with T.Kernel(T.ceildiv(M, rows), threads=128) as by:
            x = T.alloc_fragment((rows, columns), T.float32)
            total = T.alloc_fragment((rows,), T.float32)
            T.copy(X[by * rows, 0], x)
            T.reduce_sum(x, total, dim=1)
            for r in T.Parallel(rows):
                total[r] = total[r] * 2
            for r in T.Parallel(rows):
                Y[by * rows + r] = total[r]
        return Y

    x = np.random.default_rng(2).standard_normal((100, 64)).astype(np.float32)
    (found,) = emulated(row_sums, target, [x])
    assert relative_error(found, 2 * x.sum(axis=1, dtype=np.float64)) < 1e-5
