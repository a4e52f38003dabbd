"""Loops of two gemms whose iterations overlap on Hopper: names and variables between the gemms keep their values."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import TARGETS, emulated, generated, kernel_text

import tilegen.language as T

BLOCK = 64


def program(way):
    def chain(Q, K, V):
        M, N = T.const("M, N")
        Q: T.Tensor((M, BLOCK), T.float16)
        K: T.Tensor((N, BLOCK), T.float16)
        V: T.Tensor((N, BLOCK), T.float16)
        X = T.empty((M, BLOCK), T.float32)
        with T.Kernel(T.ceildiv(M, BLOCK), threads=128) as bx:
            q = T.alloc_shared((BLOCK, BLOCK), T.float16)
            keys = T.alloc_shared((BLOCK, BLOCK), T.float16)
            values = T.alloc_shared((BLOCK, BLOCK), T.float16)
            S = T.alloc_fragment((BLOCK, BLOCK), T.float32)
            P = T.alloc_fragment((BLOCK, BLOCK), T.float16)
            O = T.alloc_fragment((BLOCK, BLOCK), T.float32)
            T.copy(Q[bx * BLOCK, 0], q)
            T.clear(O)
            count = T.alloc_var(T.int32, 0)
            for k in T.Pipelined(T.ceildiv(N, BLOCK), num_stages=2):
                T.copy(K[k * BLOCK, 0], keys)
                T.gemm(q, keys, S, transpose_B=True, clear_accum=True)
                if way == "variable before":
                    count = count + k
                most = k % 3 + 1
                twice = most * 2
                for i, j in T.Parallel(BLOCK, BLOCK):
                    S[i, j] = T.clamp(S[i, j], -1, most if way == "name for both" else 1)
                T.copy(S, P)
                if way in ("variable behind", "variable before"):
                    for i, j in T.Parallel(BLOCK, BLOCK):
                        O[i, j] += count
                if way in ("name", "name for both"):
                    for i, j in T.Parallel(BLOCK, BLOCK):
                        O[i, j] += twice
                if way == "variable behind":
                    count = count + 1
                if way == "variable in a branch":
                    if k % 2 == 1:
                        count = count + 1
                    for i, j in T.Parallel(BLOCK, BLOCK):
                        O[i, j] += count
                T.copy(V[k * BLOCK, 0], values)
                T.gemm(P, values, O)
            T.copy(O, X[bx * BLOCK, 0])
        return X

    return chain


def _expected(way, q, k, v):
    total, count = np.zeros((len(q), BLOCK)), 0
    for t, (keys, values) in enumerate(zip(np.split(k, 5), np.split(v, 5), strict=True)):
        scores = np.clip(q @ keys.T, -1, t % 3 + 1 if way == "name for both" else 1)
        count += {"variable before": t, "variable in a branch": t % 2}.get(way, 0)
        total += scores @ values + count
        total += (t % 3 + 1) * 2 if way.startswith("name") else 0
        count += way == "variable behind"
    return total


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "way", ["name", "name for both", "variable before", "variable behind", "variable in a branch"]
)
def test_names_and_variables(way: str, target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(6)
    arrays = [rng.integers(-1, 2, (rows, BLOCK)).astype(np.float16) for rows in (128, 320, 320)]
    options = {"schedule": "reverse", "asynchronous": "lazy"}
    (found,) = emulated(program(way), target, arrays, options)
    np.testing.assert_array_equal(found, _expected(way, *(x.astype(np.float64) for x in arrays)))


def test_names_leave_the_loop_skewed() -> None:
    arrays = [np.zeros((rows, BLOCK), np.float16) for rows in (128, 320, 320)]
    for way, skewed in (("name", True), ("name for both", True), ("variable behind", False)):
        text = kernel_text(generated(program(way), "sm_90a", arrays))
        assert ("work_after" in text) == skewed
