"""Which thread stores an element that several hold: named by the finest index that says it."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T


@tilegen.jit(target="sm_90a")
def column_sums(A, B, threads: int = 256):
    A: T.Tensor((128, 64), T.float16)
    B: T.Tensor((64, 32), T.float16)
    Y = T.empty((32,), T.float32)
    with T.Kernel(1, threads=threads) as _:
        A_shared = T.alloc_shared((128, 64), T.float16)
        B_shared = T.alloc_shared((64, 32), T.float16)
        C = T.alloc_fragment((128, 32), T.float32)
        columns = T.alloc_fragment((32,), T.float32)
        T.clear(C)
        for k in T.Pipelined(1, num_stages=2):
            T.copy(A[0, k * 64], A_shared)
            T.copy(B[k * 64, 0], B_shared)
            T.gemm(A_shared, B_shared, C)
        T.reduce_sum(C, columns, dim=0)
        T.copy(columns, Y)
    return Y


@pytest.mark.parametrize(("target", "owner"), [("sm_90a", "computing_thread < 4"), ("sm_80", "thread < 4")])
def test_copies_over_many_threads_are_told_apart_by_one_comparison(require_tool, target, owner):
    require_tool("host_compiler")
    emission = column_sums.emit(target=target)
    assert f"if ({owner})" in emission.source
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((128, 64), (64, 32)))
    expected = (a.astype(np.float32) @ b.astype(np.float32)).sum(axis=0)
    np.testing.assert_array_equal(emission.emulate(a, b, schedule="random"), expected)
