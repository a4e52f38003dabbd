"""Where the ring of a hand-over stands: by the number of its loop's iteration where that says it, else in a RingState
that moves on.

A loop that a kernel enters once fills buffer t % depth in iteration t; in a persistent kernel, t goes on counting from
tile to tile, and what is loaded once a tile counts tiles. The number says it where the loop is skewed, so that it
speaks of two iterations at once, and where the depth is a power of two, so that no division is left. In a plain loop
of gemms a state makes for shorter machine code; with the number ptxas may even put waits between the instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from tilegen.ir.expressions import Const
from tilegen.ir.nodes import For
from tilegen.lower.pipelines.tiles import reuses_tiles
from tilegen.lower.vocabulary.context import Context, constant_name
from tilegen.lower.vocabulary.loops import LoopHead
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Name
from tilegen.model.expressions import Literal as Number
from tilegen.model.statements import AssignC, CStmt, Declare, Expression
from tilegen.schedule.plan import HandOver
from tilegen.schedule.skew import find_skew

Part = Literal["stage", "phase"]
ROUND = "round"  # the number of the tile that a block of a persistent kernel is at
DONE = "done"  # the iterations of a loop in the tiles before


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
    if context.plan.next_tile is not None:
        return False  # the consumers are at two tiles at once
    loop, stages = hand_over.loop, hand_over.stages
    depths = {one.stages for one in context.plan.hand_overs if one.stages > 1}
    if loop is None:
        return _every_tile(context, hand_over) and bool(counted_loops(context)) and depths in ({stages}, {2})
    return (
        depths == {stages}
        and stages & (stages - 1) == 0
        and isinstance(loop.start, Const)
        and loop.start.value == 0
        and (entered_once(context, hand_over) or _every_tile(context, hand_over))
        and find_skew(loop, context.decisions, context.plan) is not None
    )


def _every_tile(context: Context, hand_over: HandOver) -> bool:
    """Whether a persistent kernel does in every tile what fills the hand-over."""
    filling = hand_over.copies if hand_over.loop is None else (hand_over.loop,)
    body = context.program.kernel.body
    return context.plan.persistent and all(any(one is statement for statement in body) for one in filling)


def counted_loops(context: Context) -> list[For]:
    """The loops of a persistent kernel whose iterations are counted from tile to tile."""
    loops: list[For] = []
    for hand_over in context.plan.hand_overs if context.plan.persistent else ():
        loop = hand_over.loop
        if loop is not None and counted(context, hand_over) and not any(loop is one for one in loops):
            loops.append(loop)
    return loops


def _done(context: Context, loop: For) -> str:
    """The name of a loop's count."""
    return DONE if len(counted_loops(context)) == 1 else f"{loop.var.name}_{DONE}"


def counters(context: Context) -> list[CStmt]:
    """Declares the counts of the tiles before, ahead of the first tile."""
    return [_count(context, loop, Number(0)) for loop in _summed_loops(context)]


def counts_at(context: Context) -> list[CStmt]:
    """Declares the counts that follow from the number of the tile, at its begin."""
    return [
        _count(context, loop, c.mul(ROUND, context.trips[loop.var.name]), const=True)
        for loop in counted_loops(context)
        if _same_in_every_tile(context, loop)
    ]


def count_on(context: Context) -> list[CStmt]:
    """Adds a tile's iterations, behind it."""
    return [
        AssignC(Name(_done(context, loop)), context.trips[loop.var.name], "+=")
        for loop in _summed_loops(context)
    ]


def counts_tiles(context: Context) -> bool:
    """Whether the number of a block's tile says where rings or barriers stand."""
    once = [h for h in context.plan.hand_overs if h.loop is None]
    numbered = any(counted(context, hand_over) for hand_over in once)
    return context.plan.draws_tiles or numbered or bool(counts_at(context))


def _count(context: Context, loop: For, value: CExpr, const: bool = False) -> CStmt:
    said = f"iterations of {loop.var.name} in tiles before"
    return Declare("int", _done(context, loop), value, const=const, comment=said)


def _summed_loops(context: Context) -> list[For]:
    """The counted loops of which each tile has its own number of iterations."""
    return [loop for loop in counted_loops(context) if not _same_in_every_tile(context, loop)]


def _same_in_every_tile(context: Context, loop: For) -> bool:
    trips = context.trips[loop.var.name]
    return isinstance(trips, Number) or (isinstance(trips, Name) and trips.name in context.constants)


def trip_count(context: Context, loop: For, head: LoopHead) -> tuple[list[CStmt], LoopHead]:
    """A name for a loop's bound, where that is more than a name or a number, and the head that uses it."""
    declared: list[CStmt] = []
    if not isinstance(head.stop, Name | Number):
        name = f"{head.variable.rstrip('_')}_tiles"
        declared.append(Declare("int", name, head.stop, const=True))
        head = replace(head, stop=Name(name))
    if any(loop is one for one in counted_loops(context)):
        context.trips[loop.var.name] = head.stop
    return declared, head


def stage_count(context: Context, hand_over: HandOver) -> CExpr:
    """The constant for a ring's depth: kStages where all rings are equally deep."""
    if hand_over.stages == 1:
        return Number(1)
    depths = {h.stages: None for h in context.plan.hand_overs if h.stages > 1}
    name = "kStages" if len(depths) == 1 else constant_name(hand_over.name) + "Stages"
    return context.constant(name, hand_over.stages)


def position(context: Context, hand_over: HandOver, part: Part) -> CExpr:
    """`stage_of(j)` in iteration j, or `ring.stage`; likewise the phase in which the stage is filled."""
    if not counted(context, hand_over):
        return c.member(hand_over.ring, part)
    if hand_over.loop is None:
        if hand_over.stages == 1:
            return c.mod(ROUND, 2) if part == "phase" else c.expr(0)
        context.helper("stage_of")
        return c.call(f"{part}_of", ROUND)
    iteration = context.iterations[hand_over.name]
    if context.plan.persistent:
        iteration = c.add(_done(context, hand_over.loop), iteration)
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


def outside_loops(context: Context) -> list[HandOver]:
    """The hand-overs whose rings stand somewhere without an iteration: those with a state, and what counts tiles."""
    return [h for h in context.plan.hand_overs if h.loop is None or not counted(context, h)]


def filled_by(context: Context, loop: For) -> list[HandOver]:
    """The hand-overs that a loop's iterations fill."""
    return [hand_over for hand_over in context.plan.hand_overs if hand_over.loop is loop]
