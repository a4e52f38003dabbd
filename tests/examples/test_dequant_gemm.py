"""The W4A16 example: packing, both orders of weights on every target, the schedules of its benchmark."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from emission_runner import simulate_emission
from example_cases import EXAMPLES

import tilegen.language as T
from tilegen.cli.loading import load_module
from tilegen.emission import Emission
from tilegen.language.tensors import spec_of_array
from tilegen.target import load_target
from tilegen.toolchain import compile_cuda, compile_hip

Require = Callable[[str], None]
Array = np.ndarray[Any, Any]
MODES: list[dict[str, Any]] = [
    {"schedule": "reverse", "asynchronous": "lazy"},
    {"schedule": "random", "asynchronous": "random", "seed": 5},
]
ORDERS = {"sm_80": "mma", "sm_90a": "mma", "gfx90a": "mfma", "gfx942": "mfma", "gfx950": "mfma"}
MODULE = load_module(EXAMPLES / "dequant_gemm.py")
SCHEDULES = [schedule for rows in (1, 16, 64, 256, 4096) for schedule in MODULE.schedules_for(rows)]


@pytest.fixture
def example() -> ModuleType:
    return MODULE


def operands(rows: int, columns: int, depth: int, order: str = "mma") -> tuple[Array, ...]:
    return tuple(MODULE.inputs(np.random.default_rng(0), rows, columns, depth, order))


def emission(arrays: tuple[Array, ...], target: str, **parameters: Any) -> Emission:
    specs = [spec_of_array(array.shape, array.dtype) for array in arrays]
    made = MODULE.dequant_gemm.emit(*specs, target=target, **parameters)
    assert isinstance(made, Emission)
    return made


def error(found: Array, arrays: tuple[Array, ...], order: str) -> float:
    expected = MODULE.reference(*arrays, order).astype(np.float64)
    return float(np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("order", ["mma", "mfma"])
def test_packing_keeps_every_number(example: ModuleType, order: str) -> None:
    q = np.random.default_rng(1).integers(0, 16, (128, 48)).astype(np.uint32)
    words = example.pack(q, order)
    assert words.shape == (3, 256) and words.nbytes == q.size // 2
    np.testing.assert_array_equal(example.unpack(words, order), q)


def test_quantised_weights_are_near(example: ModuleType) -> None:
    """Half a step of the grid, and what fp16 rounds off its scale and zero."""
    weight = np.random.default_rng(2).standard_normal((256, 32)).astype(np.float32)
    words, scale, zero = example.quantise(weight)
    step = np.repeat(scale.astype(np.float32), example.GROUP, 0)
    assert np.all(np.abs(example.dequantise(words, scale, zero) - weight) <= 0.52 * step + 2e-3)


@pytest.mark.parametrize("order", ["mma", "mfma"])
@pytest.mark.parametrize("target", ORDERS)
def test_either_order_is_right(require_tool: Require, target: str, order: str) -> None:
    require_tool("host_compiler")
    arrays = operands(21, 128, 384, order)
    emitted = emission(arrays, target, order=order)
    for mode in MODES:
        assert error(emitted.emulate(*arrays, **mode), arrays, order) < MODULE.tolerance
    assert (ORDERS[target] == order) == ("int4_to_" in emitted.source)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: "-".join(map(str, s.values())))
def test_hopper_schedules(require_tool: Require, schedule: dict[str, int]) -> None:
    """Right under adversarial orders, and compiled for a large problem without a spill; ptxas says nothing of
    instructions in series."""
    require_tool("host_compiler")
    arrays = operands(schedule["block_M"] + 5, 4 * schedule["block_N"], 512)
    emitted = emission(arrays, "sm_90a", **schedule)
    assert error(emitted.emulate(*arrays, **MODES[1]), arrays, "mma") < MODULE.tolerance
    require_tool("nvcc")
    n, k = 8192, 8192
    specs = [T.Tensor((4096, k), "float16"), T.Tensor((n // 16, 2 * k), "int32")]
    specs += [T.Tensor((k // MODULE.GROUP, n), "float16")] * 2
    result = compile_cuda(
        MODULE.dequant_gemm.emit(*specs, target="sm_90a", **schedule).source, load_target("sm_90a"), "nvcc"
    )
    assert result.spills == 0 and all(kernel.stack_bytes == 0 for kernel in result.kernels)
    assert "serialized" not in result.log


def test_warpgroups_share_k_of_few_columns() -> None:
    """Each unpacks its own half of the words: half as many registers as one alone, and nothing is added in memory."""
    arrays = operands(1, 256, 1024)
    alone = emission(arrays, "sm_90a", block_M=8, block_K=512, threads=128)
    both = emission(arrays, "sm_90a", block_M=8, block_K=512, threads=256)
    assert "half of every tile's k" not in alone.source and "half of every tile's k" in both.source
    for text, words in ((alone.source, 32), (both.source, 16)):
        assert f"int W_words[{words}];" in text and f"half W_local[{8 * words}];" in text
        assert "atomic" not in text and "cudaMemsetAsync" not in text


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_compiled_for_cdna(require_tool: Require, tmp_path: Path, target: str) -> None:
    """In the ISA simulator: right, operands read without bank conflicts, no spill, nibbles unpacked by packed
    arithmetic. (clang 19 cuts stores of four int to LDS in pieces, which conflict.)"""
    require_tool("hip")
    require_tool("llvm_objdump")
    arrays = operands(16, 128, 256, "mfma")
    emitted = emission(arrays, target, order="mfma")
    outputs, report = simulate_emission(emitted, tmp_path, *arrays, order="random", seed=3)
    assert error(outputs[0], arrays, "mfma") < MODULE.tolerance
    assert all(count.conflict_cycles == 0 for kind, count in report.banks.items() if "read" in kind)
    result = compile_hip(emitted.source, emitted.target)
    assert result.spills == 0
    assert "v_pk_fma_f16" in result.assembly and not re.search(r"v_cvt_f\d+_[iu]\d+", result.assembly)
