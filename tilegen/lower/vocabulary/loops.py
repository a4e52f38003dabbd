"""Heads of counted loops: what the text calls their bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.ir.affine import interval
from tilegen.ir.expressions import Binary, Const, Expr, Load, Var
from tilegen.ir.nodes import For, Let, Stmt
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.scalar import dialect, ranges, scalar
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, StaticCast
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

    @property
    def condition(self) -> CExpr:
        """`stop > start`: the loop iterates."""
        return c.operation(">", self.stop, self.start)


def loop_head(context: Context, loop: For) -> LoopHead:
    """The head of a loop with step 1 (a `step` other than 1 is the caller's)."""
    note_variable(context, loop)
    return LoopHead(
        loop.var.name,
        scalar(context, loop.start),
        _bound(context, loop, loop.stop),
        context.reference(loop.location),
        provably_runs(context, loop),
    )


def note_variable(context: Context, loop: For) -> None:
    """Lets the text speak of a loop's variable, and notes between which numbers it is."""
    context.environment[loop.var.name] = Name(loop.var.name)
    low, high = interval(loop.start, ranges(context))[0], interval(loop.stop, ranges(context))[1]
    context.ranges[loop.var.name] = (low, None if high is None else high - 1)


def provably_runs(context: Context, loop: For) -> bool:
    """Whether a loop has an iteration in any case."""
    latest, fewest = interval(loop.start, ranges(context))[1], interval(loop.stop, ranges(context))[0]
    return latest is not None and fewest is not None and latest < fewest


def _bound(context: Context, loop: For, stop: Expr) -> CExpr:
    name = loop.var.name
    if isinstance(stop, Const):
        if stop.name:
            return context.literal(stop)
        wanted = f"kTiles{name[0].upper()}{name[1:].rstrip('_')}" if loop.kind == "pipelined" else ""
        if not wanted or (
            wanted in context.constants and context.constants[wanted].value != Literal(int(stop.value))
        ):
            return context.literal(stop)
        return context.constant(wanted, int(stop.value), f"iterations of {name}")
    value = _quotient(context, loop.start, stop)
    if not isinstance(stop, Var) and in_prologue(context, stop):
        wanted = name.rstrip("_") + ("_tiles" if loop.kind == "pipelined" else "_stop")
        return declare_once(context, wanted, value)
    counted = stop.dtype.kind != "uint" or stop.dtype.bits < 32
    return value if counted else StaticCast("int", value, functional=True)  # as what counts up to it


def _quotient(context: Context, start: Expr, stop: Expr) -> CExpr:
    """The bound of a loop from 0 or more on: a quotient below 0 may be rounded either way, no iteration is below it."""
    match stop:
        case Binary("//", left, Const(int() as divisor) as right) if (
            divisor > 0 and isinstance(start, Const) and start.value >= 0
        ):
            return c.operation("/", scalar(context, left), scalar(context, right))
        case _:
            return scalar(context, stop)


def in_prologue(context: Context, expr: Expr) -> bool:
    """Whether all that the expression needs is known at the kernel's top, before its roles part."""
    declarations = [entry for entry in context.prologue if isinstance(entry, Declare)]
    declared = [Name(name) for entry in declarations for name in (entry.structured or (entry.name,))]
    parts = tuple(each_node(expr))
    if any(isinstance(part, Load) for part in parts):
        return False
    variables = [part for part in parts if isinstance(part, Var)]
    return all(
        var.role in ("extent", "scalar") or context.environment.get(var.name, Name(var.name)) in declared
        for var in variables
    )


def hoist_lets(context: Context, statements: Sequence[Stmt]) -> None:
    """Declares named values of the kernel's body at its top, where what they need is known: all roles and bounds of
    loops have them then."""
    for statement in statements:
        match statement:
            case Let(var, value, mutable=False, location=location) if in_prologue(context, value):
                text = dialect(context).type_name(var.dtype)
                declared = Declare(text, var.name, scalar(context, value), const=True)
                context.prologue += [*context.comment(location), declared]
                context.hoisted[var.name] = None
            case _:
                pass


def note_ranges(context: Context, statements: Sequence[Stmt]) -> None:
    """What is known of named integers that the kernel's body computes once a tile."""
    for statement in statements:
        match statement:
            case Let(var, value, mutable=False) if var.dtype.is_integer:
                context.ranges[var.name] = interval(value, ranges(context))
            case _:
                pass


def declare_once(context: Context, name: str, value: CExpr) -> Name:
    """A constant at the kernel's top, under one name for all roles."""
    if not any(isinstance(entry, Declare) and entry.name == name for entry in context.prologue):
        context.prologue.append(Declare("int", name, value, const=True))
    return Name(name)
