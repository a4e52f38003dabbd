"""Tiles drawn from a counter in global memory, by the blocks of a persistent kernel whose tiles differ in work.

The producer draws the block's next tile before it issues the loads of this one, and hands its number to the consumers
behind them, through shared memory: a full barrier tells that it is there, an empty one that every consumer thread has
read it.
"""

from __future__ import annotations

from tilegen.ir.types import int32
from tilegen.lower.pipelines import rings
from tilegen.lower.vocabulary.context import Context
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.kernel import SharedMember, TensorArgument
from tilegen.model.statements import AssignC, Blank, Comment, CStmt, Declare, Expression

COUNTER = "tile_counter"
_NUMBER, _FULL, _EMPTY = "next_tile", "tile_full", "tile_empty"
_DRAWN = "drawn"
DRAW_MEMBERS = (_NUMBER, _FULL, _EMPTY)
NAMES = (COUNTER, *DRAW_MEMBERS, _DRAWN)


def draw_members(context: Context) -> list[SharedMember]:
    """The number of the next tile and its barriers, in SharedStorage."""
    if not context.plan.draws_tiles:
        return []
    barriers = [SharedMember("u64", name, (), 8, 8) for name in (_FULL, _EMPTY)]
    return [*barriers, SharedMember("int", _NUMBER, (), 4, 4, "of this block, drawn by the producer")]


def draw_barriers(context: Context) -> list[CStmt]:
    """What makes the barriers ready."""
    if not context.plan.draws_tiles:
        return []
    consumers = context.constant("kConsumers", context.plan.consumers)
    readers = c.operation("*", consumers, context.warpgroup())
    return [
        Expression(c.call("mbarrier_init", c.member("shared", _FULL), 1)),
        Expression(c.call("mbarrier_init", c.member("shared", _EMPTY), readers)),
    ]


def draw(context: Context) -> list[CStmt]:
    """The producer's draw, ahead of a tile's loads: its answer comes while they are issued."""
    if not context.plan.draws_tiles:
        return []
    context.scratch[COUNTER] = TensorArgument(
        COUNTER, int32, (Literal(1),), None, "scratch", int32.bytes, zeroed=True
    )
    drawn = c.operation("+", "gridDim.x", c.call("atomicAdd", COUNTER, 1))
    return [
        Comment("The next tile that no block has; the first ones went by the block's index"),
        Declare("int", _DRAWN, drawn, const=True),
    ]


def hand_on(context: Context) -> list[CStmt]:
    """What the producer does with it, behind the loads."""
    for name in ("mbarrier_wait", "mbarrier_arrive"):
        context.primitive(name)
    return [
        Blank(),
        Comment("Tells the consumers which tile is next"),
        AssignC(Name("tile"), Name(_DRAWN)),
        _wait(_EMPTY, c.operation("^", _phase(), 1)),
        AssignC(c.member("shared", _NUMBER), Name("tile")),
        Expression(c.call("mbarrier_arrive", c.member("shared", _FULL))),
    ]


def take_next(context: Context) -> list[CStmt]:
    """The consumers' part, behind their tile."""
    for name in ("mbarrier_wait", "mbarrier_arrive"):
        context.primitive(name)
    return [
        Blank(),
        Comment("The next tile, as the producer drew it"),
        _wait(_FULL, _phase()),
        AssignC(Name("tile"), c.member("shared", _NUMBER)),
        Expression(c.call("mbarrier_arrive", c.member("shared", _EMPTY))),
    ]


def _wait(barrier: str, phase: CExpr) -> CStmt:
    return Expression(c.call("mbarrier_wait", c.member("shared", barrier), phase))


def _phase() -> CExpr:
    return c.mod(rings.ROUND, 2)
