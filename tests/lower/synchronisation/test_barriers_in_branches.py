"""Shared tiles that are read in a branch or in a loop which may not run, and again behind it."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import TARGETS, emulated

import tilegen.language as T

BLOCK = 64


def program(way):
    def product(A, B):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), T.float16)
        B: T.Tensor((K, N), T.float16)
        C = T.empty((M, N), T.float32)
        with T.Kernel(T.ceildiv(N, BLOCK), T.ceildiv(M, BLOCK), threads=128) as (bx, by):
            a = T.alloc_shared((BLOCK, BLOCK), T.float16)
            b = T.alloc_shared((BLOCK, BLOCK), T.float16)
            s = T.alloc_shared((BLOCK, BLOCK), T.float32)
            c = T.alloc_fragment((BLOCK, BLOCK), T.float32)
            d = T.alloc_fragment((BLOCK, BLOCK), T.float32)
            T.clear(c)
            T.clear(d)
            for k in T.Pipelined(T.ceildiv(K, BLOCK), num_stages=2):
                T.copy(A[by * BLOCK, k * BLOCK], a)
                T.copy(B[k * BLOCK, bx * BLOCK], b)
                T.gemm(a, b, c)
                T.copy(c, s)
                if way == "branch":  # noqa: SIM102 - one is known to Python, the other to the kernel
                    if k % 2 == 1:
                        for i, j in T.Parallel(BLOCK, BLOCK):
                            d[i, j] += s[BLOCK - 1 - i, j]
                if way == "other branch":
                    if k % 2 == 0:
                        T.clear(d)
                    else:
                        for i, j in T.Parallel(BLOCK, BLOCK):
                            d[i, j] += s[BLOCK - 1 - i, j]
                if way == "loop":
                    for _ in T.serial(k):
                        for i, j in T.Parallel(BLOCK, BLOCK):
                            d[i, j] += s[BLOCK - 1 - i, j]
                for i, j in T.Parallel(BLOCK, BLOCK):
                    d[i, j] += s[BLOCK - 1 - i, j]
            if way == "behind":
                if by > 0:
                    for i, j in T.Parallel(BLOCK, BLOCK):
                        s[i, j] = c[i, j] + 1
                for i, j in T.Parallel(BLOCK, BLOCK):
                    d[i, j] += s[i, BLOCK - 1 - j]
            T.copy(d, C[by * BLOCK, bx * BLOCK])
        return C

    return product


def _expected(way, a, b):
    total = np.empty((len(a), b.shape[1]))
    for by, bx in np.ndindex(len(a) // BLOCK, b.shape[1] // BLOCK):
        rows, columns = slice(by * BLOCK, (by + 1) * BLOCK), slice(bx * BLOCK, (bx + 1) * BLOCK)
        c = d = np.zeros((BLOCK, BLOCK))
        for k in range(a.shape[1] // BLOCK):
            depth = slice(k * BLOCK, (k + 1) * BLOCK)
            c = c + a[rows, depth] @ b[depth, columns]
            d = np.zeros_like(d) if way == "other branch" and k % 2 == 0 else d
            times = {"branch": 1 + k % 2, "other branch": 1 + k % 2, "loop": 1 + k}.get(way, 1)
            d = d + times * c[::-1]
        if way == "behind":
            d = d + (c + (by > 0))[:, ::-1]
        total[rows, columns] = d
    return total


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("way", ["branch", "other branch", "loop", "behind"])
def test_a_barrier_of_one_way_does_not_stand_for_the_other(
    way: str, target: str, require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-1, 2, shape).astype(np.float16) for shape in ((128, 192), (192, 128)))
    expected = _expected(way, a.astype(np.float64), b.astype(np.float64))
    for schedule in ("fifo", "reverse"):
        (found,) = emulated(program(way), target, [a, b], {"schedule": schedule, "asynchronous": "lazy"})
        np.testing.assert_array_equal(found, expected)


def decided_by_a_tile(A, B, F):
    """Threads look up in shared memory, which others fill, which way they go; and then others fill it anew."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    F: T.Tensor((4,), T.int32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, BLOCK), T.ceildiv(M, BLOCK), threads=128) as (bx, by):
        a = T.alloc_shared((BLOCK, BLOCK), T.float16)
        b = T.alloc_shared((BLOCK, BLOCK), T.float16)
        s = T.alloc_shared((4,), T.int32)
        c = T.alloc_fragment((BLOCK, BLOCK), T.float32)
        T.clear(c)
        for i in T.Parallel(4):
            s[i] = F[3 - i] + by
        for k in T.Pipelined(T.ceildiv(K, BLOCK), num_stages=2):
            T.copy(A[by * BLOCK, k * BLOCK], a)
            T.copy(B[k * BLOCK, bx * BLOCK], b)
            if s[k % 4] > 0:
                T.gemm(a, b, c)
            for i in T.Parallel(4):
                s[i] = s[i] - 1
        for i in T.Parallel(4):
            s[i] = F[i]
        for z in T.serial(s[0], s[1]):
            if s[3 - z] > 0:
                for i, j in T.Parallel(BLOCK, BLOCK):
                    c[i, j] += z
                for i in T.Parallel(4):
                    s[i] = s[i] + F[i]
        T.copy(c, C[by * BLOCK, bx * BLOCK])
    return C


@pytest.mark.parametrize("target", TARGETS)
def test_threads_meet_around_what_decides_their_way(target: str, require_tool: Callable[[str], None]):
    require_tool("host_compiler")
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((128, 192), (192, 64)))
    f = np.array([1, 3, 0, 2], np.int32)
    expected = np.zeros((128, 64))
    for by in (0, 1):
        rows, s = slice(by * BLOCK, (by + 1) * BLOCK), f[::-1] + by
        for k in range(3):
            depth = slice(k * BLOCK, (k + 1) * BLOCK)
            expected[rows] += (a[rows, depth].astype(float) @ b[depth]) * (s[k] > 0)
            s = s - 1
        s = f
        for z in range(1, 3):
            if s[3 - z] > 0:
                expected[rows] += z
                s = s + f
    for schedule, asynchronous in (("fifo", "eager"), ("reverse", "lazy"), ("random", "random")):
        options = {"schedule": schedule, "asynchronous": asynchronous, "seed": 3}
        (found,) = emulated(decided_by_a_tile, target, [a, b, f], options)
        np.testing.assert_array_equal(found, expected)
