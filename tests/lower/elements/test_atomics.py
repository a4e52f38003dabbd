"""Atomic updates, run as emitted text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tile_programs as programs
from emulation import TARGETS, emulated, generated, kernel_text, relative_error

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


@pytest.mark.parametrize("target", TARGETS)
def test_histogram(target: str) -> None:
    x = np.random.default_rng(1).integers(0, 16, 1000).astype(np.int32)
    (result,) = emulated(programs.histogram, target, [x, np.zeros(16, np.int32)])
    assert np.array_equal(result, np.bincount(x, minlength=16))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("target", TARGETS)
def test_whole_tiles_are_added(target: str, dtype: Any) -> None:
    x = np.random.default_rng(2).standard_normal((200, 136)).astype(np.float32)
    y = np.random.default_rng(3).standard_normal((200, 136)).astype(dtype)
    (result,) = emulated(programs.add_tiles, target, [x, y], dtype=np.dtype(dtype).name)
    assert relative_error(result, y.astype(np.float64) + 3 * x.astype(np.float64)) < 2e-3


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("target", TARGETS)
def test_extremes_of_floats_of_either_sign(target: str, kind: str) -> None:
    x = np.random.default_rng(4).standard_normal((100, 136)).astype(np.float32)
    x[:50] = -np.abs(x[:50])
    start = np.zeros(100, np.float32)
    (result,) = emulated(programs.row_extremes, target, [x, start], kind=kind)
    expected = np.maximum(x.max(1), 0) if kind == "max" else np.minimum(x.min(1), 0)
    assert np.array_equal(result, expected)


def test_hopper_adds_four_floats_at_once() -> None:
    x = np.zeros((64, 64), np.float32)
    text = kernel_text(generated(programs.add_tiles, "sm_90a", [x, x]))
    assert "reduce_add_v4(" in text
    assert "reduce_add_v4(" not in kernel_text(generated(programs.add_tiles, "sm_80", [x, x]))


@pytest.mark.parametrize("target", TARGETS)
def test_new_outputs_that_are_only_added_to_start_from_zeros(target: str) -> None:
    x = np.random.default_rng(6).standard_normal((200, 64)).astype(np.float32)
    (result,) = emulated(programs.column_sums, target, [x])
    assert relative_error(result, x.astype(np.float64).sum(0)) < 1e-5
    assert "MemsetAsync(Y, 0, " in generated(programs.column_sums, target, [x]).source
