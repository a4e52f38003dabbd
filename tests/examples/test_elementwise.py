"""The element-wise example on every target: any width, casts from and to every float type, wide accesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from example_cases import example

from tilegen.emission import Emission
from tilegen.language.tensors import spec_of_array

Array = np.ndarray[Any, Any]
TARGETS = ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950")
FLOATS: tuple[Any, ...] = (np.float16, ml_dtypes.bfloat16, np.float32)
ROUNDING = {np.float16: 2e-3, ml_dtypes.bfloat16: 1.6e-2, np.float32: 1e-6}
WIDTHS = (1000, 1001, 40, 4096, 8190)


def arrays(shape: tuple[int, int, int], dtype: Any) -> tuple[Array, ...]:
    rng = np.random.default_rng(shape[-1])
    x = rng.standard_normal(shape, dtype=np.float32).astype(dtype)
    return x, *(rng.standard_normal(shape[-1], dtype=np.float32) for _ in range(2))


def emitted(inputs: tuple[Array, ...], target: str, out_dtype: Any) -> Emission:
    specs = [spec_of_array(array.shape, array.dtype) for array in inputs]
    return example("elementwise").kernel.emit(*specs, target=target, out_dtype=np.dtype(out_dtype).name)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("position", range(len(WIDTHS)))
def test_any_width_and_cast(require_tool: Callable[[str], None], position: int, target: str) -> None:
    require_tool("host_compiler")
    turn = position + TARGETS.index(target)
    dtype, out_dtype = FLOATS[turn % 3], FLOATS[turn // 3 % 3]
    inputs = arrays((2, 3, WIDTHS[position]), dtype)
    result = emitted(inputs, target, out_dtype).emulate(*inputs, schedule="random", seed=position)
    expected = example("elementwise").reference(*inputs)
    assert result.dtype == np.dtype(out_dtype)
    difference = np.abs(result.astype(np.float64) - expected)
    assert np.all(difference <= ROUNDING[out_dtype] * np.abs(expected) + 1e-6)


@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
@pytest.mark.parametrize("width", [8192, 8200])
def test_tensors_move_16_bytes_a_thread_without_branches(width: int, target: str) -> None:
    text = emitted(arrays((1, 2, width), np.float16), target, np.float16).source
    vector = "uint4" if target == "sm_90a" else "fp16x8"
    single = "float4" if target == "sm_90a" else "fp32x4"
    assert f"*reinterpret_cast<const {vector}*>(&X[" in text and f"*reinterpret_cast<{vector}*>(&Y[" in text
    assert text.count(f"*reinterpret_cast<const {single}*>(&W[") == 1
    guarded = [line for line in text.splitlines() if line.strip().startswith("if (bx")]
    assert len(guarded) == (0 if width == 8192 else 1)  # the store alone


def test_conversions_come_in_pairs_though_an_index_has_a_name() -> None:
    text = emitted(arrays((1, 2, 8192), np.float16), "sm_90a", np.float16).source
    assert "__floats2half2_rn(" in text and "const int j " not in text
