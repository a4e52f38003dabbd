"""Scalars and control flow: named values, branches, sequential loops, single elements."""

from __future__ import annotations

from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.loops import as_loop
from tilegen.ir import build
from tilegen.ir.expressions import Var
from tilegen.ir.nodes import Assign, AtomicElement, For, If, Let, ParallelFor, Stmt, Store
from tilegen.lower.context import Context
from tilegen.lower.element_loop import lower_loop
from tilegen.lower.loops import loop_head
from tilegen.lower.scalar import dialect, scalar
from tilegen.lower.statements import lower_statements, quoted, remark
from tilegen.lower.uniform import uniform_load
from tilegen.lower.unrolled_loads import unrolled_loads
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
    """A branch that all threads take alike."""
    assert isinstance(branch, If)
    condition = scalar(context, branch.condition, uniform_load(context))
    comment = context.comment(quoted(branch))
    then = lower_statements(context, branch.then)
    otherwise = lower_statements(context, branch.otherwise)
    return [*comment, IfC(condition, tuple(then), tuple(otherwise), comment=remark(branch))]


def lower_for(context: Context, loop: Stmt) -> list[CStmt]:
    """A sequential loop, unrolled where the program says so."""
    assert isinstance(loop, For)
    head = loop_head(context, loop)
    step = scalar(context, loop.step)
    whole = loop.kind == "unroll" or loop.var.name in context.decisions.counters
    unroll = True if whole else unrolled_loads(context, loop)
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
    """A store or atomic update outside parallel loops: one thread makes it; an element of a fragment is written by the
    threads that hold it."""
    assert isinstance(statement, Store | AtomicElement)
    one = Var("%element", role="parallel")
    loop = as_loop(ParallelFor((one,), (build.const(1),), (statement,), statement.location))
    assert loop is not None
    threads = context.plan.computing
    everywhere = Fragment((1,), (Mode(threads, (0,)),), ((Mode(1, (0,)),),))
    return lower_loop(context, loop, everywhere)
