"""The emulator's 8-bit floats against ml_dtypes: every code as float, and floats around every tie."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError

DTYPES = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


@tilegen.jit
def widened(X, dtype: T.dtype = T.float8_e4m3fn, block: int = 256):
    N = T.const("N")
    X: T.Tensor((N,), dtype)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        for i in T.Parallel(block):
            Y[bx * block + i] = X[bx * block + i]
    return Y


@tilegen.jit
def narrowed(X, dtype: T.dtype = T.float8_e4m3fn, block: int = 256):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), dtype)
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        for i in T.Parallel(block):
            Y[bx * block + i] = X[bx * block + i]
    return Y


def tile_dtype(dtype: type) -> T.DType:
    return getattr(T, np.dtype(dtype).name)


@pytest.fixture
def host(require_tool):
    require_tool("host_compiler")


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_code_as_float(host, dtype):
    codes = np.arange(256, dtype=np.uint8).view(dtype)
    found = widened.for_target("sm_80")(codes, dtype=tile_dtype(dtype))
    np.testing.assert_array_equal(found, codes.astype(np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_floats_round_to_nearest_even_and_saturate(host, dtype):
    codes = np.arange(128, dtype=np.uint8).view(dtype).astype(np.float32)
    finite = codes[np.isfinite(codes)]
    ties = (finite[1:] + finite[:-1]) / 2
    near = [np.nextafter(ties, np.float32(end)) for end in (-np.inf, np.inf)]
    inside = np.concatenate([finite, ties, *near])
    values = np.concatenate([inside, -inside])
    beyond = np.array([finite[-1] * 1.01, 1e30, np.inf], np.float32)
    found = narrowed.for_target("sm_80")(
        np.concatenate([values, beyond, -beyond, [np.nan]]).astype(np.float32), dtype=tile_dtype(dtype)
    ).astype(np.float32)
    np.testing.assert_array_equal(found[: len(values)], values.astype(dtype).astype(np.float32))
    np.testing.assert_array_equal(found[len(values) : -1], [finite[-1]] * 3 + [-finite[-1]] * 3)
    assert np.isnan(found[-1])


def test_a_target_without_the_type_says_where_it_is_used():
    with pytest.raises(ProgramError) as refused:
        narrowed.emit(target="gfx942")
    assert refused.value.message == "float8_e4m3fn has no C++ type on gfx942"
    assert refused.value.location.text.startswith("Y = T.empty((N,), dtype)")
