"""Accumulators that each iteration changes as a whole: warps share rows and columns of their tile, never its k."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
import pytest
from emulation import relative_error

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError

DEPTH = 32


@tilegen.jit
def decayed(A, B, block_M=32, block_N=32, threads=256, decay=True, policy=None):
    """C = sum over blocks of k of A B, halved after each block."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        a = T.alloc_shared((block_M, DEPTH), T.float16)
        b = T.alloc_shared((DEPTH, block_N), T.float16)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, DEPTH), num_stages=2):
            T.copy(A[by * block_M, k * DEPTH], a)
            T.copy(B[k * DEPTH, bx * block_N], b)
            T.gemm(a, b, c, policy=policy or T.GemmWarpPolicy.Square)
            if decay:
                for i, j in T.Parallel(block_M, block_N):
                    c[i, j] *= 0.5
        T.copy(c, C[by * block_M, bx * block_N])
    return C


def operands(rows=70, columns=50, depth=100):
    rng = np.random.default_rng(rows)
    return (rng.standard_normal(shape).astype(np.float16) for shape in ((rows, depth), (depth, columns)))


def emitted(a, b, target, **parameters):
    return decayed.emit(*(T.Tensor(x.shape, T.float16) for x in (a, b)), target=target, **parameters)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize(
    ("block_M", "block_N", "threads"), [(32, 32, 256), (16, 64, 256), (64, 16, 256), (48, 32, 128)]
)
def test_old_values_are_counted_once(target, block_M, block_N, threads, require_tool):
    require_tool("host_compiler")
    a, b = operands()
    emission = emitted(a, b, target, block_M=block_M, block_N=block_N, threads=threads)
    expected = np.zeros((a.shape[0], b.shape[1]))
    for k in range(0, a.shape[1], DEPTH):
        expected = 0.5 * (
            expected + a[:, k : k + DEPTH].astype(np.float64) @ b[k : k + DEPTH].astype(np.float64)
        )
    found = emission.emulate(a, b, schedule="random", asynchronous="random", seed=1)
    assert relative_error(found, expected) < 1e-3


def test_sums_in_parts_where_nothing_is_in_their_way():
    """On Hopper two warpgroups share the k of a small tile: the file adds up their parts."""
    a, b = operands()
    assert "c_partials" in emitted(a, b, "sm_90a", decay=False).source
    assert "c_partials" not in emitted(a, b, "sm_90a").source


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"block_M": 48, "threads": 256}, "cannot share the rows and columns"),
        ({"policy": T.GemmWarpPolicy.SlicedK}, "share k of this gemm in"),
    ],
    ids=["a tile too small for its warps", "asked for"],
)
def test_what_only_parts_could_do_is_an_error(parameters, said):
    a, b = operands()
    with pytest.raises(ProgramError, match=said) as caught:
        emitted(a, b, "sm_80", **parameters)
    assert "fewer threads" in str(caught.value)
