"""Resident blocks leave registers for what reductions hold beside their fragments."""

# mypy: ignore-errors

from collections.abc import Callable

import numpy as np
import pytest
from emulation import emulated, generated, relative_error

import tilegen.language as T
from tilegen.target import load_target
from tilegen.toolchain import compile_cuda


def both_sums(X, bm=64, bn=48, threads=128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    rows = T.empty((M,), T.float32)
    columns = T.empty((T.ceildiv(M, bm), N), T.float32)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as b:
        x = T.alloc_fragment((bm, bn), T.float32)
        row = T.alloc_fragment((bm,), T.float32)
        column = T.alloc_fragment((bn,), T.float32)
        T.clear(row)
        for n in T.serial(T.ceildiv(N, bn)):
            T.copy(X[b * bm, n * bn], x)
            T.reduce_sum(x, row, dim=1, clear=False)
            T.reduce_sum(x, column, dim=0)
            T.copy(column, columns[b, n * bn])
        T.copy(row, rows[b * bm])
    return rows, columns


X = np.random.default_rng(0).standard_normal((200, 130)).astype(np.float32)


@pytest.mark.parametrize(("bm", "bn", "threads"), [(64, 48, 128), (64, 64, 128), (32, 96, 256)])
def test_reductions_spill_nothing(
    bm: int, bn: int, threads: int, require_tool: Callable[[str], None]
) -> None:
    require_tool("nvcc")
    files = generated(both_sums, "sm_90a", [X], bm=bm, bn=bn, threads=threads)
    assert compile_cuda(files.source, load_target("sm_90a")).spills == 0


def test_sums_along_both_axes(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rows, columns = emulated(both_sums, "sm_80", [X], {"schedule": "reverse"}, bm=37, bn=13, threads=96)
    x = X.astype(np.float64)
    padded = np.pad(x, ((0, 22), (0, 0))).reshape(6, 37, 130)
    assert relative_error(rows, x.sum(1)) < 1e-5
    assert relative_error(columns, padded.sum(1)) < 1e-5
