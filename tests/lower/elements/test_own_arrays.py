"""Arrays of T.alloc_local: every thread has all elements of its own, and tiles that threads share are none of them."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.toolchain import compile_cuda

TARGETS = ("sm_80", "sm_90a", "gfx942")


@tilegen.jit
def fibonacci(X, n: int = 64):
    M = T.const("M")
    X: T.Tensor((M, n), T.float32)
    Y = T.empty((M, n), T.float32)
    with T.Kernel(T.ceildiv(M, 16), threads=128) as bx:
        last = T.alloc_local((3,), T.float32)
        table = T.alloc_local((2, 3), T.int32)
        T.clear(last)
        T.fill(table, 7)
        T.fill(table[1, 1:3], 2)
        last[0] = 1
        for _ in T.serial(4):
            last[2] = last[1]
            last[1] = last[0]
            last[0] = last[1] + last[2]
        for i, j in T.Parallel(16, n):
            factor = T.cast(table[j % 2, 1 + j % 2], T.float32)
            Y[bx * 16 + i, j] = X[bx * 16 + i, j] * last[0] * factor + last[1] - last[2]
    return Y


@pytest.mark.parametrize("target", TARGETS)
def test_every_thread_fills_its_own(target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(1).integers(-9, 9, (40, 64)).astype(np.float32)
    emission = fibonacci.emit(T.Tensor(x.shape, "float32"), target=target)
    factors = np.where(np.arange(64) % 2, 2, 7)
    np.testing.assert_array_equal(emission.emulate(x, schedule="random", seed=1), x * 5 * factors + 1)


@tilegen.jit
def tripled(X, n: int = 512):
    M = T.const("M")
    X: T.Tensor((M, n), T.float32)
    Y = T.empty((M, n), T.float32)
    with T.Kernel(M, threads=64) as bx:
        own = T.alloc_local((2,), T.float32)
        for j in T.Parallel(n):
            own[0] = X[bx, j]
            own[1] = own[0] * 2
            Y[bx, j] = own[0] + own[1]
    return Y


@pytest.mark.parametrize("target", TARGETS)
def test_an_iteration_reads_what_it_wrote(target: str, require_tool: Callable[[str], None]) -> None:
    """Not the array's last value of all the elements that a vector load brings."""
    require_tool("host_compiler")
    x = np.random.default_rng(1).integers(-9, 9, (5, 512)).astype(np.float32)
    emission = tripled.emit(T.Tensor(x.shape, "float32"), target=target)
    np.testing.assert_array_equal(emission.emulate(x), 3 * x)


def test_it_compiles(require_tool: Callable[[str], None]) -> None:
    require_tool("nvcc")
    emission = fibonacci.emit(T.Tensor((40, 64), "float32"), target="sm_80")
    compile_cuda(emission.source, emission.target)


@T.macro
def loaded(X, own, part, bx):
    T.copy(X[bx, 0:4], own)


@T.macro
def stored(X, own, part, bx):
    T.clear(own)
    T.copy(own, X[bx, 0:4])


@T.macro
def reduced(X, own, part, bx):
    T.clear(own)
    T.reduce_sum(own, part)


@T.macro
def divided(X, own, part, bx):
    for i in T.Parallel(4):
        own[i] = X[bx, i]


@T.macro
def divided_under_a_condition(X, own, part, bx):
    for i in T.Parallel(8):
        place = i - 4
        if place >= 0:
            own[place] = X[bx, place]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (loaded, "divides a tile among the threads"),
        (stored, "divides a tile among the threads"),
        (reduced, "divides a tile among the threads"),
        (divided, "none would have all elements of own"),
        (divided_under_a_condition, "none would have all elements of own"),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)  # fmt: skip
def test_what_threads_divide_is_refused(body: Callable, message: str) -> None:
    def program(X):
        X: T.Tensor((5, 64), T.float32)
        with T.Kernel(5, threads=64) as bx:
            own = T.alloc_local((4,), T.float32)
            part = T.alloc_fragment((1,), T.float32)
            body(X, own, part, bx)
            for j in T.Parallel(64):
                X[bx, j] = own[j % 4]

    with pytest.raises(ProgramError) as refused:
        tilegen.jit(program).emit(T.Tensor((5, 64), "float32"), target="sm_80")
    assert refused.value.message.startswith("each thread has own for itself")
    assert message in refused.value.message
    assert "T.alloc_fragment" in refused.value.remedy
