"""Why threads meet is said behind each barrier: which tiles and tensors have been written or read by then."""

# mypy: ignore-errors

from __future__ import annotations

import re

import numpy as np
import pytest
from emulation import generated, kernel_text

import tilegen.language as T
from tilegen.lower.vocabulary.words import settled


def through_two(X, block: int = 64):
    """Y = 2 X^T, block by block through a tile that is written and read in each turn, and Z, sums of rows."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((N, M), T.float16)
    Z = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
        tile = T.alloc_shared((block, block), T.float16)
        x = T.alloc_fragment((block, block), T.float32)
        total = T.alloc_fragment((block,), T.float32)
        for n in T.serial(T.ceildiv(N, block)):
            for i, j in T.Parallel(block, block):
                tile[i, j] = X[bx * block + i, n * block + j] * 2
            for i, j in T.Parallel(block, block):
                Y[n * block + i, bx * block + j] = tile[j, i]
        T.copy(X[bx * block, 0], x)
        T.reduce_sum(x, total, dim=1)
        T.copy(total, Z[bx * block])
    return Y, Z


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_a_barrier_says_what_is_over(target: str) -> None:
    text = kernel_text(generated(through_two, target, [np.zeros((128, 128), np.float16)]))
    barriers = re.findall(r"(?:__syncthreads|block_sync_lds)\(\);(?: +// (.*))?\n", text)
    assert barriers.count("tile has been written") == 1
    assert barriers.count("tile has been read") == 1
    assert "" not in barriers


def test_reasons_are_told_once() -> None:
    assert settled(["A"], ["B", "C"]) == "A has been written, B and C have been read"
    assert settled(["A"], ["A"]) == "A has been written"
    assert settled([]) == ""
