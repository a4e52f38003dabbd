"""Attention in the emulator: causal or not, grouped heads, lengths that no tile divides, blocks in every schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from example_cases import example

import tilegen.language as T

Array = np.ndarray[Any, Any]


def _arrays(queries: int, keys: int, heads: int, key_heads: int, depth: int) -> tuple[Array, ...]:
    rng = np.random.default_rng(5)
    shapes = ((1, queries, heads, depth), (1, keys, key_heads, depth), (1, keys, key_heads, depth))
    return tuple(rng.standard_normal(shape).astype(np.float16) for shape in shapes)


def _reference(q: Array, k: Array, v: Array, causal: bool) -> tuple[Array, Array]:
    """O and the log-sum-exp in float64; the last query sees all keys."""
    _, queries, heads, depth = q.shape
    group = heads // k.shape[2]
    output, log_sums = np.empty(q.shape), np.empty((1, heads, queries))
    for h in range(heads):
        keys, values = k[0, :, h // group].astype(np.float64), v[0, :, h // group].astype(np.float64)
        scores = q[0, :, h].astype(np.float64) @ keys.T / depth**0.5
        if causal:
            reach = np.arange(queries)[:, None] + len(keys) - queries
            scores = np.where(np.arange(len(keys)) <= reach, scores, -np.inf)
        log_sums[0, h] = np.log(np.exp(scores).sum(1))
        output[0, :, h] = np.exp(scores - log_sums[0, h][:, None]) @ values
    return output, log_sums


def _check(
    arrays: tuple[Array, ...], target: str, causal: bool, how: dict[str, Any], **parameters: Any
) -> None:
    specs = [T.Tensor(array.shape, T.float16) for array in arrays]
    kernel = example("attention").kernel
    emitted = kernel.emit(*specs, target=target, causal=causal, **parameters)
    output, log_sums = emitted.emulate(*arrays, **how)
    expected, expected_sums = _reference(*arrays, causal)
    assert np.linalg.norm(output - expected) <= 2e-3 * np.linalg.norm(expected)
    assert np.abs(log_sums - expected_sums).max() < 2e-3


SCHEDULES = [
    {"schedule": "fifo", "asynchronous": "eager"},
    {"schedule": "reverse", "asynchronous": "lazy"},
    {"schedule": "random", "asynchronous": "random", "seed": 11, "multiprocessors": 2},
]


@pytest.mark.parametrize("how", SCHEDULES, ids=lambda how: how["schedule"])
@pytest.mark.parametrize("persistent", [False, True], ids=["a tile a block", "persistent"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_hopper(how: dict[str, Any], causal: bool, persistent: bool, require_tool: Any) -> None:
    require_tool("host_compiler")
    arrays = _arrays(queries=300, keys=300, heads=4, key_heads=2, depth=64)
    _check(arrays, "sm_90a", causal, how, persistent=persistent)


@pytest.mark.parametrize("how", SCHEDULES, ids=lambda how: how["schedule"])
def test_three_warpgroups_take_turns(how: dict[str, Any], require_tool: Any) -> None:
    require_tool("host_compiler")
    arrays = _arrays(queries=400, keys=650, heads=2, key_heads=1, depth=64)
    _check(arrays, "sm_90a", True, how, block_M=192, threads=384, persistent=True)


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_other_targets(target: str, causal: bool, require_tool: Any) -> None:
    require_tool("host_compiler")
    arrays = _arrays(queries=130, keys=200, heads=2, key_heads=1, depth=64)
    _check(arrays, target, causal, {"schedule": "random", "asynchronous": "lazy", "seed": 2}, block_N=64)


@pytest.mark.parametrize(
    "parameters",
    [{"num_stages": 3, "block_M": 128, "block_N": 64}, {"num_stages": 1, "block_M": 128}],
    ids=["three stages", "one stage"],
)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_rings_of_other_depths(causal: bool, parameters: dict[str, Any], require_tool: Any) -> None:
    require_tool("host_compiler")
    arrays = _arrays(queries=300, keys=300, heads=2, key_heads=1, depth=64)
    _check(arrays, "sm_90a", causal, SCHEDULES[2], persistent=True, **parameters)
