"""Positions that a parallel loop names are written once, also where elements move in vectors, and are known to be no
less than 0 where what they are made of is not."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import emulated, generated, kernel_text

import tilegen.language as T

TARGETS = ["sm_80", "sm_90a", "gfx90a", "gfx950"]


def patches(X, taps: int = 3, pad: int = 1):
    """The neighbours of every pixel, side by side: an image to columns."""
    B, H, W, C = T.const("B, H, W, C")
    X: T.Tensor((B, H, W, C), T.float16)
    Y = T.empty((B * H * W, taps * taps, C), T.float16)
    with T.Kernel(T.ceildiv(B * H * W, 32), taps * taps, threads=64) as (block, tap):
        for i, j in T.Parallel(32, C):
            p = block * 32 + i
            y = p // W % H + tap // taps - pad
            x = p % W + tap % taps - pad
            inside = y >= 0 and y < H and x >= 0 and x < W
            Y[p, tap, j] = T.if_then_else(inside, X[p // (H * W), y, x, j], 0)
    return Y


def shifted(X, by: int = 0):
    """A name that differs from element to element of a vector stays where the elements are."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(M, threads=64) as b:
        for i, j in T.Parallel(1, N):
            row = b + i
            place = (j + by) % N
            Y[row, j] = X[row, place] + X[row, j]
    return Y


IMAGES = np.random.default_rng(0).standard_normal((2, 5, 7, 16)).astype(np.float16)


def expected_patches(x):
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    parts = [padded[:, r : r + 5, s : s + 7] for r in range(3) for s in range(3)]
    return np.stack(parts, axis=3).reshape(70, 9, 16)


@pytest.mark.parametrize("target", TARGETS)
def test_vectors_at_named_positions(target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    text = kernel_text(generated(patches, target, [IMAGES]))
    assert "const int y = p / kW % kH + tap / kTaps - kPad;" in text
    assert "floor_mod" not in text and "floor_div" not in text
    assert text.count("block * 32") + text.count("block * kBlock") <= 1
    (found,) = emulated(patches, target, [IMAGES], {"schedule": "random"})
    assert np.array_equal(found, expected_patches(IMAGES))


@pytest.mark.parametrize("by", [0, 1, 3])
@pytest.mark.parametrize("target", TARGETS)
def test_names_that_differ_in_a_vector(target: str, by: int, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(1).integers(-8, 9, (5, 64)).astype(np.float16)
    (found,) = emulated(shifted, target, [x], {"schedule": "random"}, by=by)
    assert np.array_equal(found, np.roll(x, -by, axis=1) + x)
