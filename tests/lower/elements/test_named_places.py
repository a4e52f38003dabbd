"""Places with a name that the values need too: what is stored there leaves in vectors all the same."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
import pytest
from emulation import TARGETS, emulated, generated

import tilegen.language as T


def program(way: str):
    def kernel(X, labels):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float32)
        labels: T.Tensor((M,), T.int32)
        Y = T.empty((M, N), T.float32)
        with T.Kernel(T.ceildiv(N, 512), M, threads=128) as (bx, row):
            for j in T.Parallel(512):
                column = bx * 512 + j
                hit = T.Select(column == labels[row], 1.0, 0.0)
                if way == "a name of a name":
                    place = column - column % 2 + column % 2
                    Y[row, place] = X[row, column] + hit + T.cast(place, T.float32)
                elif way == "made step by step":
                    count = T.int32(0)
                    for _ in T.serial(labels[row] % 2):
                        count += 512
                    far = (1 - labels[row] % 2) * 512 + count - 512
                    place = far * 8 + column
                    Y[row, place] = X[row, column] + hit + T.cast(place, T.float32)
                else:
                    Y[row, column] = X[row, column] + hit + T.cast(column, T.float32)
        return Y

    return kernel


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("way", ["a name", "a name of a name", "made step by step"])
@pytest.mark.parametrize("size", [1024, 1536])
def test_named_places(way, size, target, require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(9)
    x, labels = rng.integers(0, 9, (4, size)).astype(np.float32), rng.integers(0, size, 4).astype(np.int32)
    column = np.arange(size)
    (found,) = emulated(program(way), target, [x, labels])
    np.testing.assert_array_equal(found, x + (column == labels[:, None]) + column)
    text = generated(program(way), target, [x, labels]).source
    assert way == "a name of a name" or ("Y_vector" in text) == (way == "a name")
