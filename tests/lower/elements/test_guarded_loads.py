"""`T.if_then_else` around a load: nothing is read where the condition does not hold, and where the load comes in
vectors the condition is asked once for each."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import emulated, generated, kernel_text

import tilegen.language as T

ROWS, COLUMNS, BOX = 3, 64, 8


def selected(kind):
    """Y[i, j] of a box of 8 rows from a tile of 3: `kind` says what guards it."""

    def program(X, threads: int = 32):
        X: T.Tensor((ROWS, COLUMNS), T.float16)
        Y = T.empty((BOX, COLUMNS), T.float16)
        with T.Kernel(1, threads=threads):
            tile = T.alloc_shared((ROWS, COLUMNS), T.float16)
            out = T.alloc_fragment((BOX, COLUMNS), T.float16)
            T.copy(X, tile)
            for i, j in T.Parallel(BOX, COLUMNS):
                if kind == "rows":
                    out[i, j] = T.if_then_else(i < ROWS, tile[i, j], 0)
                elif kind == "global rows":
                    out[i, j] = T.if_then_else(i < ROWS, X[i, j], 0)
                elif kind == "rows and columns":
                    out[i, j] = T.if_then_else(i < ROWS and j % 3 > 0, tile[i, j], 0)
                elif kind == "another value":
                    out[i, j] = T.if_then_else(i < ROWS, tile[i, j], 7.0)
                elif kind == "a part":
                    out[i, j] = T.if_then_else(i < ROWS, tile[i, j] * 2.0 + 1.0, 0)
                elif kind == "nested":
                    out[i, j] = T.if_then_else(i < ROWS, T.if_then_else(i > 0, tile[i, j], 0), 5.0)
                elif kind == "in a condition":
                    out[i, j] = T.if_then_else(i < ROWS and tile[i, j] > 0, 1.0, 0.0)
                elif kind == "twice":
                    out[i, j] = T.if_then_else(i < ROWS, tile[i, j], 0) + T.if_then_else(i < 1, tile[i, j], 0)
                elif kind == "rows below 0":
                    out[i, j] = T.if_then_else(i > 4, tile[i - 5, j], 0)
                elif kind == "minus 0":
                    out[i, j] = T.if_then_else(i < ROWS, tile[i, j], -0.0)
                elif kind == "converted":
                    out[i, j] = T.if_then_else(i < ROWS, T.cast(tile[i, j], T.float32), 0) * 2.0
            T.copy(out, Y)
        return Y

    return program


def expected(kind, x):
    box, i, j = np.zeros((BOX, COLUMNS), np.float16), np.arange(ROWS)[:, None], np.arange(COLUMNS)
    match kind:
        case "rows" | "global rows":
            box[:ROWS] = x
        case "rows and columns":
            box[:ROWS] = np.where(j % 3 > 0, x, 0)
        case "another value":
            box[:] = 7
            box[:ROWS] = x
        case "a part":
            box[:ROWS] = x * np.float16(2) + np.float16(1)
        case "nested":
            box[:] = 5
            box[:ROWS] = np.where(i > 0, x, 0)
        case "in a condition":
            box[:ROWS] = x > 0
        case "twice":
            box[:ROWS] = x + np.where(i < 1, x, 0)
        case "rows below 0":
            box[5:] = x
        case "minus 0":
            box[:] = -0.0
            box[:ROWS] = x
        case "converted":
            box[:ROWS] = x * np.float16(2)
    return box


KINDS = {  # whether the vector's condition is the only one
    "rows": True,
    "global rows": True,
    "rows and columns": False,
    "another value": False,
    "a part": False,
    "nested": False,
    "in a condition": False,
    "twice": False,
    "rows below 0": True,
    "minus 0": False,
    "converted": True,
}


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_read_beyond_the_tile(kind: str, target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(3).standard_normal((ROWS, COLUMNS)).astype(np.float16)
    threads = 64 if target == "gfx942" else 32
    (found,) = emulated(selected(kind), target, [x], {"schedule": "random", "seed": 2}, threads=threads)
    np.testing.assert_array_equal(found, expected(kind, x))
    assert np.array_equal(np.signbit(found), np.signbit(expected(kind, x)))


@pytest.mark.parametrize("kind", [kind for kind, once in KINDS.items() if once])
def test_one_condition_a_vector(kind: str) -> None:
    text = kernel_text(generated(selected(kind), "sm_80", [np.zeros((ROWS, COLUMNS), np.float16)]))
    loop = text[text.index("T.if_then_else") :]
    loop = loop[: loop.index("T.copy(out, Y)")]
    assert loop.count("?") == 1 and "uint4{}" in loop


def kept(kind):
    """Conditions that stay where they are, each for a reason of its own."""

    def program(X, F, threads: int = 32):
        X: T.Tensor((BOX, COLUMNS), T.float16)
        F: T.Tensor((BOX,), T.float16)
        Y = T.empty((BOX, COLUMNS), T.float16)
        with T.Kernel(1, threads=threads):
            few = T.alloc_shared((ROWS,), T.float16)
            c = T.alloc_fragment((BOX,), T.float16)
            T.copy(F[0], few)
            T.clear(c)
            if kind == "both of two conditions":
                for i, j in T.Parallel(BOX, COLUMNS):
                    Y[i, j] = T.if_then_else(i < 5, T.if_then_else(F[0] > 3, X[i, j], 0), 0)
            elif kind == "behind one that stays":
                for i, j in T.Parallel(BOX, COLUMNS):
                    Y[i, j] = T.if_then_else(i < ROWS and j < 61, T.if_then_else(few[i] > 0, X[i, j], 0), 1)
            elif kind == "behind an and":
                for i, j in T.Parallel(BOX, COLUMNS):
                    Y[i, j] = T.if_then_else(i < ROWS and T.if_then_else(few[i] > 0, X[i, j], 0) > 0, 1, 2)
            else:
                for i, j in T.Parallel(BOX, COLUMNS):
                    c[i] = F[i]
                    Y[i, j] = T.if_then_else(c[i] > 0, X[i, j], 0)
        return Y

    return program


def kept_result(kind, x, f):
    i, j = np.arange(BOX)[:, None], np.arange(COLUMNS)
    wide = np.resize(np.concatenate([f[:ROWS], np.zeros(BOX - ROWS, np.float16)]), BOX)[:, None]
    match kind:
        case "both of two conditions":
            return np.where((i < 5) & (f[0] > 3), x, 0)
        case "behind one that stays":
            return np.where((i < ROWS) & (j < 61), np.where(wide > 0, x, 0), 1)
        case "behind an and":
            return np.where((i < ROWS) & (np.where(wide > 0, x, 0) > 0), 1, 2)
        case _:
            return np.where(f[:, None] > 0, x, 0)


KEPT = ("both of two conditions", "behind one that stays", "behind an and", "of what the body stores")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("kind", KEPT)
def test_conditions_that_may_not_move(kind: str, target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(4)
    x, f = (rng.standard_normal(shape).astype(np.float16) for shape in ((BOX, COLUMNS), (BOX,)))
    threads = 64 if target == "gfx942" else 32
    (found,) = emulated(kept(kind), target, [x, f], {"schedule": "random", "seed": 2}, threads=threads)
    np.testing.assert_array_equal(found, kept_result(kind, x, f).astype(np.float16))
