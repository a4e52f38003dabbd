"""Scalars and control flow: named values, branches, sequential loops, single elements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilegen.diagnostics import ProgramError
from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.loops import as_loop
from tilegen.ir import build
from tilegen.ir.effects import blocks_of
from tilegen.ir.expressions import Var
from tilegen.ir.nodes import Assign, AtomicElement, For, If, Let, ParallelFor, Stmt, Store
from tilegen.ir.walk import each_statement
from tilegen.lower.elements.loop import lower_loop
from tilegen.lower.pipelines.unrolled_loads import unrolling
from tilegen.lower.statements import lower_statements, quoted, remark
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.loops import loop_head
from tilegen.lower.vocabulary.scalar import dialect, scalar
from tilegen.lower.vocabulary.uniform import uniform_load
from tilegen.model import build as c
from tilegen.model.expressions import Name
from tilegen.model.statements import AssignC, CStmt, Declare, ForC, IfC


def lower_let(context: Context, let: Stmt) -> list[CStmt]:
    """`const int name = value;`"""
    assert isinstance(let, Let)
    if let.var.name in context.hoisted:
        return []
    value = scalar(context, let.value, uniform_load(context))
    context.environment.setdefault(let.var.name, Name(let.var.name))
    return [Declare(dialect(context).type_name(let.var.dtype), let.var.name, value, const=not let.mutable)]


def lower_assign(context: Context, assign: Stmt) -> list[CStmt]:
    assert isinstance(assign, Assign)
    return [AssignC(Name(assign.var.name), scalar(context, assign.value, uniform_load(context)))]


def lower_if(context: Context, branch: Stmt) -> list[CStmt]:
    """A branch that all threads take alike, unless it asks for the thread's index."""
    assert isinstance(branch, If)
    condition = scalar(context, branch.condition, uniform_load(context))
    comment = context.comment(quoted(branch))
    with divergence(context, branch, context.own.varies(branch.condition)):
        then = lower_statements(context, branch.then)
        otherwise = lower_statements(context, branch.otherwise)
    return [*comment, IfC(condition, tuple(then), tuple(otherwise), comment=remark(branch))]


def lower_for(context: Context, loop: Stmt) -> list[CStmt]:
    """A sequential loop, unrolled where the program says so."""
    assert isinstance(loop, For)
    head = loop_head(context, loop)
    step = scalar(context, loop.step)
    whole = loop.kind == "unroll" or loop.var.name in context.decisions.counters
    unroll = True if whole else unrolling(context, loop)
    with divergence(context, loop, context.own.varies(loop.start, loop.stop, loop.step)):
        body = lower_statements(context, loop.body)
    return [
        ForC(
            head.variable,
            head.start,
            head.stop,
            tuple(body),
            step=None if c.value_of(step) == 1 else step,
            unroll=unroll,
            comment=head.comment,
        )
    ]


def lower_sync(context: Context, statement: Stmt) -> list[CStmt]:
    """T.sync_threads()."""
    return [context.synchronise()]


def lower_single(context: Context, statement: Stmt) -> list[CStmt]:
    """A store or atomic update outside parallel loops: one thread makes it, or each thread its own."""
    assert isinstance(statement, Store | AtomicElement)
    threads = context.plan.computing
    each = _by_each_thread(context, statement)
    one = Var("%element", role="parallel")
    extent = build.const(threads if each else 1)
    loop = as_loop(ParallelFor((one,), (extent,), (statement,), statement.location))
    assert loop is not None
    modes = Mode(threads, (1 if each else 0,))
    return lower_loop(context, loop, Fragment((threads if each else 1,), (modes,), ((Mode(1, (0,)),),)))


def _by_each_thread(context: Context, statement: Store | AtomicElement) -> bool:
    """Whether threads differ in the element, in what they add to it, or in coming by at all."""
    differ = statement.indices if isinstance(statement, Store) else (*statement.indices, statement.value)
    return context.divergent or context.own.varies(*differ)


@contextmanager
def divergence(context: Context, around: If | For, splits: bool) -> Iterator[None]:
    """Lowers what stands in a branch or loop that threads may run differently, where it `splits` them.

    Raises:
        ProgramError: where they would have to meet inside.
    """
    outer = context.divergent
    context.divergent = outer or splits
    barriers = context.barriers
    if context.divergent and barriers is not None:
        for inner in (inner for block in blocks_of(around) for inner in each_statement(block)):
            if inner in barriers:
                raise ProgramError(
                    inner.location,
                    "threads have to meet before this, but not all of them come by",
                    remedy="call T.sync_threads() before the block, or end the block where they have to meet",
                    related=[(around.location, "T.get_thread_binding decides here")],
                )
    try:
        yield
    finally:
        context.divergent = outer
