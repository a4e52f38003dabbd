"""Masks that are guarded and sums that are deferred, in the forms that only look like those."""

# mypy: ignore-errors

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from emulation import TARGETS, emulated, generated, kernel_text

import tilegen.language as T

ROWS, COLUMNS = 32, 64


def masked(way):
    def program(X):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float32)
        Y = T.empty((M, N), T.float32)
        with T.Kernel(T.ceildiv(N, COLUMNS), T.ceildiv(M, ROWS), threads=128) as (bx, by):
            x = T.alloc_fragment((ROWS, COLUMNS), T.float32)
            T.copy(X[by * ROWS, bx * COLUMNS], x)
            for i, j in T.Parallel(ROWS, COLUMNS):
                if way == "a variable on both sides":
                    x[i, j] = T.if_then_else(i + j < i + 33, x[i, j], -7)
                if way == "rows on both sides":
                    x[i, j] = T.if_then_else(by * ROWS + i - j <= i + 1, x[i, j], -7)
                if way == "twice a column":
                    x[i, j] = T.if_then_else(2 * j - i <= by * 8 + j, x[i, j], -7)
                if way == "a column and a quotient":
                    x[i, j] = T.if_then_else(j // 16 <= i // 8 + by, x[i, j], -7)
                if way == "one of two":
                    x[i, j] = T.if_then_else(j < 5 or i < 3, x[i, j], -7)
            T.copy(x, Y[by * ROWS, bx * COLUMNS])
        return Y

    return program


MASKS = {
    "a variable on both sides": lambda i, j, by: j < 33,
    "rows on both sides": lambda i, j, by: by * ROWS - j <= 1,
    "twice a column": lambda i, j, by: j - i <= by * 8,
    "a column and a quotient": lambda i, j, by: j // 16 <= i // 8 + by,
    "one of two": lambda i, j, by: (j < 5) | (i < 3),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("way", MASKS)
def test_masks(way: str, target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(1).integers(0, 9, (3 * ROWS, 2 * COLUMNS)).astype(np.float32)
    rows, columns = np.arange(len(x))[:, None], np.arange(x.shape[1])[None]
    kept = MASKS[way](rows % ROWS, columns % COLUMNS, rows // ROWS)
    (found,) = emulated(masked(way), target, [x])
    np.testing.assert_array_equal(found, np.where(kept, x, -7))


def summed(way):
    def program(X):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float32)
        Y = T.empty((M,), T.float32)
        with T.Kernel(T.ceildiv(M, ROWS), threads=128) as by:
            x = T.alloc_fragment((ROWS, COLUMNS), T.float32)
            total = T.alloc_fragment((ROWS,), T.float32)
            part = T.alloc_fragment((ROWS,), T.float32)
            if way == "half cleared":
                T.fill(total, 3)
                T.fill(total[: ROWS // 2], 0)
            else:
                T.clear(total)
            for k in T.serial(T.ceildiv(N, COLUMNS)):
                T.copy(X[by * ROWS, k * COLUMNS], x)
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(ROWS):
                    total[i] = total[i] * 2 + part[i]
            T.copy(total, Y[by * ROWS])
        return Y

    return program


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("way", ["cleared", "half cleared"])
def test_sums(way: str, target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(1).integers(0, 9, (3 * ROWS, 3 * COLUMNS)).astype(np.float32)
    expected = np.where((way == "half cleared") & (np.arange(len(x)) % ROWS >= ROWS // 2), 3.0, 0.0)
    for k in range(3):
        expected = expected * 2 + x[:, k * COLUMNS : (k + 1) * COLUMNS].sum(1)
    (found,) = emulated(summed(way), target, [x])
    np.testing.assert_array_equal(found, expected)
    text = kernel_text(generated(summed(way), target, [x]))
    assert bool(re.search(r"part\[\d", text)) == (way == "half cleared")
