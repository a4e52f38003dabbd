"""What a grid never exceeds is not checked, and what it may exceed is."""

# mypy: ignore-errors

from __future__ import annotations

import re

import pytest
from matmul_model import matmul_model

import tilegen
import tilegen.language as T
from tilegen.emit.largest_grid import largest_count
from tilegen.model import build as c
from tilegen.model.expressions import Literal, Name

MOST = 2**31 - 1


def test_counts_have_a_most():
    model = matmul_model()
    extent, block = model.extents[0], "kBlockM"
    size = next(constant.value.value for constant in model.constants if constant.name == block)
    tiles = c.operation("/", c.operation("-", c.operation("+", extent, block), 1), block)
    assert largest_count(Name(extent), model) == MOST
    assert largest_count(tiles, model) == (MOST + size - 1) // size
    assert largest_count(c.call("ceildiv", extent, block), model) == (MOST + size - 1) // size
    assert largest_count(c.operation("*", tiles, 4), model) == 4 * ((MOST + size - 1) // size)


@pytest.mark.parametrize("unknown", [Name("count"), Literal(1.5, "float"), c.operation("/", 8, "M")])
def test_what_is_not_known_has_none(unknown):
    assert largest_count(unknown, matmul_model()) is None


@tilegen.jit
def doubled(X, rows: int = 1, columns: int = 256, flat: bool = False):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        if flat:
            T.use_swizzle(8)
        for i, j in T.Parallel(rows, columns):
            Y[by * rows + i, bx * columns + j] = X[by * rows + i, bx * columns + j] * 2
    return Y


@pytest.mark.parametrize(
    ("target", "parameters", "checked"),
    [
        ("sm_90a", {}, ["blocks_y > 0xFFFF"]),  # blocks along x are as many as an int may count
        ("gfx942", {}, ["blocks_y > 0xFFFF"]),
        ("sm_90a", {"columns": 4}, ["blocks_y > 0xFFFF"]),
        ("gfx942", {"columns": 4}, ["blocks_x > 0xFFFFFFFF / kThreads", "blocks_y > 0xFFFF"]),
        ("sm_90a", {"rows": 2**16}, []),
        ("sm_90a", {"flat": True}, ["blocks > 0x7FFFFFFF"]),
    ],
    ids=str,
)
def test_the_launcher_asks_what_it_does_not_know(target, parameters, checked):
    if parameters.get("rows", 1) > 1:
        parameters = {**parameters, "columns": 1}
    source = doubled.emit(target=target, **parameters).source
    assert re.findall(r"blocks\w* > 0x\w+(?: / kThreads)?", source) == checked
    assert ("more than a grid holds" in source) == bool(checked)
