"""A multistage loop around one warp-level gemm, rotated so that operands are always one step of k ahead.

The last step of a tile reads the first operands of the next one, so that the tensor cores do not wait at the tile's
border. An iteration has no branch that depends on more than its step of k: compilers move loads under products only
within a stretch of code without branches.
"""

from __future__ import annotations

from tilegen.ir.nodes import Copy, For, Gemm
from tilegen.lower.context import Context
from tilegen.lower.gemm_mma_sync import declare_operands, loads, multiply
from tilegen.lower.ldmatrix_lanes import STEP
from tilegen.lower.loops import LoopHead
from tilegen.lower.own_k import own_extent
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Lambda, Literal, Name, Ternary
from tilegen.model.statements import AssignC, Blank, Comment, CStmt, Declare, Expression, ForC, IfC


def rotated_loop(
    context: Context,
    loop: For,
    head: LoopHead,
    copies: tuple[Copy, ...],
    gemm: Gemm,
    parts: list[str],
    depth: CExpr,
) -> list[CStmt]:
    """The loop behind the ring's first fill; each of `parts` starts a part of the loads of an iteration into a stage,
    in a step of k of its own. The last step waits for the next tile: by then all parts are under way.

    The first step starts none where there are steps enough: compilers then find room for ldmatrix far ahead of its use.
    A ring of two stages starts as early as it can, since this iteration waits for what it starts.
    """
    decision = context.decisions.gemms[gemm]
    context.primitive("mma_sync", a="bf16" if gemm.a.buffer.dtype.name == "bfloat16" else "f16")
    steps = c.div(own_extent(context, gemm, decision), STEP)
    operands = context.name("load_operands")
    names = [copy.target.buffer.name for copy in copies]
    context.ring_stage.update(dict.fromkeys(names, Name("stage")))
    reads = loads(context, gemm, decision, Name("step"), Name("slot"))
    for name in names:
        context.ring_stage.pop(name)
    parameters = (("int", "slot"), ("int", "stage"), ("int", "step"))
    pending = c.expr(0) if context.plan.stages[loop] == 2 else c.sub(depth, 2)
    wait = Expression(c.call("cp_async_wait", template=(pending,)))
    ahead, kk = f"{head.variable}_ahead", Name("kk")
    freed = Ternary(c.operation(">", "stage", 0), c.sub("stage", 1), c.sub(depth, 1))
    start_loads: list[CStmt] = []
    idle = decision.steps - 1 - len(parts) if context.plan.stages[loop] > 2 else 0
    for number, load in enumerate(parts, start=min(idle, 1)):
        issue: list[CStmt] = [
            IfC(c.operation("<", ahead, head.stop), (Expression(c.call(load, "freed", ahead)),))
        ]
        issue += [Expression(c.call("cp_async_commit"))] if load == parts[-1] else []
        start_loads.append(IfC(c.operation("==", kk, number), tuple(issue)))
    # Without a branch, so that the loads of the border run under products like all others.
    following = Ternary(
        c.operation("<", c.add(head.variable, 1), head.stop), Name("next_stage"), Name("stage")
    )
    step: list[CStmt] = [
        IfC(
            c.operation("<", c.add(kk, 1), steps),
            (Expression(c.call(operands, c.mod(c.add(kk, 1), 2), "stage", c.add(kk, 1))),),
            (
                wait,
                context.synchronise("the next tile has landed"),
                Expression(c.call(operands, 0, following, 0)),
            ),
            comment="one step of 16 k ahead; at the end of the tile, in the next one, or in the last one again",
        ),
        *start_loads,
        *multiply(gemm, decision, kk, c.mod(kk, 2)),
    ]
    first = Expression(c.call(operands, 0, 0, 0))
    wrapped = Ternary(c.operation("<", c.add("stage", 1), depth), c.add("stage", 1), Literal(0))
    body: list[CStmt] = [
        Declare("int", "next_stage", wrapped, const=True),
        Declare("int", "freed", freed, const=True, comment="all threads have left the tile before this one"),
        Declare("int", ahead, c.add(head.variable, c.sub(depth, 1)), const=True),
        *context.comment(gemm.location),
        ForC("kk", Literal(0), steps, tuple(step), unroll=True),
        AssignC(Name("stage"), Name("next_stage")),
    ]
    return [
        *declare_operands(context, gemm, decision, (Literal(2),)),
        Comment("Reads the operands of one step of 16 k from a stage into a slot of registers"),
        Declare("auto", operands, Lambda(parameters, tuple(reads)), const=True),
        Blank(),
        wait,
        context.synchronise("the first tile has landed"),
        first if head.runs else IfC(head.condition, (first,)),
        Declare("int", "stage", Literal(0)),
        ForC(head.variable, head.start, head.stop, tuple(body), unroll=1, comment=head.comment),
    ]
