"""Operations on tiles that are in no registers: they pass through some."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T

TARGETS = ("sm_80", "sm_90a", "gfx942")
RNG = np.random.default_rng(0)


@tilegen.jit
def row_sums(
    X, rows: int = 16, columns: int = 64, shared_out: bool = True, clear: bool = True, keep: bool = False
):
    M = T.const("M")
    X: T.Tensor((M, columns), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
        tile = T.alloc_shared((2, rows, columns), T.float32)
        T.copy(X[bx * rows, 0], tile[0, :, :])
        shape = (rows, 1) if keep else (rows,)
        total = T.alloc_shared(shape, T.float32) if shared_out else T.alloc_fragment(shape, T.float32)
        T.fill(total, 1)
        T.reduce_sum(tile[0, :, :], total, dim=1, clear=clear)
        if keep:
            T.copy(total[:, 0], Y[bx * rows])
        else:
            T.copy(total, Y[bx * rows])
    return Y


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shared_out", "clear", "keep"), [(True, True, False), (True, False, True), (False, False, False)]
)
def test_reductions_of_shared_tiles(require_tool, target, shared_out, clear, keep):
    require_tool("host_compiler")
    x = RNG.integers(-4, 5, (37, 64)).astype(np.float32)
    emission = row_sums.emit(x, target=target, shared_out=shared_out, clear=clear, keep=keep)
    for schedule in ("fifo", "random"):
        y = emission.emulate(x, schedule=schedule, asynchronous="lazy")
        np.testing.assert_array_equal(y, x.sum(1) + (not clear))


@tilegen.jit
def whole(X, N: int, shared_in: bool = True, clear: bool = True, at: int = -1):
    """The sum of a row in a shared tile of one element, or in one element of a tile."""
    M = T.const("M")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, 1), T.float32)
    with T.Kernel(M, threads=128) as m:
        row = T.alloc_shared((N,), T.float32) if shared_in else T.alloc_fragment((N,), T.float32)
        total = T.alloc_shared((1,) if at < 0 else (3, 1), T.float32)
        T.copy(X[m, 0], row)
        T.fill(total, 1)
        T.reduce_sum(row, total if at < 0 else total[at, :], dim=0, clear=clear)
        T.copy(total if at < 0 else total[at, :], Y[m, 0])
    return Y


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("extent", [1, 3, 127, 256])
@pytest.mark.parametrize(
    ("shared_in", "clear", "at"), [(True, True, -1), (False, False, -1), (True, False, 2)]
)
def test_a_reduction_to_one_element(require_tool, target, extent, shared_in, clear, at):
    require_tool("host_compiler")
    x = RNG.integers(-4, 5, (3, extent)).astype(np.float32)
    emission = whole.emit(x, target=target, N=extent, shared_in=shared_in, clear=clear, at=at)
    y = emission.emulate(x, schedule="random", asynchronous="lazy")
    np.testing.assert_array_equal(y, x.sum(1, keepdims=True) + (not clear))


@tilegen.jit
def pipelined_maxima(X, columns: int = 32):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((M,), T.float16)
    with T.Kernel(T.ceildiv(M, 16), threads=128) as bx:
        tile = T.alloc_shared((16, columns), T.float16)
        top = T.alloc_fragment((16,), T.float16)
        T.fill(top, 0)
        for k in T.Pipelined(T.ceildiv(N, columns), num_stages=2):
            T.copy(X[bx * 16, k * columns], tile)
            T.reduce_max(tile, top, dim=1, clear=False)
        T.copy(top, Y[bx * 16])
    return Y


@pytest.mark.parametrize("target", TARGETS)
def test_a_reduction_of_a_ring(require_tool, target):
    require_tool("host_compiler")
    x = RNG.integers(1, 99, (20, 130)).astype(np.float16)
    emission = pipelined_maxima.emit(x, target=target)
    np.testing.assert_array_equal(emission.emulate(x, schedule="random", asynchronous="lazy"), x.max(1))


@tilegen.jit
def moved(X, rows: int = 16, columns: int = 64):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((2, M, N), T.float32)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (i, j):
        T.copy(
            X[j * rows, i * columns], Y[0, j * rows : j * rows + rows, i * columns : i * columns + columns]
        )
        at = j * rows
        Y[1, at : at + rows, i * columns : i * columns + columns] = X[
            at : at + rows, i * columns : i * columns + columns
        ]
    return Y


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(32, 128), (20, 71)])
def test_copies_from_tensor_to_tensor(require_tool, target, shape):
    require_tool("host_compiler")
    x = RNG.standard_normal(shape, np.float32).astype(np.float16)
    emission = moved.emit(x, target=target)
    np.testing.assert_array_equal(emission.emulate(x), np.stack([x, x]).astype(np.float32))
    assert "T.copy(X[j * rows, i * columns], Y[0" in emission.source


@tilegen.jit
def counted(C, total, n: int = 8):
    M, N = T.const("M, N")
    C: T.Tensor((M, N), T.float32)
    total: T.Tensor((n,), T.int32)
    with T.Kernel(5, threads=64) as bx:
        T.atomic_add(C[2 : 2 + n, 0:n], 1.5)
        T.atomic_add(total, bx)


@pytest.mark.parametrize("target", TARGETS)
def test_one_value_for_all_elements_of_a_tile(require_tool, target):
    require_tool("host_compiler")
    c, total = np.zeros((9, 7), np.float32), np.zeros(8, np.int32)
    expected = np.zeros((9, 7), np.float32)
    expected[2:] = 7.5
    written = counted.emit(c, total, target=target).emulate_all(c, total, schedule="random")
    np.testing.assert_array_equal(written["C"], expected)
    np.testing.assert_array_equal(written["total"], np.full(8, 10))
