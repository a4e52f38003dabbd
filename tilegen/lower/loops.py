"""Heads of counted loops: what the text calls their bounds."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir.affine import interval
from tilegen.ir.expressions import Const, Expr, Var
from tilegen.ir.nodes import For
from tilegen.lower.context import Context
from tilegen.lower.scalar import ranges, scalar
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import Declare
from tilegen.schedule.analysis import each_node


@dataclass(frozen=True, slots=True)
class LoopHead:
    """`for (int variable = start; variable < stop; …)  // comment`; `runs` when it provably iterates."""

    variable: str
    start: CExpr
    stop: CExpr
    comment: str
    runs: bool


def loop_head(context: Context, loop: For) -> LoopHead:
    """The head of a loop with step 1 (a `step` other than 1 is the caller's)."""
    start, stop = loop.start, loop.stop
    runs = isinstance(start, Const) and isinstance(stop, Const) and start.value < stop.value
    context.environment[loop.var.name] = Name(loop.var.name)
    low, _ = interval(start, ranges(context))
    _, high = interval(stop, ranges(context))
    context.ranges[loop.var.name] = (low, None if high is None else high - 1)
    return LoopHead(
        loop.var.name,
        scalar(context, start),
        _bound(context, loop, stop),
        context.reference(loop.location),
        runs,
    )


def _bound(context: Context, loop: For, stop: Expr) -> CExpr:
    name = loop.var.name
    if isinstance(stop, Const):
        if stop.name:
            return context.literal(stop)
        wanted = f"kTiles{name[0].upper()}{name[1:]}" if loop.kind == "pipelined" else ""
        if not wanted or (
            wanted in context.constants and context.constants[wanted].value != Literal(int(stop.value))
        ):
            return Literal(int(stop.value))
        return context.constant(wanted, int(stop.value), f"iterations of {name}")
    roles = [node.role for node in each_node(stop) if isinstance(node, Var)]
    if all(role in ("extent", "scalar") for role in roles):
        wanted = f"{name}_tiles" if loop.kind == "pipelined" else f"{name}_stop"
        for declared in context.prologue:
            if isinstance(declared, Declare) and declared.name == wanted:
                return Name(wanted)
        context.prologue.append(Declare("int", wanted, scalar(context, stop), const=True))
        return Name(wanted)
    return scalar(context, stop)
