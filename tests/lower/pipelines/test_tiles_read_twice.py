"""Tiles of a ring that threads read before tensor cores do: the stage is let go when both have read it."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T

RNG = np.random.default_rng(3)


@tilegen.jit
def scaled_gram(A, Scale, num_stages: int = 2, threads: int = 128):
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.float16)
    Scale: T.Tensor((M,), T.float16)
    C = T.empty((M, M), T.float32)
    with T.Kernel(1, threads=threads):
        a = T.alloc_shared((M, 64), T.float16)
        scale = T.alloc_shared((M,), T.float16)
        scaled = T.alloc_fragment((M, 64), T.float16)
        c = T.alloc_fragment((M, M), T.float32)
        T.clear(c)
        for i in T.Parallel(M):
            scale[i] = Scale[i]
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=num_stages):
            T.copy(A[0, k * 64], a)
            for i, j in T.Parallel(M, 64):
                scaled[i, j] = a[i, j] * scale[i]
            T.gemm(scaled, a, c, transpose_B=True)
        T.copy(c, C)
    return C


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize(("rows", "threads"), [(64, 128), (128, 256)])
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("modes", [{}, {"schedule": "random", "asynchronous": "lazy", "seed": 1}])
def test_no_load_overtakes_a_reader(require_tool, target, rows, threads, stages, modes):
    require_tool("host_compiler")
    a, scale = (RNG.integers(-3, 4, shape).astype(np.float16) for shape in ((rows, 256), (rows,)))
    emission = scaled_gram.for_target(target).emit(a, scale, num_stages=stages, threads=threads)
    expected = (a * scale[:, None]).astype(np.float32) @ a.astype(np.float32).T
    np.testing.assert_array_equal(emission.emulate(a, scale, **modes), expected)


def test_the_warpgroup_meets_before_the_wgmma_that_is_waited_for():
    source = scaled_gram.emit(
        T.Tensor((64, 256), T.float16), T.Tensor((64,), T.float16), target="sm_90a"
    ).source
    met, multiplied = source.index("all its threads have read a"), source.index("warpgroup_arrive();")
    assert source.index("shared.a[ring.stage][") < met < multiplied
