"""Every element type converted to every other: files compile, and values are NumPy's."""

# mypy: ignore-errors

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.target import load_target
from tilegen.toolchain import compile_cuda, compile_hip

TYPES = (
    *(T.float16, T.bfloat16, T.float32, T.float64, T.bool),
    *(T.int8, T.uint8, T.int16, T.uint16, T.int32, T.uint32, T.int64, T.uint64),
)


@tilegen.jit
def converted(X, source: T.dtype = T.float32, start=0, stop=7):
    """X as the types from `start` on: through fragments for odd ones, through shared memory for the others."""
    N = T.const("N")
    X: T.Tensor((N,), source)
    found = [T.empty((N,), dtype) for dtype in TYPES[start:stop]]
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        for number, dtype in enumerate(TYPES[start:stop]):
            x = (T.alloc_fragment if number % 2 else T.alloc_shared)((128,), source)
            y = (T.alloc_fragment if number % 2 else T.alloc_shared)((128,), dtype)
            T.copy(X[bx * 128], x)
            T.copy(x, y)
            T.copy(y, found[number][bx * 128])
    return tuple(found)


HALVES = ((0, 7), (7, 13))


def _emitted(source, half, target):
    spec = T.Tensor((200,), source)
    return converted.emit(spec, target=target, source=source, start=half[0], stop=half[1])


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize("source", TYPES, ids=str)
@pytest.mark.parametrize("half", HALVES, ids=str)
def test_it_compiles(half, source, target, require_tool):
    hip = load_target(target).language == "hip"
    require_tool("hip" if hip else "nvcc")
    emission = _emitted(source, half, target)
    if hip:
        compile_hip(emission.source, emission.target)
    else:
        compile_cuda(emission.source, emission.target, "nvcc")


def _numpy(dtype):
    return np.dtype(getattr(ml_dtypes, dtype.name, dtype.name.rstrip("_")))


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize("source", TYPES, ids=str)
@pytest.mark.parametrize("half", HALVES, ids=str)
def test_its_values_are_numpys(half, source, target, require_tool):
    require_tool("host_compiler")
    x = np.arange(200) % 101 * (1 if source.is_integer else 0.75)
    x = (x % 2 if source.kind == "bool" else x).astype(_numpy(source))
    found = _emitted(source, half, target).emulate(x, schedule="random")
    for dtype, values in zip(TYPES[slice(*half)], found, strict=True):
        wanted = x != 0 if dtype.kind == "bool" else x.astype(np.float64).astype(_numpy(dtype))
        np.testing.assert_array_equal(
            values.astype(np.float64), wanted.astype(np.float64), err_msg=str(dtype)
        )
