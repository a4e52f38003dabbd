"""Element-wise statements under a condition that few rows meet: a warp of which no lane has anything to do skips them.

`if alpha[i] != 1: O[i, d] *= alpha[i]` asks for each row what concerns all of its elements. The lanes vote once on the
few rows that they hold, and the registers of all elements are touched only where a row wants it.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.inference.loops import Loop
from tilegen.ir.expressions import Binary, Const, Expr, Load, Var
from tilegen.ir.nodes import If, Store
from tilegen.ir.traversal import children, free_vars, rebuild
from tilegen.lower.elements.loop import lower_loop
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.scalar import dialect, scalar
from tilegen.model import build as c
from tilegen.model.expressions import Literal
from tilegen.model.statements import CStmt, IfC

_MOST_ROWS = 4  # of a thread, on which it votes
_FEWEST = 8  # elements of a row that a vote spares


def lower_voted(context: Context, loop: Loop) -> list[CStmt] | None:
    """The loop's code inside a test whether a lane of the warp meets the condition of the loop's body. None where the
    body has none, or each element its own."""
    match loop.body:
        case (If(condition, (Store(target) as store,), ()),):
            pass
        case _:
            return None
    if any(access.buffer.scope != "fragment" for access in loop.accesses):
        return None
    if context.decisions.exchanges.get(loop.node):
        return None
    rows = _rows(context, loop, condition)
    stored = context.decisions.fragment(target).register_count
    if not rows or len(rows) > _MOST_ROWS or stored < _FEWEST * len(rows):
        return None
    wanted = [scalar(context, _of_row(context, condition, row)) for row in rows]
    test = wanted[0]
    for other in wanted[1:]:
        test = c.operation("||", test, other)
    code = lower_loop(context, replace(loop, body=(store,)) if _scales(store, condition) else loop)
    group = "wave" if context.target.language == "hip" else "warp"
    comment = f"else no row of the {group} asks for it"
    return [IfC(dialect(context).any_of_warp(test), tuple(code), comment=comment)]


def _scales(store: Store, condition: Expr) -> bool:
    """Whether an element is multiplied by what differs from 1 where the condition holds: by 1 it stays what it is, so
    that the rows of a warp need no condition each."""
    match condition, store.value:
        case Binary("!=", factor, Const(1)), Binary("*", Load(buffer, indices), other):
            return other == factor and buffer == store.buffer and indices == store.indices
        case _:
            return False


Row = tuple[int, ...]
"""The register of a row: its indices in the register array."""


def _rows(context: Context, loop: Loop, condition: Expr) -> list[Row]:
    """The registers of a thread that the condition speaks of; none where it speaks of the elements' places too."""
    loads = _loads(condition)
    places = [name for name in free_vars(_of_row(context, condition, ())) if name in loop.names]
    if not loads or places or len({load.indices for load in loads}) > 1:
        return []  # of rows and columns, or of two rows at once: registers of one number do not belong together
    if not all(isinstance(index, Var) for index in loads[0].indices):
        return []
    fragments = [context.decisions.fragment(load.buffer) for load in loads]
    shape = fragments[0].register_shape
    alike = all(fragment.exact and fragment.register_shape == shape for fragment in fragments)
    return list(fragments[0].each_register()) if alike else []


def _loads(expr: Expr) -> list[Load]:
    if isinstance(expr, Load):
        return [expr]
    return [load for part in children(expr) for load in _loads(part)]


def _of_row(context: Context, expr: Expr, row: Row) -> Expr:
    """The condition with the registers of a row in the place of elements."""
    if isinstance(expr, Load):
        name = "_".join((f"%{expr.buffer.name}", *map(str, row)))
        context.environment[name] = c.index(expr.buffer.name, *map(Literal, row))
        return Var(name, expr.buffer.dtype)
    parts = children(expr)
    return rebuild(expr, tuple(_of_row(context, part, row) for part in parts)) if parts else expr
