"""The IR as text."""

from __future__ import annotations

import pytest

from tilegen.ir import build
from tilegen.ir.expressions import Bitcast, Expr, Load, Var
from tilegen.ir.nodes import (
    Assign,
    AtomicTile,
    Buffer,
    CustomOperation,
    For,
    If,
    Kernel,
    LayoutAnnotation,
    Let,
    ParallelFor,
    Persistent,
    Program,
    Rasterisation,
    Region,
    Store,
    SyncThreads,
)
from tilegen.ir.printer import buffer_text, expression_text, region_text, statement_lines, to_text
from tilegen.ir.types import float32, int32

i, j = Var("i", int32, "loop"), Var("j", int32, "loop")
x = Var("x", float32)
ZERO, ONE, FOUR = build.const(0), build.const(1), build.const(4)
X = Buffer("X", (FOUR, FOUR), float32, "global", "inout", (build.const(8), ONE))
TILE = Buffer("tile", (FOUR,), float32, "fragment")


@pytest.mark.parametrize(
    "expr, text",
    [
        (build.mul(build.add(i, j), 2), "(i + j) * 2"),
        (build.add(i, build.mul(j, 2)), "i + j * 2"),
        (build.sub(i, build.sub(j, i)), "i - (j - i)"),
        (build.sub(build.sub(i, j), i), "i - j - i"),
        (build.negate(build.add(i, j)), "-(i + j)"),
        (build.logical_not(build.binary("<", i, j)), "not i < j"),
        (build.binary("and", build.binary("<", i, j),
                      build.binary("or", build.binary("<", j, i), build.binary("==", i, j))),
         "i < j and (j < i or i == j)"),
        (build.binary("min", i, build.add(j, 1)), "min(i, j + 1)"),
        (build.select(build.binary("<", i, j), i, j), "select(i < j, i, j)"),
        (build.cast(build.add(i, 1), float32), "float32(i + 1)"),
        (Bitcast(x, int32), "reinterpret(x, int32)"),
        (build.call("fma", x, x, x), "fma(x, x, x)"),
        (Load(X, (i, build.add(j, 1))), "X[i, j + 1]"),
        (build.binary("<<", build.binary("&", i, 7), 2), "(i & 7) << 2"),
        (build.invert(i), "~i"),
    ],
)  # fmt: skip
def test_expressions(expr: Expr, text: str) -> None:
    assert expression_text(expr) == text


def test_regions_and_buffers() -> None:
    assert region_text(Region(X, (i, j), (1, 4), (0,))) == "X[i, j:+4]"
    assert buffer_text(X) == "X: float32[4, 4] strides (8, 1) global inout"
    assert buffer_text(TILE) == "tile: float32[4] fragment"


def test_a_program_with_every_kind_of_block() -> None:
    row = Region(X, (i, ZERO), (1, 4), (0,))
    tile = Region(TILE, (ZERO,), (4,))
    y = Var("y", float32)
    body = (
        Let(y, build.const(1.0), True),
        For(
            i,
            ZERO,
            FOUR,
            build.const(2),
            "pipelined",
            (AtomicTile("add", tile, row), SyncThreads()),
            2,
            (1, 0),
            (0, 1),
        ),
        If(build.binary("<", x, 1.0), (Assign(y, x),), (Assign(y, build.const(0.0)),)),
        ParallelFor((j,), (FOUR,), (Store(TILE, (j,), y),)),
        CustomOperation("mine", (row,), (tile,), (x,), (("mode", "fast"),)),
    )
    bx, by = Var("bx", int32, "block"), Var("by", int32, "block")
    kernel = Kernel(
        (FOUR,), (bx,), 64, False, (2, 1, 1), (TILE,), (Persistent((by,), (FOUR,), body),), Rasterisation(8, "row"),
        (LayoutAnnotation(TILE, "given"),),
    )  # fmt: skip
    n = Var("n", int32, "extent")
    program = Program("p", (X,), (x,), (n,), ("X",), kernel, (("block", "4"),), "01234567")
    assert (
        to_text(program)
        == """\
program p (01234567)
  block = 4
  tensor X: float32[4, 4] strides (8, 1) global inout
  scalar x: float32
  extent n
  returns X
kernel grid (4) as (bx) threads 64 persistent=False cluster (2, 1, 1):
  alloc tile: float32[4] fragment
  swizzle panel=8 order=row
  layout of tile given
  persistent by in (4):
    var y: float32 = 1.0
    for i in 0 .. 4 step 2 pipelined num_stages=2 order=(1, 0) stage=(0, 1):
      atomic add X[i, 0:+4], tile[0:+4]
      sync_threads
    if x < 1.0:
      y = x
    else:
      y = 0.0
    parallel j in (4):
      tile[j] = y
    mine reads (X[i, 0:+4]) writes (tile[0:+4]) with (x) mode=fast
"""
    )


def test_indentation() -> None:
    lines = statement_lines(If(build.binary("<", i, j), (SyncThreads(),)), 1)
    assert lines == ["  if i < j:", "    sync_threads"]
