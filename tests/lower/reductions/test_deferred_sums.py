"""Running sums whose lanes meet behind their loop, beside factors and totals that other threads hold."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import TARGETS, emulated, generated, relative_error

import tilegen.language as T

SCHEDULES = (
    {},
    {"schedule": "reverse", "asynchronous": "lazy"},
    {"schedule": "random", "asynchronous": "random"},
)
DEFERRED = {"a factor in shared memory", "a factor that a copy brings"}


def program(way: str):
    def kernel(X, F):
        K, M, N = T.const("K, M, N")
        X: T.Tensor((K, M, N), T.float32)
        F: T.Tensor((K, M), T.float32)
        Y = T.empty((M, 8), T.float32)
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((M, N), T.float32)
            part = T.alloc_fragment((M,), T.float32)
            total = (
                T.alloc_shared((M,), T.float32)
                if "shared total" in way
                else T.alloc_fragment((M,), T.float32)
            )
            factors = T.alloc_shared((M,), T.float32)
            own = T.alloc_fragment((M,), T.float32)
            wide = T.alloc_fragment((M, 8), T.float32)
            T.clear(total)
            for k in T.Pipelined(K, num_stages=2) if "copy" in way else T.serial(K):
                T.copy(X[k, 0, 0], x)
                if way == "a factor of other threads":
                    for i in T.Parallel(M):
                        own[i] = F[k, i]
                else:
                    T.copy(F[k, 0], factors)
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(M):
                    if way == "a factor of other threads":
                        total[i] = total[i] * own[M - 1 - i] + part[i]
                    else:
                        total[i] = total[i] * factors[M - 1 - i] + part[i]
            if way == "a total of other threads":
                for i, j in T.Parallel(M, 8):
                    wide[i, j] = total[M - 1 - i] + j
                for i, j in T.Parallel(M, 8):
                    Y[M - 1 - i, j] = wide[i, j]
            else:
                for i, j in T.Parallel(M, 8):
                    Y[i, j] = total[i] + j
        return Y

    return kernel


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "way", [*sorted(DEFERRED), "a factor of other threads", "a total of other threads", "a shared total"]
)
def test_sums_beside_other_threads(way: str, target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(6)
    x, f = rng.standard_normal((4, 64, 64)).astype(np.float32), rng.random((4, 64)).astype(np.float32)
    total = np.zeros(64)
    for k in range(4):
        total = total * f[k, ::-1] + x[k].astype(np.float64).sum(1)
    for options in SCHEDULES:
        (found,) = emulated(program(way), target, [x, f], options)
        assert relative_error(found, total[:, None] + np.arange(8)) < 1e-5
    if way in DEFERRED:
        assert len(generated(program(way), target, [x, f]).plan.deferred) == 1


def retention(Q, K, V):
    S, D, E = T.const("S, D, E")
    Q: T.Tensor((S, D), T.bfloat16)
    K: T.Tensor((S, D), T.bfloat16)
    V: T.Tensor((S, E), T.bfloat16)
    O = T.empty((S, E), T.float32)
    with T.Kernel(T.ceildiv(S, 64), threads=128) as bx:
        q = T.alloc_shared((64, D), T.bfloat16)
        k = T.alloc_shared((64, D), T.bfloat16)
        v = T.alloc_shared((64, E), T.bfloat16)
        s = T.alloc_fragment((64, 64), T.float32)
        p = T.alloc_fragment((64, 64), T.bfloat16)
        o = T.alloc_fragment((64, E), T.float32)
        part = T.alloc_fragment((64,), T.float32)
        total = T.alloc_fragment((64,), T.float32)
        T.copy(Q[bx * 64, 0], q)
        T.clear(o)
        T.clear(total)
        for j in T.Pipelined(T.ceildiv(S, 64), num_stages=1):
            T.copy(K[j * 64, 0], k)
            T.copy(V[j * 64, 0], v)
            T.gemm(q, k, s, transpose_B=True, clear_accum=True)
            T.reduce_abssum(s, part, dim=1)
            T.reduce_sum(s, part, dim=1)
            for i in T.Parallel(64):
                total[i] += part[i]
            T.copy(s, p)
            T.gemm(p, v, o)
        for i, j in T.Parallel(64, E):
            o[i, j] += total[i]
        T.copy(o, O[bx * 64, 0])
    return O


@pytest.mark.parametrize("target", [*TARGETS, "gfx90a"])
def test_a_total_that_another_product_holds(target: str, require_tool: Callable[[str], None]) -> None:
    """48 columns divide the waves otherwise than 64 do: the lanes that add a row up do not hold its total."""
    require_tool("host_compiler")
    import ml_dtypes

    rng = np.random.default_rng(7)
    q, k = (rng.integers(-1, 2, (130, 32)).astype(ml_dtypes.bfloat16) for _ in "qk")
    v = rng.integers(-1, 2, (130, 48)).astype(ml_dtypes.bfloat16)
    s = q.astype(np.float64) @ k.astype(np.float64).T
    (found,) = emulated(retention, target, [q, k, v])
    assert relative_error(found, s @ v.astype(np.float64) + s.sum(1)[:, None]) < 1e-5
