"""Where the ring of a hand-over stands: by the number of its loop's iteration where that says it, else in a RingState
that moves on.

A loop that a kernel enters once fills buffer t % depth in iteration t. The number says it where the loop is skewed, so
that it speaks of two iterations at once, and where the depth is a power of two, so that no division is left. In a plain
loop of gemms a state makes for shorter machine code; with the number ptxas may even put waits between the instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tilegen.ir.expressions import Const
from tilegen.ir.nodes import For
from tilegen.lower.context import Context
from tilegen.lower.tiles import reuses_tiles
from tilegen.model import build as c
from tilegen.model.expressions import CExpr
from tilegen.model.statements import CStmt, Expression
from tilegen.schedule.plan import HandOver
from tilegen.schedule.skew import find_skew

Part = Literal["stage", "phase"]


def entered_once(context: Context, hand_over: HandOver) -> bool:
    """Whether one loop that runs once fills the hand-over: behind it nobody waits for a free stage."""
    loop = hand_over.loop
    body = context.program.kernel.body
    return loop is not None and not reuses_tiles(context) and any(statement is loop for statement in body)


def counted(context: Context, hand_over: HandOver) -> bool:
    """Whether stage and phase follow from the number of the iteration."""
    if hand_over.name not in context.counted:
        context.counted[hand_over.name] = _counts(context, hand_over)
    return context.counted[hand_over.name]


def _counts(context: Context, hand_over: HandOver) -> bool:
    loop, stages = hand_over.loop, hand_over.stages
    depths = {one.stages for one in context.plan.hand_overs if one.stages > 1}
    return (
        loop is not None
        and depths == {stages}
        and stages & (stages - 1) == 0
        and isinstance(loop.start, Const)
        and loop.start.value == 0
        and entered_once(context, hand_over)
        and find_skew(loop, context.decisions, context.plan) is not None
    )


def position(context: Context, hand_over: HandOver, part: Part) -> CExpr:
    """`stage_of(j)` in iteration j, or `ring.stage`; likewise the phase in which the stage is filled."""
    if not counted(context, hand_over):
        return c.member(hand_over.ring, part)
    iteration = context.iterations[hand_over.name]
    number = c.value_of(iteration)
    if number is not None:
        turn, stage = divmod(number, hand_over.stages)
        return c.expr(stage if part == "stage" else turn % 2)
    context.helper("stage_of")
    return c.call(f"{part}_of", iteration)


def enter(context: Context, hand_overs: Iterable[HandOver], iteration: CExpr) -> None:
    """What follows is the code of this iteration: the rings' tiles are those that it takes."""
    for hand_over in hand_overs:
        context.iterations[hand_over.name] = iteration
        if hand_over.stages > 1:
            stage = position(context, hand_over, "stage")
            context.ring_stage.update(dict.fromkeys(hand_over.buffers, stage))


def advance(context: Context, hand_over: HandOver) -> list[CStmt]:
    """Moves the ring on, where its state is kept."""
    if counted(context, hand_over):
        return []
    return [Expression(c.call(c.member(hand_over.ring, "advance")))]


def moved_on(context: Context) -> list[HandOver]:
    """The hand-overs whose rings have a state."""
    return [hand_over for hand_over in context.plan.hand_overs if not counted(context, hand_over)]


def filled_by(context: Context, loop: For) -> list[HandOver]:
    """The hand-overs that a loop's iterations fill."""
    return [hand_over for hand_over in context.plan.hand_overs if hand_over.loop is loop]
