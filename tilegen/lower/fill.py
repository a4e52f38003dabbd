"""Fills: every element of a region becomes one value."""

from __future__ import annotations

from tilegen.inference.loops import as_loop
from tilegen.ir.nodes import Fill, Stmt
from tilegen.lower.context import Context
from tilegen.lower.element_loop import lower_loop
from tilegen.model.statements import CStmt


def lower_fill(context: Context, fill: Stmt) -> list[CStmt]:
    """The code of a fill; nothing where a gemm that follows ignores the old accumulators instead."""
    assert isinstance(fill, Fill)
    if fill in context.folded.fills:
        return []
    loop = as_loop(fill)
    assert loop is not None
    return lower_loop(context, loop)
