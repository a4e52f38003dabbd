"""Macros and functions inside a program are inlined."""

# Tile programs, some of them wrong on purpose.
# ruff: noqa: F841, F821

from __future__ import annotations

from typing import Any

from frontend_faults import fault
from test_generation_time import body

import tilegen.language as T


@T.macro
def rescale(tile: Any, factor: Any, rows: int, *, offset: float = 0.0) -> None:
    for i, j in T.Parallel(rows, 64):
        tile[i, j] = tile[i, j] * factor + offset


@T.macro
def load(source: Any, target: Any) -> Any:
    T.copy(source, target)
    return target


def test_macros_are_inlined() -> None:
    def use(X):
        X: T.Tensor((256, 64), T.float32)
        with T.Kernel(4) as bx:
            tile = T.alloc_fragment((64, 64), T.float32)
            loaded = load(X[bx * 64, 0], tile)
            rescale(loaded, 2.0, 64, offset=1)
            rescale(tile, X[0, 0], 64)
            T.copy(tile, X[bx * 64, 0])

    assert body(use) == [
        "copy X[bx * 64:+64, 0:+64] -> tile[0:+64, 0:+64]",
        "parallel i, j in (64, 64):",
        "  tile[i, j] = tile[i, j] * 2.0 + 1.0",
        "parallel i_1, j_1 in (64, 64):",
        "  tile[i_1, j_1] = tile[i_1, j_1] * X[0, 0] + 0.0",
        "copy tile[0:+64, 0:+64] -> X[bx * 64:+64, 0:+64]",
    ]


def test_local_functions_see_their_surroundings() -> None:
    def use(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(4) as bx:
            base = bx * 16

            def element(i, scale=2):
                shifted = base + i
                if scale == 2:
                    return X[shifted], shifted
                return X[shifted] * scale, shifted

            value, place = element(1)
            X[place] = value
            value, place = element(3, scale=5)
            X[place] = value

    assert body(use) == [
        "let base: int32 = bx * 16",
        "let shifted: int32 = base + 1",
        "var value: float32 = X[shifted]",
        "var place: int32 = shifted",
        "X[place] = value",
        "let shifted_1: int32 = base + 3",
        "value = X[shifted_1] * 5.0",
        "place = shifted_1",
        "X[place] = value",
    ]


def test_computed_arguments_are_evaluated_once() -> None:
    @T.macro
    def twice(x: Any) -> Any:
        return x + x

    def use(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(4) as bx:
            X[bx] = twice(X[bx] * 2)

    assert body(use) == ["let x: float32 = X[bx] * 2.0", "X[bx] = x + x"]


def test_star_arguments() -> None:
    def use(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(4) as bx:

            def total(first, *others, scale, **options):
                result = first
                for other in others:
                    result = result + other
                return result * scale * options["extra"]

            X[bx] = total(X[0], *(X[1], X[2]), scale=2, extra=3)

    lines = body(use)
    assert lines[0] == "var result: float32 = X[0]"
    assert lines[-1] == "X[bx] = result * 2.0 * 3.0"


def test_errors_inside_macros_show_the_call() -> None:
    @T.macro
    def broken(tile: Any) -> None:
        T.fill(tile, unknown)

    def use(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1) as bx:
            tile = T.alloc_fragment((64,), T.float32)
            broken(tile)
            T.copy(tile, X[bx])

    wrong = fault(use)
    assert wrong.line == "T.fill(tile, unknown)"
    assert wrong.underlined == "unknown"
    assert wrong.related == ["broken(tile)"]


def test_recursion() -> None:
    def use(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1) as bx:

            def power(x, n):
                return x if n == 1 else x * power(x, n - 1)

            X[bx] = power(X[bx], 3)

    wrong = fault(use)
    assert wrong.line == "return x if n == 1 else x * power(x, n - 1)"
    assert wrong.underlined == "power(x, n - 1)"
    assert wrong.message == "power calls itself, but it is inlined where it is called"


def test_wrong_calls() -> None:
    def missing(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1) as bx:
            rescale(X, 2.0)

    assert fault(missing).message == "rescale is called without a value for rows"

    def unknown(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1) as bx:
            rescale(X, 2.0, row=3)

    wrong = fault(unknown)
    assert wrong.underlined == "rescale(X, 2.0, row=3)"
    assert wrong.message == "rescale: row is not one of its parameters"
    assert wrong.remedy == "its parameters are tile, factor, rows"


def test_return_inside_a_tile_branch() -> None:
    def use(X):
        X: T.Tensor((64,), T.float32)
        with T.Kernel(1) as bx:

            def choose(x):
                if x > 0:
                    return x
                return 0.0

            X[bx] = choose(X[bx])

    wrong = fault(use)
    assert wrong.line == wrong.underlined == "return x"
    assert wrong.message == "return stands inside a loop or branch of the kernel"
