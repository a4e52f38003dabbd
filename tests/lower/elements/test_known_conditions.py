"""Conditions that hold already are not asked again, unless the body has changed what they speak of; positions that the
program named are spoken of by name."""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
import pytest
from emulation import TARGETS, emulated, kernel_text

import tilegen.language as T
from tilegen.driver import generate
from tilegen.frontend import parse


def stepwise(kept: str):
    """A condition twice, with a step in between after which it may fail."""

    def kernel(X):
        N = T.const("N")
        X: T.Tensor((N,), T.int32)
        Y = T.empty((N,), T.int32)
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            x = T.alloc_fragment((128,), T.int32)
            T.copy(X[bx * 128], x)
            for i in T.Parallel(128):
                if kept == "a variable":
                    count = x[i]
                    if count < 4:
                        count = count + 3
                        if count < 4:
                            count = count + 100
                    x[i] = count
                else:
                    if x[i] < 4:
                        x[i] = x[i] + 3
                        if x[i] < 4:
                            x[i] = x[i] + 100
            T.copy(x, Y[bx * 128])
        return Y

    return kernel


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kept", ["a variable", "an element"])
def test_a_condition_is_asked_again_once_its_parts_have_changed(kept, target, require_tool):
    require_tool("host_compiler")
    x = np.random.default_rng(3).integers(-5, 10, 300).astype(np.int32)
    (found,) = emulated(stepwise(kept), target, [x])
    once = np.where(x < 4, x + 3, x)
    np.testing.assert_array_equal(found, np.where((x < 4) & (once < 4), once + 100, once))


def test_positions_are_named_and_asked_once():
    def scatter(places, X, Y):
        N, V = T.const("N, V")
        places: T.Tensor((N,), T.int32)
        X: T.Tensor((N, 100), T.float32)
        Y: T.Tensor((V, 100), T.float32)
        with T.Kernel(T.ceildiv(N, 8), threads=128) as bx:
            for i, j in T.Parallel(8, 100):
                n = bx * 8 + i
                if n < N and places[n] >= 0 and places[n] < V:
                    T.atomic_add(Y[places[n], j], X[n, j])

    text = kernel_text(generate(parse(scatter), "sm_80"))
    assert "if (n < N && places[n] >= 0 && places[n] < V)" in text
    assert text.count("bx * 8 + i") == 1 and "< N ?" not in text
