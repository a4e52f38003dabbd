"""Tensors with strides that the program names: fixed, given by a row-major array, or left open as launch arguments."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.errors import TilegenError

TARGETS = ("sm_80", "sm_90a", "gfx942")
BASE = np.random.default_rng(1).integers(-99, 99, (48, 80)).astype(np.float32)
VIEWS = {
    "steps": BASE[::2, ::2],
    "whole": BASE[:20],
    "columns": BASE[:20, :40],
    "transposed": BASE.T,
    "one row": BASE[:1, :40],
    "nothing": BASE[:0],
    "repeated": np.broadcast_to(BASE[:1], (20, 80)),
}


def copied(X, rows: int = 16, columns: int = 32):
    M, N, S, Q = T.const("M, N, S, Q")
    X: T.StridedTensor((M, N), (S, Q), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, rows), T.ceildiv(N, columns), threads=64) as (by, bx):
        tile = T.alloc_fragment((rows, columns), T.float32)
        T.copy(X[by * rows, bx * columns], tile)
        T.copy(tile, Y[by * rows, bx * columns])
    return Y


def row_major(X, rows: int = 16, columns: int = 32):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, rows), T.ceildiv(N, columns), threads=64) as (by, bx):
        tile = T.alloc_fragment((rows, columns), T.float32)
        T.copy(X[by * rows, bx * columns], tile)
        T.copy(tile, Y[by * rows, bx * columns])
    return Y


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dynamic", ["", "M", "S", "M, N, S, Q"])
def test_calls(view: str, dynamic: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    kernel = tilegen.jit(target="sm_80", dynamic=dynamic or ())(copied)
    np.testing.assert_array_equal(kernel(VIEWS[view]), VIEWS[view])


@pytest.mark.parametrize("view", VIEWS)
def test_strides_of_arrays_stay_with_open_extents(view: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    kernel = tilegen.jit(target="sm_80", dynamic="M, N")(row_major)
    np.testing.assert_array_equal(kernel(VIEWS[view]), VIEWS[view])


@pytest.mark.parametrize("target", TARGETS)
def test_one_text_for_all_strides(target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    emission = tilegen.jit(copied).emit(target=target)
    assert "int S, int Q" in emission.files[f"copied.{target}.h"]
    for x in VIEWS.values():
        np.testing.assert_array_equal(emission.emulate(x), x)


def test_a_row_major_spec_fixes_the_strides_that_the_program_names() -> None:
    header = tilegen.jit(copied).emit(T.Tensor(("M", 96), T.float32), target="sm_80").files["copied.sm_80.h"]
    assert "int M, cudaStream_t" in header
    header = tilegen.jit(copied).emit(T.Tensor((40, "N"), T.float32), target="sm_80").files["copied.sm_80.h"]
    assert "int N, int S, cudaStream_t" in header


def test_negative_strides_are_called_strides() -> None:
    with pytest.raises(TilegenError, match="strides are non-negative integers, not -4"):
        T.StridedTensor((8, 4), (-4, 1), T.float32)
