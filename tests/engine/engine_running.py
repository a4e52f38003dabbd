"""Runs a tile program of the engine's tests on a target and compares it with NumPy in float64."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np

import tilegen.language as T
from tilegen import JitKernel

Array = np.ndarray[Any, Any]
TARGETS = ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950")
DTYPES: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.5e-2, "float32": 2e-5}


def matrix(seed: int, *shape: int, dtype: str = "float16") -> Array:
    """Normal numbers of standard deviation 1, rounded to the element type."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(DTYPES[dtype])


def exact(array: Array) -> Array:
    return array.astype(np.float64)


def results(
    kernel: JitKernel,
    target: str,
    arrays: list[Array],
    parameters: dict[str, Any],
    *,
    seed: int = 0,
    dynamic: bool = False,
) -> tuple[Array, ...]:
    """What the emitted text computes when threads run in a random order and asynchronous work lands as late as it may.

    With `dynamic` the text is generated without knowing the extents.
    """
    specs = [] if dynamic else [T.Tensor(array.shape, array.dtype.name) for array in arrays]
    emission = kernel.emit(*specs, target=target, **parameters)
    found = emission.emulate(*arrays, schedule="random", asynchronous="lazy", seed=seed)
    return found if isinstance(found, tuple) else (found,)


def compare(found: Array, expected: Array, tolerance: float) -> None:
    """The result is close as a whole, and no element is far off what its neighbours' size allows."""
    assert found.shape == expected.shape
    difference = np.abs(exact(found) - expected)
    size = float(np.sqrt(np.mean(np.square(expected)))) if expected.size else 1.0
    assert np.linalg.norm(difference) <= tolerance * max(float(np.linalg.norm(expected)), 1e-30)
    worst = float(difference.max(initial=0.0))
    assert worst <= 20 * tolerance * max(size, 1e-30), (
        f"an element is off by {worst}, values are about {size}"
    )


def chooser(seed: int) -> random.Random:
    """Choices of a seeded case, the same on every machine."""
    return random.Random(seed)
