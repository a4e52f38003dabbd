"""CDNA's loads run on past the last tile: their windows are empty there, whatever steps the tensor's rows have."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
import pytest

import tilegen
import tilegen.language as T


@tilegen.jit
def weighted(X, F, num_stages: int = 2):
    K, M, N = T.const("K, M, N")
    batch_step, row_step = T.const("batch_step, row_step")
    X: T.StridedTensor((K, M, N), (batch_step, row_step, 1), T.float16)
    F: T.Tensor((K, M), T.float16)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(1, threads=128):
        x = T.alloc_shared((M, N), T.float16)
        f = T.alloc_shared((M,), T.float16)
        y = T.alloc_fragment((M, N), T.float32)
        T.clear(y)
        for k in T.Pipelined(K, num_stages=num_stages):
            T.copy(X[k, 0, 0], x)
            T.copy(F[k, 0], f)
            for i, j in T.Parallel(M, N):
                y[i, j] += x[i, j] * T.cast(f[i], T.float32)
        T.copy(y, Y)
    return Y


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("num_stages", [2, 3])
@pytest.mark.parametrize("steps", [(4096, 64), (64, 0)])  # of elements: whole matrices, one row for all
def test_no_byte_past_a_tensor_is_read(steps, num_stages, target, require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(3)
    flat = rng.integers(-4, 5, 4 * steps[0]).astype(np.float16)
    x = np.lib.stride_tricks.as_strided(flat, (4, 64, 64), (2 * steps[0], 2 * steps[1], 2))
    f = rng.integers(-4, 5, (4, 64)).astype(np.float16)
    tensors = (T.Tensor((4, 64, 64), T.float16, (*steps, 1)), T.Tensor((4, 64), T.float16))
    emission = weighted.emit(*tensors, target=target, num_stages=num_stages)
    found = emission.emulate(x, f, schedule="random", asynchronous="lazy")
    np.testing.assert_array_equal(found, np.einsum("kmn,km->mn", x.astype(float), f.astype(float)))
