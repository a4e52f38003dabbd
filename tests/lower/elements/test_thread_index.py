"""T.get_thread_binding: each thread stores what it names by its own index; what threads do together depends on none."""

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


def reversed_blocks(X):
    M = T.const("M")
    X: T.Tensor((M,), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, 128), threads=128) as bx:
        tile = T.alloc_shared((128,), T.float32)
        own = T.alloc_local((2,), T.float32)
        t = T.get_thread_binding()
        tile[t] = X[bx * 128 + t]
        own[t % 2] = tile[127 - t]
        Y[bx * 128 + t] = own[t % 2]
    return Y


def sums(X):
    M = T.const("M")
    X: T.Tensor((M,), T.float32)
    Y = T.empty((T.ceildiv(M, 128),), T.float32)
    with T.Kernel(T.ceildiv(M, 128), threads=128) as bx:
        tile = T.alloc_shared((128,), T.float32)
        t = T.get_thread_binding()
        tile[t] = X[bx * 128 + t]
        for k in T.serial(7):
            half = 64 >> k
            T.sync_threads()
            if t < half:
                tile[t] = tile[t] + tile[t + half]
        Y[bx] = tile[0]
    return Y


def counts(X):
    """Of each number, and twice how many there are at all."""
    M = T.const("M")
    X: T.Tensor((M,), T.int32)
    H = T.empty((9,), T.int32)
    with T.Kernel(T.ceildiv(M, 128), threads=128) as bx:
        t = T.get_thread_binding()
        if bx * 128 + t < M:
            T.atomic_add(H[X[bx * 128 + t]], 1)
            T.atomic_add(H[8], 1)
        T.atomic_add(H[8], T.if_then_else(bx * 128 + t < M, 1, 0))
    return H


def strides(X):
    """Iterations write elements apart, so that threads need not meet."""
    M = T.const("M")
    X: T.Tensor((M,), T.float32)
    Y = T.empty((M,), T.float32)
    with T.Kernel(2, threads=128) as bx:
        t = T.get_thread_binding()
        for k in T.serial(T.ceildiv(M, 256)):
            place = k * 256 + bx * 128 + t
            if place < M:
                Y[place] = X[place] * 2
    return Y


def neighbours(X):
    """Each thread goes on with what another one stored."""
    X: T.Tensor((128,), T.float32)
    Y = T.empty((128,), T.float32)
    with T.Kernel(1, threads=128):
        t = T.get_thread_binding()
        Y[t] = X[t]
        Y[127 - t] = Y[127 - t] + X[t]
        for k in T.serial(3):
            Y[(t + k) % 128] = Y[(t + k) % 128] * 2
    return Y


def biased(A, B, bias):
    A: T.Tensor((128, 128), T.float16)
    B: T.Tensor((128, 128), T.float16)
    bias: T.Tensor((256,), T.float32)
    C = T.empty((128, 128), T.float32)
    with T.Kernel(1, threads=256):
        a = T.alloc_shared((128, 64), T.float16)
        b = T.alloc_shared((64, 128), T.float16)
        c = T.alloc_fragment((128, 128), T.float32)
        doubled = T.alloc_shared((256,), T.float32)
        t = T.get_thread_binding()
        doubled[t] = bias[t] * 2
        T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[0, k * 64], a)
            T.copy(B[k * 64, 0], b)
            T.gemm(a, b, c)
        for i, j in T.Parallel(128, 128):
            c[i, j] += doubled[j + 128] + doubled[i]
        T.copy(c, C)
    return C


X = np.random.default_rng(1).integers(-9, 9, 384).astype(np.float32)
NUMBERS = np.random.default_rng(2).integers(0, 8, 300).astype(np.int32)
A, B = np.random.default_rng(3).integers(-2, 3, (2, 128, 128)).astype(np.float16)
BIAS = np.arange(256, dtype=np.float32)
CASES = [
    (reversed_blocks, (X,), X.reshape(3, 128)[:, ::-1].reshape(-1)),
    (sums, (X[:300],), np.array([X[:128].sum(), X[128:256].sum(), X[256:300].sum()])),
    (counts, (NUMBERS,), np.append(np.bincount(NUMBERS, minlength=8), 600)),
    (strides, (X[:300],), 2 * X[:300]),
    (neighbours, (X[:128],), 8 * (X[:128] + X[:128][::-1])),
    (biased, (A, B, BIAS), A.astype(np.float32) @ B + 2 * BIAS[128:] + 2 * BIAS[:128, None]),
]


def _emitted(program: Callable, arrays: tuple[np.ndarray, ...], target: str):
    specs = [T.Tensor(array.shape, array.dtype.name) for array in arrays]
    return tilegen.jit(program).emit(*specs, target=target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("program", "arrays", "expected"), CASES, ids=lambda case: getattr(case, "__name__", "")
)
def test_each_thread_stores_its_own(program, arrays, expected, target, require_tool) -> None:
    require_tool("host_compiler")
    emission = _emitted(program, arrays, target)
    for schedule in ("random", "reverse"):
        result = emission.emulate(*arrays, schedule=schedule, asynchronous="lazy", seed=1)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("program", "arrays"), [case[:2] for case in CASES], ids=lambda case: getattr(case, "__name__", "")
)
def test_they_compile(program, arrays, require_tool) -> None:
    require_tool("nvcc")
    emission = _emitted(program, arrays, "sm_90a")
    compile_cuda(emission.source, emission.target)


def _refused(body: Callable) -> ProgramError:
    def program(X):
        X: T.Tensor((1024,), T.float32)
        Y = T.empty((1024,), T.float32)
        with T.Kernel(8, threads=128) as bx:
            tile = T.alloc_shared((128,), T.float32)
            t = T.get_thread_binding()
            body(X, Y, tile, bx, t)
        return Y

    with pytest.raises(ProgramError) as refused:
        tilegen.jit(program).emit(T.Tensor((1024,), T.float32), target="sm_80")
    return refused.value


@T.macro
def copied_by_some(X, Y, tile, bx, t):
    if t < 64:
        T.copy(X[bx * 128], tile)
    T.copy(tile, Y[bx * 128])


@T.macro
def met_by_some(X, Y, tile, bx, t):
    for _ in T.serial(t):
        T.sync_threads()
    T.copy(X[bx * 128], Y[bx * 128])


@T.macro
def copied_to_many_places(X, Y, tile, bx, t):
    T.copy(X[bx * 128 + t // 32 * 32], tile)
    T.copy(tile, Y[bx * 128])


@T.macro
def read_behind_others(X, Y, tile, bx, t):
    tile[t] = X[bx * 128 + t]
    if t < 64:
        Y[bx * 128 + t] = tile[t + 64]


@pytest.mark.parametrize(
    ("body", "message", "remedy"),
    [
        (copied_by_some, "threads run this together, but what stands around it differs", "put it outside"),
        (met_by_some, "threads run this together, but what stands around it differs", "put it outside"),
        (copied_to_many_places, "threads run this together, but it depends on T.get_thread_binding", "T.Parallel"),
        (read_behind_others, "threads have to meet before this", "T.sync_threads()"),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)  # fmt: skip
def test_what_threads_do_together(body: Callable, message: str, remedy: str) -> None:
    error = _refused(body)
    assert error.message.startswith(message)
    assert remedy in error.remedy
