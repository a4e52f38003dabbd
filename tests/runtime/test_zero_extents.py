"""Tensors without elements: no block starts, whether their extents are open or given; sums over nothing are 0."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.calls.binding import Shapes
from tilegen.cli.loading import load_kernel
from tilegen.diagnostics import ProgramError
from tilegen.runtime.parameters import bind_call

TARGETS = ("sm_80", "sm_90a", "gfx942")
SHAPES = [((0, 64), (64, 64)), ((64, 64), (64, 0)), ((64, 0), (0, 64))]


def halves(*shape):
    return np.ones(shape, np.float16)


def matmul():
    return load_kernel("examples/matmul.py")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("a", "b"), SHAPES, ids=["M", "N", "K"])
def test_open_and_given_extents_behave_alike(require_tool, a, b, target):
    require_tool("host_compiler")
    arrays = halves(*a), halves(*b)
    given = matmul().emit(T.Tensor(a, T.float16), T.Tensor(b, T.float16), target=target)
    found = [
        matmul().for_target(target)(*arrays),
        given.emulate(*arrays),
        matmul().emit(target=target).emulate(*arrays),
    ]
    for result in found:
        np.testing.assert_array_equal(result, np.zeros((a[0], b[1]), np.float16))


def test_extents_that_tiles_need_stay_fixed(require_tool):
    require_tool("host_compiler")
    attention = load_kernel("examples/attention.py").for_target("sm_80")
    none, some = halves(1, 0, 2, 64), halves(1, 70, 2, 64)
    output, sums = attention(none, some, some)
    assert (output.shape, sums.shape) == ((1, 0, 2, 64), (1, 2, 0))
    lengths = tilegen.jit(target="sm_80", dynamic="S_q, S_k")(attention.__wrapped__)
    np.testing.assert_array_equal(lengths(some, some, some)[0], some)


def test_a_grid_that_is_given_as_empty_says_what_to_do():
    with pytest.raises(ProgramError) as refused:
        matmul().emit(target="sm_80", dims={"M": 0})
    assert refused.value.message == "grid axis 1 has 0 blocks"
    assert "leave the extent open that is 0" in refused.value.remedy


@tilegen.jit
def column_sums(X, rows: int = 32):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    total = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as by:
        x = T.alloc_fragment((rows, 128), T.float32)
        sums = T.alloc_fragment((128,), T.float32)
        T.copy(X[by * rows, 0], x)
        T.reduce_sum(x, sums, dim=0)
        for j in T.Parallel(128):
            T.atomic_add(total[j], sums[j])
    return total


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_sums_over_nothing_are_0(require_tool, target):
    require_tool("host_compiler")
    np.testing.assert_array_equal(
        column_sums.for_target(target)(np.ones((0, 128), np.float32)), np.zeros(128, np.float32)
    )
    emission = column_sums.emit(T.Tensor(("M", 128), T.float32), target=target)
    host = emission.source[emission.source.index("- host\n") :]
    assert host.index("MemsetAsync(total, 0,") < host.index("if (blocks == 0) return")
    call = bind_call(emission.manifest, Shapes({"M": 0}, ((0, 128), (128,))), {}, 100)
    assert call.grid == (0, 0, 0) and call.zeroed == ((1, 512),)
