"""Parallel loops, copies that threads make, and atomic tiles: all run as element loops over their partition."""

from __future__ import annotations

from tilegen.inference.loops import as_loop
from tilegen.ir.nodes import Stmt
from tilegen.lower.elements.loop import lower_loop
from tilegen.lower.elements.vote import lower_voted
from tilegen.lower.vocabulary.context import Context
from tilegen.model.statements import CStmt


def lower_parallel(context: Context, statement: Stmt) -> list[CStmt]:
    """The code of an element-wise statement."""
    loop = as_loop(statement)
    assert loop is not None, "only element-wise statements are registered here"
    voted = lower_voted(context, loop)
    return lower_loop(context, loop) if voted is None else voted
