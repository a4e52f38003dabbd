"""Kernels of which two statements, or two iterations, touch the same elements of a tensor by different threads."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import emulated, generated, kernel_text

import tilegen.language as T

TARGETS = ("sm_80", "sm_90a", "gfx942")
BARRIERS = ("__syncthreads()", "block_sync_lds();", "named_barrier_sync(kConsumerBarrier")
ROWS, COLUMNS = 32, 64


def stored(X, way="twice"):
    """Rows of X, some plus 1; what other distributions wrote is written over, or read again."""
    M = T.const("M")
    X: T.Tensor((M, COLUMNS), T.float32)
    Y = T.empty((M, COLUMNS), T.float32)
    with T.Kernel(T.ceildiv(M, ROWS), threads=128) as b:
        x = T.alloc_fragment((ROWS, COLUMNS), T.float32)
        turned = T.alloc_fragment((COLUMNS, ROWS), T.float32)
        other = T.alloc_shared((ROWS, COLUMNS), T.float32)
        T.copy(X[b * ROWS, 0], x)
        T.copy(X[b * ROWS, 0], other)
        for j, i in T.Parallel(COLUMNS, ROWS):
            turned[j, i] = other[i, j] + 1
        if way == "twice":
            T.copy(x, Y[b * ROWS, 0])
            for j, i in T.Parallel(COLUMNS, ROWS):
                Y[b * ROWS + i, j] = turned[j, i]
        if way == "read again":
            T.copy(x, Y[b * ROWS, 0])
            for j, i in T.Parallel(COLUMNS, ROWS):
                turned[j, i] = Y[b * ROWS + i, j] + 1
            for j, i in T.Parallel(COLUMNS, ROWS):
                Y[b * ROWS + i, j] = turned[j, i]
        if way == "in a condition":
            T.copy(x, Y[b * ROWS, 0])
            if Y[b * ROWS, COLUMNS - 1] < 1000:
                for j, i in T.Parallel(COLUMNS, ROWS):
                    Y[b * ROWS + i, j] = turned[j, i]
        if way == "in a loop":
            for _ in T.serial(3):
                T.copy(x, Y[b * ROWS, 0])
                for j, i in T.Parallel(COLUMNS, ROWS):
                    Y[b * ROWS + i, j] = turned[j, i]
        if way == "overlapping":
            for k in T.serial(3):
                for i, j in T.Parallel(ROWS // 2, COLUMNS):
                    Y[b * ROWS + k * 8 + i, j] = other[k * 8 + i, j] + k
            for i, j in T.Parallel(ROWS, COLUMNS):
                Y[b * ROWS + i, j] = other[i, j] + 1
        if way == "halves":
            T.copy(other[: ROWS // 2, :], Y[b * ROWS, 0])
            for j, i in T.Parallel(COLUMNS, ROWS // 2):
                Y[b * ROWS + ROWS // 2 + i, j] = other[ROWS // 2 + i, j]
        if way == "its own":
            T.copy(x, Y[b * ROWS, 0])
            for i, j in T.Parallel(ROWS, COLUMNS):
                Y[b * ROWS + i, j] = x[i, j] * 2
        if way == "tile by tile":
            for k in T.serial(4):
                T.copy(other[:8, :], Y[b * ROWS + k * 8, 0])
    return Y


def _expected(x, way):
    if way == "halves":
        return x
    if way == "its own":
        return x * 2
    if way == "tile by tile":
        return x.reshape(-1, ROWS, COLUMNS)[:, np.arange(ROWS) % 8].reshape(x.shape)
    return x + 1


APART = ("halves", "its own", "tile by tile")
MEETING = ("twice", "read again", "in a condition", "in a loop", "overlapping")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("schedule", ["fifo", "reverse"])
@pytest.mark.parametrize("way", (*MEETING, *APART))
def test_a_barrier_parts_them(
    way: str, schedule: str, target: str, require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(3).integers(0, 9, (64, COLUMNS)).astype(np.float32)
    (found,) = emulated(stored, target, [x], {"schedule": schedule}, way=way)
    np.testing.assert_array_equal(found, _expected(x, way))


@pytest.mark.parametrize("target", TARGETS)
def test_none_stands_where_threads_keep_apart(target: str) -> None:
    x = np.zeros((64, COLUMNS), np.float32)

    def barriers(way: str) -> int:
        text = kernel_text(generated(stored, target, [x], way=way))
        return sum(text.count(barrier) for barrier in BARRIERS)

    assert {way: barriers(way) for way in APART} == {"halves": 1, "its own": 0, "tile by tile": 1}
    assert barriers("twice") == 2


def product(A, B, more="add", block=64):
    """A @ B by accumulators whose lanes exchange what they store, touched again by the threads that hold it."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=256) as (bx, by):
        a = T.alloc_shared((block, 32), T.float16)
        b = T.alloc_shared((32, block), T.float16)
        c = T.alloc_fragment((block, block), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * block, k * 32], a)
            T.copy(B[k * 32, bx * block], b)
            T.gemm(a, b, c)
            if more == "every iteration":
                T.copy(c, C[by * block, bx * block])
        T.copy(c, C[by * block, bx * block])
        if more == "add":
            for i, j in T.Parallel(block, block):
                C[by * block + i, bx * block + j] = c[i, j] + C[by * block + i, bx * block + j]
    return C


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("more", ["add", "every iteration"])
def test_lanes_that_exchange_what_they_store(
    more: str, target: str, require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-1, 2, shape).astype(np.float16) for shape in ((128, 96), (96, 128)))
    for schedule in ("fifo", "reverse"):
        (found,) = emulated(
            product, target, [a, b], {"schedule": schedule, "asynchronous": "lazy"}, more=more
        )
        np.testing.assert_array_equal(found, (2 if more == "add" else 1) * (a.astype(np.float64) @ b))


def updated(X, Y, first="max", second="min"):
    """Two atomic updates of the same elements by different threads, one behind the other."""
    M = T.const("M")
    X: T.Tensor((M, COLUMNS), T.float32)
    Y: T.Tensor((M, COLUMNS), T.float32)
    with T.Kernel(T.ceildiv(M, ROWS), threads=128) as b:
        x = T.alloc_fragment((ROWS, COLUMNS), T.float32)
        T.copy(X[b * ROWS, 0], x)
        for i, j in T.Parallel(ROWS, COLUMNS):
            if first == "max":
                T.atomic_max(Y[b * ROWS + i, j], x[i, j])
            else:
                T.atomic_add(Y[b * ROWS + i, j], x[i, j])
        for i, j in T.Parallel(ROWS, COLUMNS):
            if second == "min":
                T.atomic_min(Y[b * ROWS + i, COLUMNS - 1 - j], x[i, j] - 1)
            else:
                T.atomic_add(Y[b * ROWS + i, COLUMNS - 1 - j], x[i, j])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("first", "second"), [("max", "min"), ("add", "min"), ("max", "add"), ("add", "add")]
)
def test_updates_that_do_not_commute_keep_their_order(
    first: str, second: str, target: str, require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    x, y = np.random.default_rng(5).integers(-9, 9, (2, 64, COLUMNS)).astype(np.float32)
    expected = np.maximum(y, x) if first == "max" else y + x
    expected = np.minimum(expected, x[:, ::-1] - 1) if second == "min" else expected + x[:, ::-1]
    parameters = {"first": first, "second": second}
    for schedule in ("fifo", "reverse"):
        (found,) = emulated(updated, target, [x, y], {"schedule": schedule}, **parameters)
        np.testing.assert_array_equal(found, expected)
    text = kernel_text(generated(updated, target, [x, y], **parameters))
    assert sum(text.count(barrier) for barrier in BARRIERS) == (first != second)


def updated_in_place(Y, width=100):
    """Tiles that threads do not divide evenly, read and written; neighbours are other blocks'."""
    M, N = T.const("M, N")
    Y: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, width), T.ceildiv(M, 16), threads=128) as (bx, by):
        y = T.alloc_shared((16, width), T.float32)
        T.copy(Y[by * 16, bx * width], y)
        for i, j in T.Parallel(16, width):
            Y[by * 16 + i, bx * width + j] = y[15 - i, width - 1 - j]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("schedule", ["fifo", "reverse", "random"])
def test_no_thread_reads_beside_its_tile(
    schedule: str, target: str, require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    y = np.random.default_rng(6).integers(0, 9, (48, 300)).astype(np.float32)
    (found,) = emulated(updated_in_place, target, [y], {"schedule": schedule})
    expected = y.reshape(3, 16, 3, 100)[:, ::-1, :, ::-1].reshape(y.shape)
    np.testing.assert_array_equal(found, expected)


def added_to_copies(A, B, C):
    """C += A @ B, where the warps share K and so hold copies of the sums."""
    A: T.Tensor((32, 128), T.float16)
    B: T.Tensor((128, 16), T.float16)
    C: T.Tensor((32, 16), T.float32)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((32, 128), T.float16)
        b = T.alloc_shared((128, 16), T.float16)
        c = T.alloc_fragment((32, 16), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c, clear_accum=True, policy=T.GemmWarpPolicy.SlicedK)
        for i, j in T.Parallel(32, 16):
            C[i, j] = c[i, j] + C[i, j]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("schedule", ["fifo", "reverse", "random"])
def test_only_the_owner_of_an_element_reads_what_it_writes(
    schedule: str, target: str, require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((32, 128), (128, 16)))
    c = rng.integers(-9, 9, (32, 16)).astype(np.float32)
    (found,) = emulated(added_to_copies, target, [a, b, c], {"schedule": schedule})
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32) + c)


def turned_round(X, Y):
    """An element is another thread's in each iteration, though one expression says which."""
    X: T.Tensor((128,), T.float32)
    Y: T.Tensor((128,), T.float32)
    with T.Kernel(1, threads=128):
        for k in T.serial(3):
            for i in T.Parallel(128):
                Y[(i + k) % 128] = Y[(i + k) % 128] * 2 + X[i]


@pytest.mark.parametrize("target", TARGETS)
def test_an_element_that_moves_on_by_the_iteration(target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    x, y = np.random.default_rng(4).integers(-9, 9, (2, 128)).astype(np.float32)
    expected = y
    for k in range(3):
        expected = expected * 2 + np.roll(x, k)
    (found,) = emulated(turned_round, target, [x, y], {"schedule": "random", "seed": 1})
    np.testing.assert_array_equal(found, expected)
