"""A pipelined loop as a ring of cp.async stages.

Copies of an iteration run `stages - 1` iterations ahead, as one commit group each; an empty group stands for an
iteration beyond the end, so that the count of groups in flight stays the same.
"""

from __future__ import annotations

from tilegen.ir.build import add
from tilegen.ir.expressions import Const, Expr, Var
from tilegen.ir.nodes import Copy, For, Gemm
from tilegen.ir.types import int32
from tilegen.lower.context import Context
from tilegen.lower.copy_async import lower_async_copy
from tilegen.lower.loops import LoopHead, loop_head
from tilegen.lower.statements import lower_statements
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import Blank, CStmt, Comment, Declare, Expression, ForC, IfC
from tilegen.schedule.plan_multistage import staged_copies


def lower_pipelined(context: Context, loop: For) -> list[CStmt]:
    """Prologue, loop and epilogue of a multistage pipeline."""
    stages = context.plan.stages[loop]
    copies = staged_copies(context.program.kernel, loop, context.decisions)
    depth = context.constant("kStages", stages) if _uniform(context) else context.constant(f"kStages{loop.var.name}", stages)
    for name in ("cp_async_commit", "cp_async_wait"):
        context.primitive(name)
    head = loop_head(context, loop)
    buffers = tuple(copy.target.buffer.name for copy in copies)
    context.ring_depths.update(dict.fromkeys(buffers, stages))
    ahead = c.sub(depth, 1)
    context.pipeline_notes.append(
        f"{loop.var.name}: {stages} stages, cp.async runs {stages - 1} iterations ahead; one barrier an iteration"
    )
    out: list[CStmt] = [Blank(), Comment(f"Fill the ring: the first {stages - 1} iterations of {loop.var.name}")]
    out.append(_fill(context, loop, head, copies, ahead))
    out += [Blank(), _main(context, loop, head, copies, depth, ahead)]
    out.append(Expression(c.call("cp_async_wait", template=(0,))))
    return out


def _uniform(context: Context) -> bool:
    return len({stages for _, stages in context.plan.stages.items()}) == 1


def _issue(
    context: Context, copies: tuple[Copy, ...], loop: For, iteration: Expr, stage: CExpr, inside: CExpr | None
) -> list[CStmt]:
    """The copies of one iteration and their commit."""
    body: list[CStmt] = []
    for copy in copies:
        context.ring_stage[copy.target.buffer.name] = stage
        body += lower_async_copy(context, copy, loop.var, iteration)
    commit = Expression(c.call("cp_async_commit"))
    if inside is None:
        return [*body, commit]
    return [IfC(inside, tuple(body)), commit]


def _fill(context: Context, loop: For, head: LoopHead, copies: tuple[Copy, ...], ahead: CExpr) -> CStmt:
    inside = None if head.runs and _covers(loop, context.plan.stages[loop] - 1) else c.operation("<", _first(head, "stage"), head.stop)
    context.environment["stage"] = Name("stage")
    context.ranges["stage"] = (0, None)
    stage_index = _iteration(loop, "stage")
    body = _issue(context, copies, loop, stage_index, Name("stage"), inside)
    return ForC("stage", Literal(0), ahead, tuple(body))


def _covers(loop: For, iterations: int) -> bool:
    return (
        isinstance(loop.start, Const)
        and isinstance(loop.stop, Const)
        and int(loop.stop.value) - int(loop.start.value) >= iterations
    )


def _first(head: LoopHead, offset: str) -> CExpr:
    return c.add(head.start, offset)


def _iteration(loop: For, name: str) -> Expr:
    return add(loop.start, Var(name, int32, "loop"))


def _main(
    context: Context, loop: For, head: LoopHead, copies: tuple[Copy, ...], depth: CExpr, ahead: CExpr
) -> CStmt:
    variable = Name(head.variable)
    position = c.sub(variable, head.start)
    next_name = f"next_{head.variable}"
    body: list[CStmt] = [
        Expression(c.call("cp_async_wait", template=(c.sub(depth, 2) if context.plan.stages[loop] != 2 else c.expr(0),))),
    ]
    if _wgmma(context, loop):
        context.primitive("fence_proxy_async")
        body.append(Expression(c.call("fence_proxy_async")))
    body += [
        context.synchronise(),
        Comment("the tile has landed, and all threads have left the one before it"),
        Declare("int", next_name, c.add(variable, ahead), const=True),
    ]
    context.environment[next_name] = Name(next_name)
    following = Var(next_name, int32, "loop")
    context.ranges[next_name] = (0, None)
    next_stage = c.mod(c.sub(next_name, head.start), depth)
    inside = c.operation("<", next_name, head.stop)
    body += _issue(context, copies, loop, following, next_stage, inside)
    stage = context.name("stage")
    body += [Blank(), Declare("int", stage, c.mod(position, depth), const=True)]
    for copy in copies:
        context.ring_stage[copy.target.buffer.name] = Name(stage)
    rest = tuple(statement for statement in loop.body if not any(statement is copy for copy in copies))
    body += lower_statements(context, rest)
    for copy in copies:
        context.ring_stage.pop(copy.target.buffer.name, None)
    context.taken.pop(stage, None)
    return ForC(head.variable, head.start, head.stop, tuple(body), comment=head.comment)


def _wgmma(context: Context, loop: For) -> bool:
    return any(
        isinstance(s, Gemm) and context.decisions.gemms[s].family == "wgmma" for s in loop.body
    )
