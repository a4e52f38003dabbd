"""Running sums whose lanes meet behind their loop: each lane adds what it has to the total at once."""

from __future__ import annotations

from dataclasses import replace

from tilegen.inference.loops import as_loop
from tilegen.inference.propagate import reduced
from tilegen.inference.reduction import reduction_steps
from tilegen.ir import build
from tilegen.ir.expressions import Load
from tilegen.ir.nodes import Stmt, Store
from tilegen.lower.elements.loop import lower_loop
from tilegen.lower.reductions.reduce import Reduction, in_thread, in_warp
from tilegen.lower.statements import comments, quoted
from tilegen.lower.vocabulary.context import Context
from tilegen.model.statements import Blank, Comment, CStmt
from tilegen.schedule.defer_sums import DeferredSum


def lower_deferred(context: Context, loop: Stmt) -> list[CStmt]:
    """Behind a loop: the lanes add up the sums that they kept in parts."""
    out: list[CStmt] = []
    for deferred in context.plan.deferred:
        if deferred.loop is not loop:
            continue
        line = context.reference(deferred.reduction.location)
        remark = Comment(f"{line}: the lanes of a row add up the sums that each has kept")
        out += [Blank(), remark, *in_warp(_into_total(context, deferred))]
    return out


def lower_update(context: Context, deferred: DeferredSum) -> list[CStmt]:
    """In the loop: the total's factor, and what each lane adds to the total."""
    update, node = deferred.update, deferred.reduction
    out: list[CStmt] = []
    if deferred.factor is not None:
        store = update.body[0]
        assert isinstance(store, Store)
        scaled = build.binary("*", Load(store.buffer, store.indices), deferred.factor)
        loop = as_loop(replace(update, body=(replace(store, value=scaled),)))
        assert loop is not None
        out += context.comment(quoted(update))
        out += lower_loop(context, loop, context.decisions.loops[update])
    out += comments(context, node)
    out += context.comment(quoted(update))[-1:] if deferred.factor is None else []
    return [*out, *in_thread(_into_total(context, deferred))]


def _into_total(context: Context, deferred: DeferredSum) -> Reduction:
    """The reduction with its results in the total."""
    node, store = deferred.reduction, deferred.update.body[0]
    assert isinstance(store, Store)
    source = context.decisions.fragment(node.source.buffer)
    steps = reduction_steps(source, node, context.target)
    return Reduction(context, node, source, reduced(source, node), steps, store.buffer)
