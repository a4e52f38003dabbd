"""Grids whose extents an integer argument counts: launchers refuse a negative one, and no quotient needs a helper."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.errors import ArgumentError
from tilegen.toolchain import compile_hip

TARGETS = ("sm_80", "sm_90a", "gfx942")


@tilegen.jit
def first_rows(X, limit: T.int32):
    M = T.const("M")
    X: T.Tensor((M, 64), T.float32)
    Y = T.empty((M, 64), T.float32)
    with T.Kernel(T.ceildiv(limit, 4), threads=128) as bx:
        for i, j in T.Parallel(4, 64):
            Y[bx * 4 + i, j] = X[bx * 4 + i, j] + 1
    return Y


@pytest.mark.parametrize("target", TARGETS)
def test_a_scalar_counts_the_blocks(require_tool, target):
    require_tool("host_compiler")
    x = np.ones((14, 64), np.float32)
    kernel = first_rows.for_target(target)
    np.testing.assert_array_equal(kernel(x, 14), x + 1)
    np.testing.assert_array_equal(kernel(x, 7)[:8], x[:8] + 1)
    with pytest.raises(ArgumentError, match="expected limit >= 0, got limit = -1"):
        kernel(x, -1)


@pytest.mark.parametrize("target", TARGETS)
def test_the_launcher_refuses_what_is_negative(target):
    source = first_rows.emit(T.Tensor((14, 64), T.float32), target=target).source
    assert "//            Requires limit >= 0.\n" in source
    assert "if (limit < 0) return " in source
    assert "const u64 blocks = (u64(limit) + 3) / 4;" in source


@tilegen.jit(target="sm_80")
def inner_rows(X, bounded: bool):
    M = T.dynamic("M")
    X: T.Tensor((M, 64), T.float32)
    Y = T.empty((M, 64), T.float32)
    rows = T.max(M - 5, 0) if bounded else M - 5
    with T.Kernel(T.ceildiv(rows, 4), threads=128) as bx:
        for i, j in T.Parallel(4, 64):
            Y[bx * 4 + i, j] = X[bx * 4 + i, j] + 1
    return Y


def test_a_quotient_of_what_may_be_negative_is_refused_at_the_line():
    with pytest.raises(ProgramError) as refused:
        inner_rows.emit(bounded=False)
    assert refused.value.message == "the grid's extent (M + -2) // 4 divides what may be negative"
    assert refused.value.location.text.startswith("with T.Kernel(")
    assert "T.max(M - 8, 0)" in refused.value.remedy


def test_what_is_bounded_is_counted_with_a_sign():
    """The launcher finds 0 blocks for 3 rows, as the manifest's formula does."""
    emission = inner_rows.emit(bounded=True)
    assert "blocks = ((i64(M) - 5 > 0 ? i64(M) - 5 : 0) + 3) / 4;" in emission.source
    assert emission.manifest.grid[0] == "(max(M - 5, 0) + 3) // 4"


@pytest.mark.parametrize("persistent", [None, True])
@pytest.mark.parametrize("dtype", [T.int32, T.uint32, T.int64], ids=str)
def test_counts_of_any_type_compare_with_those_of_blocks(require_tool, dtype, persistent):
    """Blocks and iterations are counted in int: no comparison with what has another sign."""
    require_tool("host_compiler")

    @tilegen.jit
    def added(X, count: dtype):
        M = T.const("M")
        X: T.Tensor((M, 64), T.float32)
        Y = T.empty((M, 64), T.float32)
        with T.Kernel(count, 2, threads=64, persistent=persistent) as (bz, bx):
            x = T.alloc_fragment((32,), T.float32)
            T.copy(X[bz, bx * 32], x)
            T.sum_blocks(x, bz)
            for row in T.serial(count):
                T.copy(x, Y[row, bx * 32])
        return Y

    x = np.arange(5 * 64, dtype=np.float32).reshape(5, 64)
    emission = added.emit(T.Tensor(("M", 64), T.float32), target="gfx942")
    expected = np.broadcast_to(x.sum(0), x.shape)
    np.testing.assert_array_equal(emission.emulate(x, scalars={"count": 5}), expected)
    require_tool("hip")
    compile_hip(emission.source, emission.target)
