"""A skewed loop of the consumers: first iteration, main loop, last gemm; each piece of work is one lambda."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilegen.ir.nodes import For, Gemm, Stmt
from tilegen.lower import rings
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
    start: CExpr = head.start
    variable = Name(head.variable)
    out: list[CStmt] = []
    issue_first = _issue(consumers, out, head, skew.first, first_tiles)
    issue_second = _issue(consumers, out, head, skew.second, second_tiles)
    early = _work(consumers, out, "work_beside", head, skew.early)
    late = _work(consumers, out, "work_after", head, skew.late)
    mine, next_turn = _turns(consumers)

    def settled(pending: int, tiles: list[HandOver], iteration: CExpr, comment: str = "") -> list[CStmt]:
        wait = Expression(c.call("warpgroup_wait", template=(pending,)), comment=comment)
        rings.enter(context, tiles, iteration)
        return [wait, *(code for tile in tiles for code in consumers.release(tile))]

    first = [
        Comment("First iteration: nothing runs beside it yet"),
        *mine,
        *issue_first(start),
        *next_turn,
        *settled(0, first_tiles, start),
        *early(start),
        *late(start),
    ]
    result, earlier = skew.first.c.buffer.name, skew.second.c.buffer.name
    before = c.sub(variable, 1)
    main = ForC(
        head.variable,
        c.add(start, 1),
        head.stop,
        (
            *mine,
            *issue_first(variable),
            *issue_second(before),
            *next_turn,
            Blank(),
            *settled(1, first_tiles, variable, f"{result} is there, {earlier} is still under way"),
            *early(variable),
            Blank(),
            *settled(0, second_tiles, before),
            *late(variable),
        ),
        comment=head.comment,
    )
    end = c.sub(head.stop, 1)
    awaited = [tile for tile in second_tiles if not rings.entered_once(context, tile)]
    last = [
        Comment("Last iteration's second gemm"),
        *issue_second(end),
        *settled(0, awaited, end),
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


def _issue(
    consumers: Consumers, out: list[CStmt], head: LoopHead, gemm: Gemm, tiles: list[HandOver]
) -> Callable[[CExpr], list[CStmt]]:
    """Declares a lambda that waits for the gemm's tiles and issues it; returns what calls it. The names that the code
    takes are the lambda's own."""
    context = consumers.context
    name = context.name(f"issue_{gemm.c.buffer.name}")
    outside = dict(context.taken)
    rings.enter(context, tiles, Name(head.variable))
    body = [*context.comment(gemm.location), *(consumers.wait(tile, "full") for tile in tiles)]
    body += consumers.gemm(gemm)
    context.taken.clear()
    context.taken.update(outside)
    return _declared(out, name, head, body)


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
    return _declared(out, context.name(name), head, body)


def _declared(
    out: list[CStmt], name: str, head: LoopHead, body: list[CStmt]
) -> Callable[[CExpr], list[CStmt]]:
    """Declares a lambda over the loop variable, if it uses that; returns what calls it."""
    used = head.variable in names(body)
    out += [Blank(), _lambda(name, body, head.variable if used else "")]
    return lambda iteration: [Expression(c.call(name, *((iteration,) if used else ())))]
