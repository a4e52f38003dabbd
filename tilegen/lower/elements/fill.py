"""Fills: every element of a region becomes one value; of an array of each thread's own in every thread."""

from __future__ import annotations

from tilegen.inference.loops import as_loop
from tilegen.ir.nodes import Fill, Stmt
from tilegen.lower.elements.loop import lower_loop
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.scalar import scalar
from tilegen.lower.vocabulary.uniform import uniform_load
from tilegen.model import build as c
from tilegen.model.expressions import Literal
from tilegen.model.statements import AssignC, CStmt, ForC


def lower_fill(context: Context, fill: Stmt) -> list[CStmt]:
    """The code of a fill."""
    assert isinstance(fill, Fill)
    if fill.target.buffer.scope == "local":
        return [_own_elements(context, fill)]
    loop = as_loop(fill)
    assert loop is not None
    return lower_loop(context, loop)


def _own_elements(context: Context, fill: Fill) -> CStmt:
    region = fill.target
    walked = [axis for axis, extent in enumerate(region.shape) if extent > 1]
    names = {axis: context.name("e" if len(walked) == 1 else f"e{axis}") for axis in walked}
    places = [
        c.add(scalar(context, offset), names.get(axis, 0)) for axis, offset in enumerate(region.offsets)
    ]
    code: CStmt = AssignC(
        c.index(region.buffer.name, *places), scalar(context, fill.value, uniform_load(context))
    )
    for axis in reversed(walked):
        code = ForC(names[axis], Literal(0), Literal(region.shape[axis]), (code,), unroll=True)
    return code
