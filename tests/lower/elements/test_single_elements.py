"""Fragments of one element, which every thread holds: named outside of T.Parallel, in each kind of statement."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import TARGETS, emulated

import tilegen.language as T

SCHEDULES = (
    {"schedule": "reverse", "asynchronous": "lazy"},
    {"schedule": "random", "asynchronous": "random"},
)


def program(way: str):
    def kernel(X, counts, out):
        M, L, N = T.const("M, L, N")
        X: T.Tensor((M, L, N), T.float32)
        counts: T.Tensor((M,), T.int32)
        out: T.Tensor((M,), T.float32)
        with T.Kernel(M, threads=128) as by:
            x = T.alloc_fragment((16, N), T.float32)
            tile = T.alloc_shared((16, N), T.float32)
            rows = T.alloc_fragment((16,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            count = T.alloc_fragment((1, 1), T.int32)
            count[0, 0] = counts[by] * 2
            total[0] = 0.0
            if way == "the bound of a loop":
                for k in T.Pipelined(count[0, 0] // 2, num_stages=2):
                    T.copy(X[by, k * 16 : (k + 1) * 16, :], tile)
                    T.copy(tile, x)
                    T.reduce_sum(x, rows, dim=1)
                    T.reduce_sum(rows, total, dim=0, clear=False)
            if way == "an update in a loop with stages":
                order, stage = [0, 1, 2, 3, 4], [0, 1, 1, 1, 1]
                for k in T.Pipelined(T.ceildiv(L, 16), num_stages=2, order=order, stage=stage):
                    T.copy(X[by, k * 16 : (k + 1) * 16, :], tile)
                    T.copy(tile, x)
                    T.reduce_sum(x, rows, dim=1)
                    T.reduce_sum(rows, total, dim=0, clear=False)
                    count[0, 0] += 1
                total[0] += count[0, 0]
            if way == "the place of a tile":
                T.copy(X[by, count[0, 0] : count[0, 0] + 16, :], x)
                T.reduce_sum(x, rows, dim=1)
                T.reduce_sum(rows, total, dim=0)
            T.atomic_add(out[by], total[0])
            twice = total[0] * 2
            if total[0] > 5:
                T.atomic_add(out[by], twice)
            out[by] = out[by] + total[0]

    return kernel


def expected(way: str, x: np.ndarray, counts: np.ndarray, out: np.ndarray) -> np.ndarray:
    found = []
    for rows, count, old in zip(x, counts, out, strict=True):
        if way == "the bound of a loop":
            total = rows[: 16 * count].sum()
        elif way == "an update in a loop with stages":
            total = rows.sum() + 2 * count + len(rows) // 16
        else:
            total = rows[2 * count : 2 * count + 16].sum()
        found.append(old + 2 * total + (2 * total if total > 5 else 0))
    return np.array(found)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "way", ["the bound of a loop", "an update in a loop with stages", "the place of a tile"]
)
def test_every_thread_has_the_element(way: str, target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(4)
    x = rng.integers(-3, 4, (3, 48, 64)).astype(np.float32)
    counts, out = np.array([1, 3, 2], np.int32), rng.integers(0, 9, 3).astype(np.float32)
    for options in SCHEDULES:
        (found,) = emulated(program(way), target, [x, counts, out], options)
        np.testing.assert_array_equal(found, expected(way, x, counts, out))
