"""Stores by TMA of fragments of which warpgroups hold no rectangle, or columns of no whole swizzle group."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import emulated, generated

import tilegen.language as T
from tilegen.inference.fragment import Fragment, Mode, blocked
from tilegen.inference.warpgroup_part import warpgroup_part


def product_and_more(A, B, bm=192, bn=128, threads=384):
    """A @ B, and beside it a tile whose threads hold what element-wise loops give them."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    D = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
        a = T.alloc_shared((bm, 64), T.float16)
        b = T.alloc_shared((64, bn), T.float16)
        c = T.alloc_fragment((bm, bn), T.float32)
        d = T.alloc_fragment((bm, bn), T.float32)
        T.clear(c)
        for i, j in T.Parallel(bm, bn):
            d[i, j] = (by * bm + i) % 7 + (bx * bn + j) % 5
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * bm, k * 64], a)
            T.copy(B[k * 64, bx * bn], b)
            T.gemm(a, b, c)
        T.copy(d, D[by * bm, bx * bn])
        T.copy(c, C[by * bm, bx * bn])
    return C, D


@pytest.mark.parametrize(
    ("bm", "bn", "threads"),
    [
        (192, 128, 384),
        (192, 64, 384),
        (96, 32, 384),
        (128, 128, 256),
        (64, 128, 256),
        (32, 128, 256),
        (64, 96, 384),
    ],
)
def test_every_element_is_stored(bm: int, bn: int, threads: int, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(2)
    m, n, k = 2 * bm - 5, 2 * bn, 136
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    options = {"schedule": "reverse", "asynchronous": "lazy"}
    found, more = emulated(product_and_more, "sm_90a", [a, b], options, bm=bm, bn=bn, threads=threads)
    np.testing.assert_array_equal(found, a.astype(np.float64) @ b.astype(np.float64))
    np.testing.assert_array_equal(more, np.arange(m)[:, None] % 7 + np.arange(n) % 5)


def test_rectangles_still_go_by_tma() -> None:
    arrays = [np.zeros((384, 128), np.float16), np.zeros((128, 256), np.float16)]
    files = generated(product_and_more, "sm_90a", arrays)
    assert "tma_store_2d(C, " in files.source
    assert any("no rectangle" in reason for reason in files.plan.reasons)


def test_what_a_warpgroup_holds() -> None:
    lanes = (Mode(4, (0, 2)), Mode(8, (1, 0)))
    pairs = (Mode(2, (0, 1)), Mode(2, (8, 0)), Mode(4, (0, 8)))
    rows = Fragment((128, 32), (*lanes, Mode(4, (16, 0)), Mode(2, (64, 0))), (pairs,))
    assert warpgroup_part(rows, 128) == (64, 32)
    columns = Fragment((64, 64), (*lanes, Mode(4, (16, 0)), Mode(2, (0, 32))), (pairs,))
    assert warpgroup_part(columns, 128) == (64, 32)
    copies = Fragment((64, 32), (*lanes, Mode(4, (16, 0)), Mode(2, (0, 0))), (pairs,))
    assert warpgroup_part(copies, 128) == (64, 32)
    across = Fragment((96, 64), (*lanes, Mode(6, (16, 0)), Mode(2, (0, 32))), (pairs,))
    assert warpgroup_part(across, 128) is None
    assert warpgroup_part(blocked((64, 128), 256, 8), 128) is None  # warpgroups take rows in turn
    assert warpgroup_part(blocked((64, 128), 128, 8), 128) == (64, 128)
