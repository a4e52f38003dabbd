"""GPU tests run each piece of work in a process of its own under a time limit; without a GPU they skip."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.isolation import Limits, run_isolated

_SECONDS = 120.0


def _find_gpu(progress: Callable[[str], None]) -> str:
    """The device's name; asked for in a child, so that this process never touches the GPU."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


@pytest.fixture(scope="session")
def gpu_name() -> str:
    """The GPU's name; skips where torch cannot use one."""
    pytest.importorskip("torch")
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("there is no NVIDIA driver")
    outcome = run_isolated(_find_gpu, (), Limits(_SECONDS, _SECONDS))
    if not outcome.value:
        pytest.skip(f"torch finds no GPU {outcome.message[-200:]}")
    return str(outcome.value)


@pytest.fixture
def on_gpu(gpu_name: str) -> Callable[..., Any]:
    """`on_gpu(function, *arguments)` runs `function(progress, *arguments)` isolated and returns its result; a list of
    problems that is not empty fails the test."""

    def run(function: Callable[..., Any], *arguments: Any, seconds: float = _SECONDS) -> Any:
        outcome = run_isolated(function, arguments, Limits(seconds, seconds))
        if outcome.status != "done":
            pytest.fail(f"{outcome.status} at '{outcome.step}': {outcome.message[-3000:]}", pytrace=False)
        if isinstance(outcome.value, list) and outcome.value:
            pytest.fail("\n".join(map(str, outcome.value)), pytrace=False)
        return outcome.value

    return run
