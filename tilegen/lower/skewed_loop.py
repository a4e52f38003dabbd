"""A skewed loop of the consumers: first iteration, main loop, last gemm; each piece of work is one lambda."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilegen.ir.nodes import For, Gemm, Stmt
from tilegen.lower.context import Context
from tilegen.lower.loops import LoopHead
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Lambda, Name
from tilegen.model.statements import Blank, Comment, CStmt, Declare, Expression, ForC, IfC
from tilegen.model.walk import names
from tilegen.schedule.analysis import reads
from tilegen.schedule.plan import HandOver
from tilegen.schedule.skew import Skew

if TYPE_CHECKING:
    from tilegen.lower.consumers import Consumers


def lower_skewed(consumers: Consumers, loop: For, head: LoopHead, skew: Skew) -> list[CStmt]:
    """The loop's code."""
    context = consumers.context
    context.primitive("warpgroup_wait")
    first_tiles = _hand_overs(consumers, loop, skew.first)
    second_tiles = _hand_overs(consumers, loop, skew.second)
    issue_first = context.name(f"issue_{skew.first.c.buffer.name}")
    issue_second = context.name(f"issue_{skew.second.c.buffer.name}")
    out: list[CStmt] = [
        Blank(),
        _lambda(issue_first, _issue(consumers, skew.first)),
        Blank(),
        _lambda(issue_second, _issue(consumers, skew.second)),
    ]
    early = _work(consumers, out, "work_beside", head, skew.early)
    late = _work(consumers, out, "work_after", head, skew.late)

    def issue(name: str, tiles: list[HandOver]) -> list[CStmt]:
        return [*(consumers.wait(tile, "full") for tile in tiles), Expression(c.call(name))]

    mine, next_turn = _turns(consumers)

    def settled(pending: int, tiles: list[HandOver], comment: str = "") -> list[CStmt]:
        wait = Expression(c.call("warpgroup_wait", template=(pending,)), comment=comment)
        return [wait, *(code for tile in tiles for code in consumers.release(tile))]

    start: CExpr = head.start
    variable = Name(head.variable)
    first = [
        Comment("First iteration: nothing runs beside it yet"),
        *mine,
        *issue(issue_first, first_tiles),
        *next_turn,
        *settled(0, first_tiles),
        *early(start),
        *late(start),
    ]
    result, earlier = skew.first.c.buffer.name, skew.second.c.buffer.name
    main = ForC(
        head.variable,
        c.add(start, 1),
        head.stop,
        (
            *mine,
            *issue(issue_first, first_tiles),
            *issue(issue_second, second_tiles),
            *next_turn,
            Blank(),
            *settled(1, first_tiles, f"{result} is there, {earlier} is still under way"),
            *early(variable),
            Blank(),
            *settled(0, second_tiles),
            *late(variable),
        ),
        comment=head.comment,
    )
    last = [
        Comment("Last iteration's second gemm"),
        *issue(issue_second, second_tiles),
        *settled(0, second_tiles),
    ]
    title = Comment(
        f"Main loop: {result} of iteration {head.variable} beside {earlier} of the iteration before it"
    )
    whole: list[CStmt] = [*first, Blank(), title, main, Blank(), *last]
    out.append(Blank())
    if head.runs:
        return [*out, *whole]
    return [*out, IfC(head.condition, tuple(whole))]


def _turns(consumers: Consumers) -> tuple[list[CStmt], list[CStmt]]:
    """The warpgroups take turns: while one keeps the tensor cores busy, the others do their element-wise work. Returns
    what waits for the own turn, and what gives it to the next. Source: Shah et al., FlashAttention-3, section 3.1."""
    context = consumers.context
    if not context.plan.turns:
        return [], []
    for name in ("named_barrier_sync", "named_barrier_arrive"):
        context.primitive(name)
    first = turn_barrier(context)
    both = c.operation("*", 2, context.constant("kWarpgroup", 128, "threads"))
    me = context.threads.name("consumer")
    if context.plan.consumers == 2:
        following = c.operation("-", c.operation("+", first, 1), me)
    else:
        count = context.constant("kConsumers", context.plan.consumers)
        following = c.operation("+", first, c.mod(c.operation("+", me, 1), count))
    wait = Expression(c.call("named_barrier_sync", c.operation("+", first, me), both))
    give = Expression(c.call("named_barrier_arrive", following, both))
    return [wait], [give]


def turn_barrier(context: Context) -> CExpr:
    """The constant for the first of the barriers that pass the turn, one for each warpgroup."""
    base = 2 + context.plan.consumers
    count = {2: "two", 3: "three"}.get(context.plan.consumers, str(context.plan.consumers))
    return context.constant(
        "kTurnBarrier", base, f"the first of the {count} that pass the turn to issue gemms"
    )


def first_turn(context: Context) -> list[CStmt]:
    """Gives the first turn to consumer 0."""
    if not context.plan.turns:
        return []
    context.primitive("named_barrier_arrive")
    both = c.operation("*", 2, context.constant("kWarpgroup", 128, "threads"))
    give = Expression(c.call("named_barrier_arrive", turn_barrier(context), both))
    condition = c.operation("==", context.threads.name("consumer"), context.plan.consumers - 1)
    return [IfC(condition, (give,), comment="consumer 0 issues first")]


def _hand_overs(consumers: Consumers, loop: For, gemm: Gemm) -> list[HandOver]:
    read = [buffer.name for buffer in reads(gemm)]
    return [
        hand_over
        for hand_over in consumers.context.plan.hand_overs
        if hand_over.loop is loop and any(name in hand_over.buffers for name in read)
    ]


def _issue(consumers: Consumers, gemm: Gemm) -> list[CStmt]:
    """The gemm's code; the names that it takes are its lambda's own."""
    taken = consumers.context.taken
    outside = dict(taken)
    code = consumers.gemm(gemm)
    taken.clear()
    taken.update(outside)
    return code


def _lambda(name: str, body: list[CStmt], parameter: str = "") -> CStmt:
    parameters = (("int", parameter),) if parameter else ()
    return Declare("auto", name, Lambda(parameters, tuple(body)), const=True)


def _work(
    consumers: Consumers, out: list[CStmt], name: str, head: LoopHead, statements: tuple[Stmt, ...]
) -> Callable[[CExpr], list[CStmt]]:
    """Declares the statements as a lambda over the loop variable; returns what calls it."""
    if not statements:
        return lambda iteration: []
    context = consumers.context
    body = [code for statement in statements for code in consumers.lower(context, statement)]
    used = head.variable in names(body)
    unique = context.name(name)
    out += [Blank(), _lambda(unique, body, head.variable if used else "")]
    return lambda iteration: [Expression(c.call(unique, *((iteration,) if used else ())))]
