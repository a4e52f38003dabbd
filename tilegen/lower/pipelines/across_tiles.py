"""The consumers' walk over drawn tiles of which the next one begins while this one ends: its first gemm is issued
behind the last gemm of this tile, and multiplies during the epilogue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilegen.ir.nodes import For, Kernel, Stmt
from tilegen.lower.pipelines import rings
from tilegen.lower.pipelines.skewed_loop import SkewedLoop, declare_lambda
from tilegen.lower.pipelines.tile_draw import take_next
from tilegen.lower.pipelines.tiles import TileLoop
from tilegen.lower.statements import after_loop
from tilegen.lower.vocabulary.loops import loop_head
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import (
    Blank,
    Break,
    Comment,
    CStmt,
    Declare,
    Expression,
    ForC,
    IfC,
)
from tilegen.schedule.analysis import reads, writes
from tilegen.schedule.plan import HandOver, NextTile
from tilegen.schedule.skew import find_skew

if TYPE_CHECKING:
    from tilegen.lower.pipelines.consumers import Consumers

_ALWAYS: CExpr = Literal(True, "bool")
Declarations = Callable[[Callable[[str], bool]], list[CStmt]]


def lower_across(
    consumers: Consumers, kernel: Kernel, tiles: TileLoop, found: NextTile, declare: Declarations
) -> list[CStmt]:
    """The walk. `declare` gives the declarations of the fragments whose names a predicate chooses."""
    context, loop = consumers.context, found.loop
    skew = find_skew(loop, context.decisions, context.plan)
    assert skew is not None
    early = dict.fromkeys([skew.first.c.buffer.name, *_written(found)])
    at = next(position for position, statement in enumerate(kernel.body) if statement is loop)
    others = tuple(s for s in kernel.body[:at] if not any(s is one for one in found.begin))

    rings.enter(context, rings.outside_loops(context), Literal(0))
    begin_code = consumers.block(found.begin)
    kept = _kept(consumers, found)
    head_of_tile = consumers.block(others)
    bound, head = rings.trip_count(context, loop, loop_head(context, loop))
    pieces = SkewedLoop.of(consumers, loop, head, skew)
    ahead, begin = _begin(pieces, kept, begin_code)
    lambdas: list[CStmt] = []
    pieces.declare_others(lambdas)
    work = _work(pieces, kept)
    finish = _finish(pieces, loop, kernel.body[at + 1 :], lambdas)
    ends = _ends(pieces, kernel, tiles, begin, finish)
    inside = [
        *tiles.coordinates(context, Name("tile")),
        Blank(),
        *declare(lambda name: name not in early),
        Blank(),
        *head_of_tile,
        *bound,
        *lambdas,
        Blank(),
        *work,
        *take_next(context),
        *ends,
    ]
    first = [
        Comment(f"The first {skew.first.c.buffer.name} of the first tile"),
        Declare("int", "tile", c.expr("blockIdx.x")),
        *pieces.in_turn([begin]),
        Blank(),
    ]
    walk = ForC(rings.ROUND, Literal(0), _ALWAYS, tuple(inside), condition=_ALWAYS)
    return [*declare(lambda name: name in early), *ahead, Blank(), *first, walk]


def _begin(pieces: SkewedLoop, kept: list[HandOver], code: list[CStmt]) -> tuple[list[CStmt], CStmt]:
    """The declaration of what begins a tile, and its call: `code`, and the first gemm."""
    consumers = pieces.consumers
    declarations: list[CStmt] = []
    pieces.declare_first(declarations)
    name = consumers.context.name("begin_tile")
    start = [*(consumers.wait(hand_over, "full") for hand_over in kept), *code]
    start += pieces.issue_first(pieces.head.start)
    return [*declarations, Blank(), declare_lambda(name, start)], Expression(c.call(name))


def _work(pieces: SkewedLoop, kept: list[HandOver]) -> list[CStmt]:
    """The tile's loop, up to its last second gemm."""
    first = pieces.skew.first.c.buffer.name
    return [
        Comment(f"First iteration: its {first} is under way since the end of the tile before"),
        *pieces.first_work(),
        Blank(),
        *pieces.main(),
        *(code for hand_over in kept for code in pieces.consumers.release(hand_over)),
    ]


def _finish(pieces: SkewedLoop, loop: For, epilogue: tuple[Stmt, ...], out: list[CStmt]) -> CStmt:
    """Declares what ends a tile behind its last gemm, and gives its call."""
    consumers = pieces.consumers
    context = consumers.context
    rings.enter(context, pieces.second_tiles, pieces.last)
    name = context.name("finish")
    ending = [code for hand_over in pieces.second_tiles for code in consumers.release(hand_over)]
    ending += [*after_loop(context, loop), *consumers.block(epilogue)]
    out += [Blank(), declare_lambda(name, ending)]
    return Expression(c.call(name))


def _ends(pieces: SkewedLoop, kernel: Kernel, tiles: TileLoop, begin: CStmt, finish: CStmt) -> list[CStmt]:
    """The last second gemm of a tile: alone behind the last tile, else beside the first gemm of the next one."""
    first, second = pieces.skew.first.c.buffer.name, pieces.skew.second.c.buffer.name
    last = pieces.last
    alone = (*pieces.issue_second(last), *pieces.settled(0, [], last), finish, Break())
    beside = [
        Comment(f"The last {second} of this tile, and the first {first} of the next one"),
        *pieces.in_turn([*pieces.issue_second(last), begin]),
        *pieces.settled(1, [], last, f"{second} is there"),
        finish,
        *pieces.consumers.hazards.end_of_iteration(({}, {}), kernel.body),
    ]
    apart = "apart, as ptxas wants the same wgmma under way on all paths"
    return [IfC(c.operation(">=", "tile", tiles.count), alone, comment=apart), Blank(), *beside]


def _written(found: NextTile) -> list[str]:
    return [buffer.name for statement in found.begin for buffer in writes(statement)]


def _kept(consumers: Consumers, found: NextTile) -> list[HandOver]:
    """What is loaded once a tile and read by the first gemm all along: let go behind the loop."""
    plan = consumers.context.plan
    copied = [b.name for s in found.begin if plan.hand_over_of(s) is None for b in reads(s)]  # type: ignore[arg-type]
    return [
        hand_over
        for hand_over in plan.hand_overs
        if hand_over.loop is None
        and any(any(copy is s for s in found.begin) for copy in hand_over.copies)
        and not any(name in copied for name in hand_over.buffers)
    ]
