"""The attention example called as it stands: tiles by the target's shared memory, any head dimension, no spills."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from example_cases import EXAMPLES

from tilegen.cli.comparing import difference
from tilegen.cli.loading import load_module
from tilegen.diagnostics import ProgramError
from tilegen.emission import Emission
from tilegen.language.tensors import spec_of_array
from tilegen.target import load_target, target_names
from tilegen.toolchain import compile_cuda, compile_hip

Require = Callable[[str], None]
DEPTHS = (64, 96, 128, 192, 256)
MODULE = load_module(EXAMPLES / "attention.py")


@cache
def operands(depth: int, queries: int = 70, keys: int = 140) -> tuple[Any, ...]:
    return tuple(MODULE.inputs(np.random.default_rng(0), 1, queries, keys, 2, 1, depth))


def emission(depth: int, target: str, lengths: tuple[int, int] = (70, 140), **parameters: Any) -> Emission:
    specs = [spec_of_array(array.shape, array.dtype) for array in operands(depth, *lengths)]
    made = MODULE.attention.emit(*specs, target=target, **parameters)
    assert isinstance(made, Emission)
    return made


@pytest.mark.parametrize("target", target_names())
@pytest.mark.parametrize("depth", DEPTHS)
def test_every_head_dimension_fits_every_target(depth: int, target: str) -> None:
    made = emission(depth, target)
    assert made.manifest.shared_bytes <= load_target(target).limits.shared_bytes_per_block


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a", "gfx942"])
def test_wide_heads_are_right(require_tool: Require, target: str, causal: bool) -> None:
    require_tool("host_compiler")
    depth = 256 if causal else 192
    inputs = operands(depth)
    found = emission(depth, target, causal=causal).emulate(
        *inputs, schedule="random", asynchronous="random", seed=2
    )
    assert difference(found, MODULE.reference(*inputs, causal)).within(MODULE.tolerance)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_nothing_is_spilled(require_tool: Require, target: str, depth: int) -> None:
    made = emission(depth, target, (1000, 1000))
    if made.target.language == "cuda":
        require_tool("nvcc")
        result = compile_cuda(made.source, made.target, "nvcc")
    else:
        require_tool("hip")
        result = compile_hip(made.source, made.target)
    assert result.spills == 0 and "serialized" not in result.log


def test_a_tile_that_is_given_is_kept() -> None:
    source = emission(256, "sm_90a", block_N=32, num_stages=3).source
    assert " kBlockN = 32;" in source and "constexpr int kStages = 3;" in source


def test_an_open_head_dimension_says_how_to_fix_it() -> None:
    with pytest.raises(ProgramError) as refused:
        MODULE.attention.emit(target="sm_90a")
    assert "fix D: --dim D=…" in refused.value.remedy
    assert MODULE.attention.emit(target="sm_90a", dims={"D": 192}).manifest.symbols


@pytest.mark.parametrize("length", [100, 140, 256, 300])
@pytest.mark.parametrize("depth", [64, 128])
def test_few_blocks_of_keys_spill_nothing(require_tool: Require, depth: int, length: int) -> None:
    require_tool("nvcc")
    for causal in (False, True):
        made = emission(depth, "sm_90a", (length, length), causal=causal)
        assert compile_cuda(made.source, made.target, "nvcc").spills == 0
