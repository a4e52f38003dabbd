"""Tiles of one axis that run ahead in a pipelined loop, whether the threads have chunks enough for all of it or not."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.toolchain import compile_cuda

TARGETS = ("sm_80", "sm_90a", "gfx942")


@tilegen.jit
def next_numbers(X, n: int = 256, dtype: T.dtype = T.float32):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), dtype)
    with T.Kernel(M, threads=64) as by:
        row = T.alloc_shared((n,), dtype)
        for k in T.Pipelined(T.ceildiv(N, n), num_stages=2):
            T.copy(X[by, k * n : k * n + n], row)
            for i in T.Parallel(n):
                Y[by, k * n + i] = row[i] + 1
    return Y


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("n", "columns"), [(40, 120), (64, 200), (256, 1000), (1024, 1500)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rows(dtype: type, n: int, columns: int, target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(1).integers(0, 500, (3, columns)).astype(dtype)
    emission = next_numbers.emit(T.Tensor(x.shape, x.dtype.name), target=target, n=n)
    if target == "sm_80":
        assert "cp_async_wait" in emission.source
    result = emission.emulate(x, schedule="random", asynchronous="lazy", seed=1)
    np.testing.assert_array_equal(result, x + x.dtype.type(1))


@pytest.mark.parametrize("n", [40, 256, 1024])
def test_they_compile(n: int, require_tool: Callable[[str], None]) -> None:
    require_tool("nvcc")
    emission = next_numbers.emit(T.Tensor((3, 1600), "float32"), target="sm_80", n=n)
    compile_cuda(emission.source, emission.target)
