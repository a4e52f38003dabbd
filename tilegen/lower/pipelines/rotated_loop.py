"""A multistage loop around one warp-level gemm, rotated so that operands are always one step of k ahead.

The last step of a tile reads the first operands of the next one, so that the tensor cores do not wait at the tile's
border. An iteration has no branch that depends on more than its step of k: compilers move loads under products only
within a stretch of code without branches.
"""

from __future__ import annotations

from tilegen.inference.gemm_mma_sync import DEPTH
from tilegen.ir.nodes import Copy, For, Gemm
from tilegen.lower.gemms.mma_sync import declare_operands, loads, multiply, note_primitive
from tilegen.lower.gemms.own_k import own_extent
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.loops import LoopHead
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
    note_primitive(context, gemm)
    steps = c.div(own_extent(context, gemm, decision), DEPTH)
    operands = context.name("load_operands")
    context.ring_stage.update(dict.fromkeys((copy.target.buffer.name for copy in copies), Name("stage")))
    reads = loads(context, gemm, decision, Name("step"), Name("slot"))
    for copy in copies:
        context.ring_stage.pop(copy.target.buffer.name)
    pending = c.expr(0) if context.plan.stages[loop] == 2 else c.sub(depth, 2)
    wait = Expression(c.call("cp_async_wait", template=(pending,)))
    # The first step starts no loads where there are steps enough.
    idle = decision.steps - 1 - len(parts) if context.plan.stages[loop] > 2 else 0
    kk = Name("kk")
    step: list[CStmt] = [
        _read_ahead(operands, steps, (wait, context.synchronise("the next tile has landed")), head),
        *_start_loads(parts, min(idle, 1), head),
        *multiply(gemm, decision, kk, c.mod(kk, 2)),
    ]
    comments = context.comment(gemm.location)
    body = _iteration(head, depth, [*comments, ForC("kk", Literal(0), steps, tuple(step), unroll=True)])
    first = Expression(c.call(operands, 0, 0, 0))
    parameters = (("int", "slot"), ("int", "stage"), ("int", "step"))
    return [
        *declare_operands(context, gemm, decision, (Literal(2),)),
        Comment("Reads the operands of one step of 16 k from a stage into a slot of registers"),
        Declare("auto", operands, Lambda(parameters, tuple(reads)), const=True),
        Blank(),
        wait,
        context.synchronise("the first tile has landed"),
        first if head.runs else IfC(head.condition, (first,)),
        Declare("int", "stage", Literal(0)),
        ForC(head.variable, head.start, head.stop, body, unroll=1, comment=head.comment),
    ]


def _read_ahead(operands: str, steps: CExpr, landed: tuple[CStmt, ...], head: LoopHead) -> CStmt:
    """The operands of the next step. At the border of a tile they are read without a branch, so that those loads run
    under products like all others."""
    ahead = c.add("kk", 1)
    more = c.operation("<", c.add(head.variable, 1), head.stop)
    following = Ternary(more, Name("next_stage"), Name("stage"))
    return IfC(
        c.operation("<", ahead, steps),
        (Expression(c.call(operands, c.mod(ahead, 2), "stage", ahead)),),
        (*landed, Expression(c.call(operands, 0, following, 0))),
        comment="one step of 16 k ahead; at the end of the tile, in the next one, or in the last one again",
    )


def _start_loads(parts: list[str], first: int, head: LoopHead) -> list[CStmt]:
    """The parts of an iteration's loads, each in a step of its own from the `first` one on."""
    started: list[CStmt] = []
    for number, load in enumerate(parts, start=first):
        inside, here = c.operation("<", _ahead(head), head.stop), c.operation("==", "kk", number)
        issue = Expression(c.call(load, "freed", _ahead(head)))
        if load == parts[-1]:
            commit = Expression(c.call("cp_async_commit"))
            started.append(IfC(here, (IfC(inside, (issue,)), commit)))
        else:
            started.append(IfC(c.operation("&&", here, inside), (issue,)))
    return started


def _iteration(head: LoopHead, depth: CExpr, work: list[CStmt]) -> tuple[CStmt, ...]:
    """An iteration: what its stages are, and the work of one tile."""
    wrapped = Ternary(c.operation("<", c.add("stage", 1), depth), c.add("stage", 1), Literal(0))
    freed = Ternary(c.operation(">", "stage", 0), c.sub("stage", 1), c.sub(depth, 1))
    return (
        Declare("int", "next_stage", wrapped, const=True),
        Declare("int", "freed", freed, const=True, comment="all threads have left the tile before this one"),
        Declare("int", _ahead(head), c.add(head.variable, c.sub(depth, 1)), const=True),
        *work,
        AssignC(Name("stage"), Name("next_stage")),
    )


def _ahead(head: LoopHead) -> str:
    """The iteration whose tile is loaded in this one."""
    return f"{head.variable}_ahead"
