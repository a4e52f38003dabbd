"""Which thread stores an element that several hold: named by the finest index that says it."""

# mypy: ignore-errors

import re

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


@tilegen.jit
def partial_sums(X, rows: int = 64, columns: int = 128):
    """Lanes that hold copies of a column's sum: one of them leaves it for the other warps."""
    M = T.const("M")
    X: T.Tensor((M, columns), T.float16)
    Y = T.empty((T.ceildiv(M, rows), columns), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as by:
        x = T.alloc_fragment((rows, columns), T.float32)
        sums = T.alloc_fragment((columns,), T.float32)
        T.copy(X[by * rows, 0], x)
        T.reduce_sum(x, sums, dim=0)
        T.copy(sums, Y[by, :])
    return Y


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx90a", "gfx942"])
def test_the_first_of_a_warp_are_those_below_a_number(require_tool, target):
    require_tool("host_compiler")
    x = np.random.default_rng(1).integers(-3, 4, (100, 128)).astype(np.float16)
    emission = partial_sums.emit(T.Tensor(x.shape, T.float16), target=target)
    assert "if (lane < 16)" in emission.source and not re.search(r"lane / \d+ == 0", emission.source)
    expected = [x[:64].sum(axis=0, dtype=np.float32), x[64:].sum(axis=0, dtype=np.float32)]
    np.testing.assert_array_equal(emission.emulate(x, schedule="random"), expected)


@pytest.mark.parametrize(("target", "owner"), [("sm_90a", "computing_thread < 4"), ("sm_80", "thread < 4")])
def test_copies_over_many_threads_are_told_apart_by_one_comparison(require_tool, target, owner):
    require_tool("host_compiler")
    emission = column_sums.emit(target=target)
    assert f"if ({owner})" in emission.source
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((128, 64), (64, 32)))
    expected = (a.astype(np.float32) @ b.astype(np.float32)).sum(axis=0)
    np.testing.assert_array_equal(emission.emulate(a, b, schedule="random"), expected)
