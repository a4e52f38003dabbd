"""The W4A16 example for a few rows: any number of them, blocks that do not divide K, the schedules of its benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from example_cases import EXAMPLES

import tilegen.language as T
from tilegen.cli.loading import load_module
from tilegen.language.tensors import spec_of_array
from tilegen.target import load_target
from tilegen.toolchain import compile_cuda, compile_hip

MODULE = load_module(EXAMPLES / "dequant_gemv.py")
TARGETS = ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950")


@pytest.mark.parametrize("rows", [1, 3, 8, 11])
@pytest.mark.parametrize("target", TARGETS)
def test_any_number_of_rows(require_tool: Any, target: str, rows: int) -> None:
    require_tool("host_compiler")
    parameters = MODULE.target_parameters.get(target, {})
    order = parameters.get("order", "mma")
    arrays = MODULE.inputs(np.random.default_rng(rows), rows, 64, 1280, order)
    specs = [spec_of_array(array.shape, array.dtype) for array in arrays]
    emitted = MODULE.dequant_gemv.emit(*specs, target=target, **parameters)
    found = emitted.emulate(*arrays, schedule="random", asynchronous="random", seed=rows)
    expected = MODULE.reference(*arrays, order).astype(np.float64)
    assert np.linalg.norm(found - expected) < MODULE.tolerance * np.linalg.norm(expected)


@pytest.mark.parametrize("schedule", [{}, *MODULE.schedules], ids=str)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_schedules_of_the_benchmark_do_not_spill(
    require_tool: Any, target: str, schedule: dict[str, int]
) -> None:
    """The words of W come 16 bytes at a time, and the loop waits for nobody."""
    hip = target.startswith("gfx")
    require_tool("hip" if hip else "nvcc")
    specs = [T.Tensor((1, 8192), "float16"), T.Tensor((512, 16384), "int32")]
    specs += [T.Tensor((64, 8192), "float16")] * 2
    parameters = {**MODULE.target_parameters.get(target, {}), **schedule}
    source = MODULE.dequant_gemv.emit(*specs, target=target, **parameters).source
    loop = source[source.index("for (int k = 0") : source.index("// Epilogue")]
    assert "sync" not in loop.replace("mma_sync", "")
    assert f"*reinterpret_cast<{'const i32x4' if hip else 'const uint4'}*>(&W[" in loop
    compiled = compile_hip if hip else compile_cuda
    assert compiled(source, load_target(target)).spills == 0
