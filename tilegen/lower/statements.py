"""Dispatch: which function lowers which statement. Every kind of statement registers under a key.

Keys are the statement's kind ("parallel", "copy", "reduce", …); loops add their own kind and the plan's
("for.serial", "for.pipelined.multistage"), gemms their family ("gemm.mfma"), operations of users their name
("custom.my_operation"). A longer key wins over a shorter one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import assert_never

from tilegen.diagnostics import ProgramError
from tilegen.ir.expressions import Var
from tilegen.ir.nodes import (
    AddPartials,
    AddParts,
    Assign,
    AtomicElement,
    AtomicTile,
    Copy,
    CustomOperation,
    Fill,
    For,
    Gemm,
    If,
    LeaveParts,
    Let,
    ParallelFor,
    Persistent,
    Reduce,
    Stmt,
    Store,
    SyncThreads,
)
from tilegen.location import Location
from tilegen.lower.synchronisation.barriers import barrier_before
from tilegen.lower.vocabulary.context import Context
from tilegen.model.statements import CStmt

Lowering = Callable[[Context, Stmt], list[CStmt]]

_LOWERINGS: dict[str, Lowering] = {}
_BUILT_IN = {
    "parallel": "tilegen.lower.elements.parallel:lower_parallel",
    "copy": "tilegen.lower.elements.parallel:lower_parallel",
    "copy.register_prefetch": "tilegen.lower.pipelines.accumulator_store:lower_copy",
    "fill": "tilegen.lower.elements.fill:lower_fill",
    "atomic_tile": "tilegen.lower.elements.parallel:lower_parallel",
    "atomic_element": "tilegen.lower.pipelines.control_flow:lower_single",
    "store": "tilegen.lower.pipelines.control_flow:lower_single",
    "let": "tilegen.lower.pipelines.control_flow:lower_let",
    "assign": "tilegen.lower.pipelines.control_flow:lower_assign",
    "if": "tilegen.lower.pipelines.control_flow:lower_if",
    "for": "tilegen.lower.pipelines.control_flow:lower_for",
    "persistent": "tilegen.lower.pipelines.tiles:lower_persistent",
    "sync": "tilegen.lower.pipelines.control_flow:lower_sync",
    "reduce": "tilegen.lower.reductions.reduce:lower_reduce",
    "gemm": "tilegen.lower.gemms.gemm:lower_gemm",
    "add_partials": "tilegen.lower.reductions.add_partials:lower_add_partials",
    "leave_parts": "tilegen.lower.reductions.block_sums:lower_leave_parts",
    "add_parts": "tilegen.lower.reductions.block_sums:lower_add_parts",
    "custom": "tilegen.lower.elements.custom:lower_custom",
    "for.pipelined.multistage": "tilegen.lower.pipelines.multistage:lower_pipelined",
    "for.pipelined.register_prefetch": "tilegen.lower.pipelines.register_prefetch:lower_pipelined",
}


def register(key: str, lowering: Lowering) -> None:
    """Makes `lowering` the one for statements of this key."""
    _LOWERINGS[key] = lowering


def key_of(context: Context, statement: Stmt) -> str:
    """The most particular key of a statement under the kernel's plan."""
    match statement:
        case ParallelFor():
            return "parallel"
        case Copy():
            return f"copy.{context.plan.kind}"
        case Fill():
            return "fill"
        case AtomicTile():
            return "atomic_tile"
        case AtomicElement():
            return "atomic_element"
        case Store():
            return "store"
        case Let():
            return "let"
        case Assign():
            return "assign"
        case If():
            return "if"
        case For():  # one whose tiles have a single stage each runs as it stands
            staged = statement in context.plan.stages
            return f"for.{statement.kind}.{context.plan.kind}" if staged else "for"
        case Persistent():
            return "persistent"
        case SyncThreads():
            return "sync"
        case Reduce():
            return "reduce"
        case Gemm():
            return f"gemm.{context.decisions.gemms[statement].family}"
        case AddPartials():
            return "add_partials"
        case LeaveParts():
            return "leave_parts"
        case AddParts():
            return "add_parts"
        case CustomOperation():
            return f"custom.{statement.operation}"
        case _:
            assert_never(statement)


def lowering_for(context: Context, statement: Stmt) -> Lowering:
    """The function that lowers a statement.

    Raises:
        ProgramError: when nothing does.
    """
    key = key_of(context, statement)
    while key:
        if key not in _LOWERINGS and key in _BUILT_IN:
            module, function = _BUILT_IN[key].split(":")
            _LOWERINGS[key] = getattr(import_module(module), function)
        if key in _LOWERINGS:
            return _LOWERINGS[key]
        key = key.rpartition(".")[0]
    raise ProgramError(
        statement.location,
        f"{type(statement).__name__} has no lowering under the plan '{context.plan.kind}' on {context.target.name}",
        remedy="register one with tilegen.register_operation",
    )


def lower_statements(context: Context, statements: Sequence[Stmt]) -> list[CStmt]:
    """The code of statements in order, with the barriers between them."""
    return [code for statement in statements for code in lower_statement(context, statement)]


def lower_statement(context: Context, statement: Stmt) -> list[CStmt]:
    """The barrier that a statement needs before it, its comment and its code. Loops and branches write their
    comment themselves. Of a fill nothing is left where a gemm ignores the old accumulators instead, or where the
    fragment's declaration has the value."""
    if isinstance(statement, Fill) and (statement in context.folded.fills or statement in context.initial):
        return []
    if isinstance(statement, Reduce) and context.plan.defers(statement):
        return []  # part of the statement that adds it to its total
    if context.plan.folds(statement):
        return _title(context, statement)  # part of the reduction
    deferred = context.plan.deferred_by(statement)
    if deferred is not None:
        from tilegen.lower.reductions.deferred_sums import lower_update

        return [
            *_title(context, statement),
            *barrier_before(context, statement),
            *lower_update(context, deferred),
        ]
    barrier = barrier_before(context, statement)
    title = _title(context, statement)
    out = [*barrier, *title] if isinstance(statement, For) else [*title, *barrier]
    lowering = lowering_for(context, statement)
    if isinstance(statement, For | If | Persistent):
        code = lowering(context, statement)
        return [*out, *code, *after_loop(context, statement)]
    comment = comments(context, statement)
    code = lowering(context, statement)
    return [*out, *comment, *code] if code else out


def comments(context: Context, statement: Stmt) -> list[CStmt]:
    """The comment above a statement's code; above a reduction's also that of what it does by the way."""
    folded = context.plan.folded_into(statement) if isinstance(statement, Reduce) else None
    first = context.comment(quoted(folded.elements)) if folded is not None else []
    own = context.comment(quoted(statement), _said(context, statement))
    return [*first, *(own[-1:] if first else own)]  # with no blank line between them


def _title(context: Context, statement: Stmt) -> list[CStmt]:
    """Consumers of a warp-specialised kernel and pipelined loops write it themselves."""
    own = isinstance(statement, For) and statement in context.plan.stages
    return [] if own or context.plan.kind == "warp_specialised" else context.title(statement)


def quoted(statement: Stmt) -> Location:
    """The source line that the comment above a statement's code quotes: of an element-wise loop what it computes."""
    match statement:
        case ParallelFor(body=(*_, Store() | AtomicElement() as last)) if last.location.line:
            return last.location
        case ParallelFor(body=(If(then=(*_, Store() as last), otherwise=()),)) if last.location.line:
            return last.location
        case If(then=(inner,)) if guards_mask(statement):
            return quoted(inner)
        case _:
            return statement.location


def _said(context: Context, statement: Stmt) -> str:
    """What the comment says of a statement that is not its source line's own."""
    if not isinstance(statement, AddPartials):
        return ""
    plain = "waves" if context.target.language == "hip" else "warps"
    who = "consumers" if context.plan.kind == "warp_specialised" else plain
    return f"the {who} add up the sums of their parts of k"


def guards_mask(branch: If) -> bool:
    """Whether the branch is a mask's, made by tilegen.schedule.guard_masks."""
    match branch:
        case If(_, (ParallelFor(location=inside),), (), location):
            return inside == location
        case _:
            return False


def remark(branch: If) -> str:
    """The comment behind a branch's condition."""
    if isinstance(branch.condition, Var) and branch.condition.role == "last":
        return "the last of them goes on"
    return "where the mask hides something" if guards_mask(branch) else ""


def after_loop(context: Context, statement: Stmt) -> list[CStmt]:
    """What a loop left for later: sums whose lanes meet only now."""
    if not any(deferred.loop is statement for deferred in context.plan.deferred):
        return []
    from tilegen.lower.reductions.deferred_sums import lower_deferred

    return lower_deferred(context, statement)
