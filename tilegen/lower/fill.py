"""Fills: every element of a region becomes one value."""

from __future__ import annotations

from tilegen.inference.loops import as_loop
from tilegen.ir.nodes import Fill, Stmt
from tilegen.lower.context import Context
from tilegen.lower.element_loop import lower_loop
from tilegen.model.statements import CStmt


def lower_fill(context: Context, fill: Stmt) -> list[CStmt]:
    """The code of a fill."""
    assert isinstance(fill, Fill)
    loop = as_loop(fill)
    assert loop is not None
    return lower_loop(context, loop)
