"""Variables that iterations of T.Parallel assign again: what is computed from them is computed where it stands."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import kernel_text

import tilegen.language as T
from tilegen.driver import generate
from tilegen.emulate import run
from tilegen.frontend import parse

TARGETS = ["sm_80", "sm_90a", "gfx942"]
BLOCK, COUNT, PLACES = 256, 700, 1500


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def assigned_index(X, Y):
    X: T.Tensor((COUNT,), T.int32)
    Y: T.Tensor((PLACES,), T.int32)
    with T.Kernel(T.ceildiv(COUNT, BLOCK), threads=128) as bx:
        for i in T.Parallel(BLOCK):
            at = X[bx * BLOCK + i]
            at = at * 2 + 1
            if bx * BLOCK + i < COUNT:
                Y[at] = i


def old_value(X, Y):
    X: T.Tensor((COUNT,), T.int32)
    Y: T.Tensor((PLACES,), T.int32)
    with T.Kernel(T.ceildiv(COUNT, BLOCK), threads=128) as bx:
        for i in T.Parallel(BLOCK):
            at = bx * BLOCK + i
            old = at + 1
            at = at * 3
            Y[old] = at - old


def old_element(X, Y):
    X: T.Tensor((COUNT,), T.int32)
    Y: T.Tensor((PLACES,), T.int32)
    with T.Kernel(T.ceildiv(COUNT, BLOCK), threads=128) as bx:
        for i in T.Parallel(BLOCK):
            if bx * BLOCK + i < COUNT:
                old = X[bx * BLOCK + i]
                X[bx * BLOCK + i] = 7
                Y[old] = i


def assigned_in_a_branch(X, Y):
    X: T.Tensor((COUNT,), T.int32)
    Y: T.Tensor((PLACES,), T.int32)
    with T.Kernel(T.ceildiv(COUNT, BLOCK), threads=128) as bx:
        for i in T.Parallel(BLOCK):
            at = T.alloc_var(T.int32)
            at = bx * BLOCK + i
            if at % 2 == 1:
                at = at + 768
            Y[at] = i


def inner_variable(X, Y):
    X: T.Tensor((COUNT,), T.int32)
    Y: T.Tensor((PLACES,), T.int32)
    with T.Kernel(T.ceildiv(COUNT, BLOCK), threads=128) as bx:
        for i in T.Parallel(BLOCK):
            for k in T.serial(2):
                Y[(bx * BLOCK + i) * 2 + k] = i + k


def bound_from_memory(X, Y):
    X: T.Tensor((COUNT,), T.int32)
    Y: T.Tensor((PLACES,), T.int32)
    with T.Kernel(T.ceildiv(COUNT, BLOCK), threads=128) as bx:
        for i in T.Parallel(BLOCK):
            for k in T.serial(X[1] + 1):
                Y[(bx * BLOCK + i) * 2 + k] = i + k


PROGRAMS = {
    assigned_index: lambda n, x: [(2 * x[n] + 1, n % BLOCK)] if n < COUNT else [],
    old_value: lambda n, x: [(n + 1, 2 * n - 1)],
    old_element: lambda n, x: [(x[n], n % BLOCK)] if n < COUNT else [],
    assigned_in_a_branch: lambda n, x: [(n + 768 * (n % 2), n % BLOCK)],
    inner_variable: lambda n, x: [(2 * n + k, n % BLOCK + k) for k in range(2)],
    bound_from_memory: lambda n, x: [(2 * n + k, n % BLOCK + k) for k in range(2)],
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_elements_lie_where_their_iteration_has_them(program, target: str) -> None:
    x = np.random.default_rng(2).permutation(COUNT).astype(np.int32)
    x[[1, np.flatnonzero(x == 1)[0]]] = 1, x[1]  # the bound that is read is 2
    found = generate(parse(program), target)
    result = run(found.source, found.manifest, [x, np.zeros(PLACES, np.int32)], schedule="random", seed=4)
    y = result[-1] if isinstance(result, tuple) else result
    expected = np.zeros(PLACES, np.int32)
    for iteration in range(-(-COUNT // BLOCK) * BLOCK):
        for place, value in PROGRAMS[program](iteration, x):
            if place < PLACES:
                expected[place] = value
    np.testing.assert_array_equal(y, expected)


def hashed(X):
    X: T.Tensor((COUNT,), T.float16)
    Y = T.empty((COUNT,), T.float16)
    with T.Kernel(T.ceildiv(COUNT, BLOCK), threads=64) as bx:
        for i in T.Parallel(BLOCK):
            bits = T.cast(bx * BLOCK + i, T.uint32)
            bits = (bits ^ (bits >> 5)) * 0x7FEB352D
            bits = bits ^ (bits >> 15)
            Y[bx * BLOCK + i] = T.if_then_else(bits & 1 == 1, X[bx * BLOCK + i], 0)
    return Y


@pytest.mark.parametrize("target", TARGETS)
def test_variables_of_values_leave_the_vectors(target: str) -> None:
    """Memory is accessed in vectors beside a variable that only values are made of; a load whose condition it is part
    of stays right."""
    x = np.random.default_rng(3).standard_normal(COUNT).astype(np.float16)
    bits = np.arange(COUNT, dtype=np.uint32)
    bits = (bits ^ (bits >> 5)) * np.uint32(0x7FEB352D)
    bits ^= bits >> 15
    found = generate(parse(hashed), target)
    result = run(found.source, found.manifest, [x], schedule="random", seed=4)
    np.testing.assert_array_equal(result, np.where(bits & 1, x, np.float16(0)))
    text = kernel_text(found)
    assert "X_vector" in text and "Y_vector" in text
