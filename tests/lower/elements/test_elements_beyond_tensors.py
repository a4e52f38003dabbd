"""Elements of tensors that are read outside of parallel loops, in names, conditions and bounds: 0 beyond the end."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilegen
import tilegen.language as T

TARGETS = ("sm_80", "sm_90a", "gfx942")


def named(X, L):
    R = T.const("R")
    X: T.Tensor((R, 64), T.float32)
    L: T.Tensor((R,), T.int32)
    Y = T.empty((R, 64), T.float32)
    with T.Kernel(R, threads=64) as bx:
        following = L[bx + 1]
        for j in T.Parallel(64):
            Y[bx, j] = X[bx, j] + following
    return Y


def asked(X, L):
    R = T.const("R")
    X: T.Tensor((R, 64), T.float32)
    L: T.Tensor((R,), T.int32)
    Y = T.empty((R, 64), T.float32)
    with T.Kernel(R, threads=64) as bx:
        if L[bx - 1] > 4:
            for j in T.Parallel(64):
                Y[bx, j] = X[bx, j] + 1
        else:
            for j in T.Parallel(64):
                Y[bx, j] = X[bx, j] + 2
    return Y


def counted(X, L):
    R = T.const("R")
    X: T.Tensor((R, 64), T.float32)
    L: T.Tensor((R,), T.int32)
    Y = T.empty((R, 64), T.float32)
    with T.Kernel(R, threads=64) as bx:
        tile = T.alloc_fragment((64,), T.float32)
        T.copy(X[bx, 0:64], tile)
        for _ in T.serial(L[bx + 1]):
            for j in T.Parallel(64):
                tile[j] += 1
        T.copy(tile, Y[bx, 0:64])
    return Y


LENGTHS = np.array([3, 5, 4], np.int32)
CASES = [(named, [5, 4, 0]), (asked, [2, 2, 1]), (counted, [5, 4, 0])]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("program", "added"), CASES, ids=lambda case: getattr(case, "__name__", ""))
@pytest.mark.parametrize("open_extents", [False, True])
def test_they_are_0(program, added, open_extents, target, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(1).integers(-9, 9, (3, 64)).astype(np.float32)
    specs = () if open_extents else (T.Tensor(x.shape, "float32"), T.Tensor(LENGTHS.shape, "int32"))
    result = tilegen.jit(program).emit(*specs, target=target).emulate(x, LENGTHS)
    np.testing.assert_array_equal(result, x + np.array(added)[:, None])
