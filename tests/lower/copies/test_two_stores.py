"""Kernels that store two accumulators, or one twice."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import TARGETS, emulated, generated, kernel_text, relative_error

import tilegen.language as T


def products(A, B, twice=False):
    """A @ B and 2 A @ B; with `twice` both to one tensor, where the second is to stay."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    D = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 32), T.float16)
        B_shared = T.alloc_shared((32, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[k * 32, bx * 64], B_shared)
            T.gemm(A_shared, B_shared, c)
        T.copy(c, C[by * 64, bx * 64])
        for i, j in T.Parallel(64, 64):
            c[i, j] *= 2
        T.copy(c, (C if twice else D)[by * 64, bx * 64])
        if twice:
            T.copy(c, D[by * 64, bx * 64])
    return C, D


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_both_are_there(target: str, twice: bool, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((72, 72), (72, 136)))
    options = {"schedule": "random", "asynchronous": "lazy", "seed": 1}
    first, second = emulated(products, target, [a, b], options, twice=twice)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert relative_error(first, expected * (2 if twice else 1)) < 1e-3
    assert relative_error(second, expected * 2) < 1e-3


def test_tma_stores_do_not_overtake_one_another() -> None:
    arrays = [np.zeros((72, 72), np.float16), np.zeros((72, 136), np.float16)]
    assert kernel_text(generated(products, "sm_90a", arrays)).count("tma_store_2d(") == 2
    files = generated(products, "sm_90a", arrays, twice=True)
    assert kernel_text(files).count("tma_store_2d(D, ") == 1
    assert "tma_store_2d(C, " not in files.source
    assert any("no TMA store, another statement reads or writes C" in reason for reason in files.plan.reasons)
