"""A pipelined loop as a ring of cp.async stages.

Copies of an iteration run `stages - 1` iterations ahead, as one commit group each; an empty group stands for an
iteration beyond the end, so that the count of groups in flight stays the same: only those are left behind the loop.
"""

from __future__ import annotations

from itertools import pairwise

from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Copy, For, Gemm
from tilegen.lower.copies.copy_async import lower_async_copy
from tilegen.lower.gemms.mma_sync import slots
from tilegen.lower.pipelines.rotated_loop import rotated_loop
from tilegen.lower.statements import lower_statements
from tilegen.lower.synchronisation.barriers import fences_proxy
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.loops import LoopHead, loop_head
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Lambda, Literal, Name
from tilegen.model.statements import Blank, Comment, CStmt, Declare, Expression, ForC, IfC, Scope
from tilegen.schedule.plan_multistage import staged_copies


def lower_pipelined(context: Context, loop: For) -> list[CStmt]:
    """The ring's first fill and the loop."""
    stages = context.plan.stages[loop]
    copies = staged_copies(context.program.kernel, loop, context.decisions)
    uniform = len({depth for _, depth in context.plan.stages.items()}) == 1
    depth = context.constant("kStages" if uniform else f"kStages{loop.var.name.rstrip('_')}", stages)
    for name in ("cp_async_commit", "cp_async_wait"):
        context.primitive(name)
    head = loop_head(context, loop)
    context.ring_depths.update({copy.target.buffer.name: stages for copy in copies})
    ahead = "1 iteration" if stages == 2 else f"{stages - 1} iterations"
    context.pipeline_notes.append(
        f"loop {loop.var.name}: {stages} stages, loads by cp.async {ahead} ahead; one barrier an iteration"
    )
    gemm = _only_gemm(context, loop, copies) if slots(context) == 2 else None
    parts = [copies] if gemm is None else spread(copies, context.decisions.gemms[gemm].steps - 1)
    names = [context.name("load_tiles")] if len(parts) == 1 else _names(context, parts)
    loads = _loads(context, loop, parts, names)
    if gemm is not None:
        main = rotated_loop(context, loop, head, copies, gemm, names, depth)
    else:
        main = [_main(context, loop, head, copies, names[0], depth)]
    running = [*main[:-1], *context.title(loop), main[-1]]
    if gemm is not None and len(context.decisions.gemms) > 1:
        running = [Scope(tuple(running))]  # operand registers are named alike in every gemm
    return [
        Blank(),
        *loads,
        Blank(),
        Comment("Prologue: the first stages" if stages > 2 else "Prologue: the first stage"),
        _fill(loop, head, names, depth, stages),
        Blank(),
        *running,
    ]


def _only_gemm(context: Context, loop: For, copies: tuple[Copy, ...]) -> Gemm | None:
    """The gemm that is all a loop does besides its loads, where its operands alternate between two register slots."""
    rest = [s for s in loop.body if not any(s is copy for copy in copies)]
    if len(rest) != 1 or not isinstance(rest[0], Gemm):
        return None
    decision = context.decisions.gemms[rest[0]]
    staged = {copy.target.buffer.name for copy in copies}
    operands = {rest[0].a.buffer.name, rest[0].b.buffer.name}
    if decision.family != "mma_sync" or decision.steps % 2 or not operands <= staged or rest[0].clear:
        return None
    return rest[0]


def spread(copies: tuple[Copy, ...], steps: int) -> list[tuple[Copy, ...]]:
    """The copies in at most so many parts, in order: each starts in a step of k of its own, so that no step has to
    issue all loads of an iteration beside its ldmatrix."""
    parts = max(1, min(steps, len(copies)))
    bounds = [len(copies) * part // parts for part in range(parts + 1)]
    return [copies[start:stop] for start, stop in pairwise(bounds)]


def _names(context: Context, parts: list[tuple[Copy, ...]]) -> list[str]:
    """`load_A_shared`, for each part."""
    return [context.name("_".join(("load", *(copy.target.buffer.name for copy in part)))) for part in parts]


def _loads(context: Context, loop: For, parts: list[tuple[Copy, ...]], names: list[str]) -> list[CStmt]:
    """Where the threads' chunks lie, and `const auto load_tiles = [&](int stage, int k) { … };` for each part."""
    places: list[CStmt] = []
    lambdas: list[CStmt] = []
    parameters = (("int", "stage"), ("int", loop.var.name))
    for part, name in zip(parts, names, strict=True):
        body: list[CStmt] = []
        for copy in part:
            context.ring_stage[copy.target.buffer.name] = Name("stage")
            code = lower_async_copy(context, copy, loop.var.name)
            context.ring_stage.pop(copy.target.buffer.name)
            places += code.declarations
            body += code.body
        lambdas.append(Declare("auto", name, Lambda(parameters, tuple(body)), const=True))
    verb = "Starts" if len(parts) == 1 else "Start"
    return [
        *places,
        Comment(f"{verb} the loads of iteration {loop.var.name} into a stage of the ring"),
        *lambdas,
    ]


def _fill(loop: For, head: LoopHead, loads: list[str], depth: CExpr, stages: int) -> CStmt:
    """The loads of the first iterations."""
    first = c.add(head.start, "stage")
    issue: list[CStmt] = [Expression(c.call(load, "stage", first)) for load in loads]
    if not _covers(loop, stages - 1):
        issue = [IfC(c.operation("<", first, head.stop), tuple(issue))]
    commit = Expression(c.call("cp_async_commit"))
    return ForC("stage", Literal(0), c.sub(depth, 1), (*issue, commit))


def _covers(loop: For, iterations: int) -> bool:
    return (
        isinstance(loop.start, Const)
        and isinstance(loop.stop, Const)
        and int(loop.stop.value) - int(loop.start.value) >= iterations
    )


def _main(
    context: Context, loop: For, head: LoopHead, copies: tuple[Copy, ...], load: str, depth: CExpr
) -> CStmt:
    stages = context.plan.stages[loop]
    pending = c.expr(0) if stages == 2 else c.sub(depth, 2)
    body: list[CStmt] = [Expression(c.call("cp_async_wait", template=(pending,)))]
    if fences_proxy(loop, context.decisions):
        context.primitive("fence_proxy_async")
        body.append(Expression(c.call("fence_proxy_async")))
    ahead = f"{head.variable}_ahead"
    iteration = c.sub(head.variable, head.start)
    issue = Expression(c.call(load, c.mod(c.sub(ahead, head.start), depth), ahead))
    body += [
        context.synchronise(),
        Comment(
            "The tile has landed, and all threads have left the one before it: its stage takes the next load"
        ),
        Declare("int", ahead, c.add(head.variable, c.sub(depth, 1)), const=True),
        IfC(c.operation("<", ahead, head.stop), (issue,)),
        Expression(c.call("cp_async_commit")),
        Blank(),
        Declare("int", "stage", c.mod(iteration, depth), const=True),
    ]
    names = [copy.target.buffer.name for copy in copies]
    context.ring_stage.update(dict.fromkeys(names, Name("stage")))
    rest = tuple(s for s in loop.body if not any(s is copy for copy in copies))
    body += lower_statements(context, rest)
    for name in names:
        context.ring_stage.pop(name)
    return ForC(head.variable, head.start, head.stop, tuple(body), unroll=1, comment=head.comment)
