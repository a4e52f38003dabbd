"""`T.if_then_else` around an element whose index is read from memory: nothing is read where the condition does not
hold, and a row that is asked for once still comes in vectors."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilegen
import tilegen.language as T

COLUMNS = 64
X = np.random.default_rng(1).integers(1, 99, (9, COLUMNS)).astype(np.float32)
P = np.random.default_rng(2).integers(-1, 9, 48).astype(np.int32)
HUGE = 1 << 28


def gathered(kind):
    def program(X, P, block: int = 16):
        M, R = T.const("M, R")
        X: T.Tensor((R, COLUMNS), T.float32)
        P: T.Tensor((M,), T.int32)
        Y = T.empty((M, COLUMNS), T.float32)
        with T.Kernel(M // block, threads=128) as bx:
            rows = T.alloc_shared((9, COLUMNS), T.float32)
            out = T.alloc_shared((block, COLUMNS), T.float32)
            T.copy(X[0, 0], rows)
            for i, j in T.Parallel(block, COLUMNS):
                if kind == "rows":
                    out[i, j] = T.if_then_else(P[bx * block + i] >= 0, X[P[bx * block + i], j], 0)
                elif kind == "rows by name":
                    row = P[bx * block + i]
                    out[i, j] = T.if_then_else(row >= 0 and row < R, X[row, j], 0)
                elif kind == "another value":
                    out[i, j] = T.if_then_else(P[bx * block + i] >= 0, X[P[bx * block + i], j], 7)
                elif kind == "shared rows":
                    out[i, j] = T.if_then_else(P[bx * block + i] >= 0, rows[P[bx * block + i], j], 0)
                elif kind == "shared, another value":
                    out[i, j] = T.if_then_else(P[bx * block + i] < 0, 7, rows[P[bx * block + i], j])
                elif kind == "in a condition":
                    row = P[bx * block + i]
                    out[i, j] = T.if_then_else(row >= 0 and X[row, j] > 40, 1, 0)
            T.copy(out, Y[bx * block, 0])
        return Y

    return program


def expected(kind):
    there = (P >= 0)[:, None]
    match kind:
        case "rows" | "rows by name" | "shared rows":
            return np.where(there, X[P], 0)
        case "another value" | "shared, another value":
            return np.where(there, X[P], 7)
        case _:
            return np.where(there, X[P] > 40, False).astype(np.float32)


KINDS = ["rows", "rows by name", "another value", "shared rows", "shared, another value", "in a condition"]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_read_elsewhere(kind: str, target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    emission = tilegen.jit(gathered(kind)).emit(
        T.Tensor(X.shape, "float32"), T.Tensor(P.shape, "int32"), target=target
    )
    missing = np.where(P < 0, -HUGE, P).astype(np.int32)  # far from all memory
    np.testing.assert_array_equal(emission.emulate(X, missing, schedule="random", seed=1), expected(kind))


@pytest.mark.parametrize("kind", ["rows", "rows by name"])
def test_rows_come_in_vectors(kind: str) -> None:
    text = tilegen.jit(gathered(kind)).emit(target="sm_80").source
    loop = text[text.index("T.if_then_else") :]
    assert "float4{}" in loop[: loop.index("T.copy(out, Y")]
