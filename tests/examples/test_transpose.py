"""The transpose on every target: any shape and element width, no bank conflict, 16-byte accesses on both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from example_cases import example

from tilegen.emission import Emission
from tilegen.language.tensors import spec_of_array

TARGETS = ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950")
CASES: list[tuple[tuple[int, int], Any, dict[str, int], str]] = [
    ((200, 136), np.float16, {}, "random"),
    ((64, 64), np.float32, {"threads": 512}, "reverse"),
    ((129, 72), np.float32, {"block": 32, "threads": 128}, "random"),
    ((53, 37), ml_dtypes.bfloat16, {}, "random"),
    ((1, 300), np.float16, {"panel": 1}, "fifo"),
    ((300, 1), np.float32, {}, "reverse"),
    ((130, 260), np.int8, {"block": 128}, "random"),
    ((96, 48), np.float64, {"block": 32}, "random"),
]


def emitted(shape: tuple[int, int], dtype: Any, target: str, **parameters: Any) -> Emission:
    return example("transpose").kernel.emit(
        spec_of_array(shape, np.dtype(dtype)), target=target, **parameters
    )


@pytest.mark.parametrize(
    ("shape", "dtype", "parameters", "schedule", "target"),
    [
        pytest.param(*case, target, id=f"{case[0]}-{np.dtype(case[1])}-{target}")
        for position, case in enumerate(CASES)
        for target in (TARGETS[position % 5], TARGETS[(position + 2) % 5], TARGETS[(position + 3) % 5])
    ],
)
def test_exact(
    require_tool: Callable[[str], None],
    shape: tuple[int, int],
    dtype: Any,
    parameters: dict[str, int],
    schedule: Any,
    target: str,
) -> None:
    require_tool("host_compiler")
    x = (100 * np.random.default_rng(3).standard_normal(shape)).astype(dtype)
    result = emitted(shape, dtype, target, **parameters).emulate(
        x, schedule=schedule, asynchronous="random", seed=5
    )
    assert result.dtype == x.dtype and np.array_equal(result, x.T)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("block", [32, 64, 128])
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
def test_no_bank_conflict(dtype: Any, block: int, target: str) -> None:
    if block * block * np.dtype(dtype).itemsize > 65536:
        block = 64  # what the smallest shared memory holds
    emission = emitted((1024, 1024), dtype, target, block=block)
    assert emission.generated.decisions.conflicts["tile"] == 0
    line = next(line for line in emission.source.splitlines() if line.startswith("// tile "))
    assert line.split()[-1] == "0"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_both_sides_move_16_bytes_a_thread(dtype: Any, target: str) -> None:
    text = emitted((1024, 1024), dtype, target).source
    half = dtype is np.float16
    vector = {"sm": "uint4" if half else "float4", "gf": "fp16x8" if half else "fp32x4"}[target[:2]]
    assert f"reinterpret_cast<{vector}*>(&Y[" in text
    assert f"reinterpret_cast<const {vector}*>(&X[" in text or f"buffer_load_b128<{vector}>" in text
