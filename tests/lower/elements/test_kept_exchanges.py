"""Slices of a fragment that other threads hold: it passes through shared memory once, until it changes."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T


@tilegen.jit(target="sm_80")
def halves(A, B, changed: bool = False, rounds: int = 1):
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    L = T.empty((64, 32), T.float32)
    R = T.empty((64, 32), T.float32)
    with T.Kernel(1, threads=128) as _:
        A_shared = T.alloc_shared((64, 64), T.float16)
        B_shared = T.alloc_shared((64, 64), T.float16)
        C = T.alloc_fragment((64, 64), T.float32)
        left = T.alloc_fragment((64, 32), T.float32)
        right = T.alloc_fragment((64, 32), T.float32)
        T.copy(A, A_shared)
        T.copy(B, B_shared)
        T.clear(C)
        for _ in T.serial(rounds):
            T.gemm(A_shared, B_shared, C)
            T.copy(C[:, 0:32], left)
            if changed:
                for i, j in T.Parallel(64, 64):
                    C[i, j] = C[i, j] + 1
            T.copy(C[:, 32:64], right)
        T.copy(left, L)
        T.copy(right, R)
    return L, R


@pytest.mark.parametrize(("changed", "rounds"), [(False, 1), (True, 1), (False, 3), (True, 3)])
def test_slices_share_an_exchange_while_the_fragment_stays(require_tool, changed, rounds):
    require_tool("host_compiler")
    emission = halves.emit(changed=changed, rounds=rounds)
    assert emission.source.count("&shared.C_exchange[") == (2 if changed else 1)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    product = a.astype(np.float32) @ b.astype(np.float32)
    for schedule in ("reverse", "random"):
        left, right = emission.emulate(a, b, schedule=schedule, asynchronous="lazy", seed=1)
        extra = rounds - 1 if changed else 0
        np.testing.assert_array_equal(left, (rounds * product + extra)[:, :32])
        np.testing.assert_array_equal(right, (rounds * product + (rounds if changed else 0))[:, 32:])


def test_the_barrier_between_the_slices_goes_with_the_second_store():
    barriers = {
        changed: halves.emit(changed=changed).source.count("__syncthreads();") for changed in (False, True)
    }
    assert barriers[False] == barriers[True] - 2
