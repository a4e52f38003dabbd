"""A skewed loop of the consumers: first iteration, main loop, last gemm; each piece of work is one lambda."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilegen.ir.nodes import For, Gemm, Stmt
from tilegen.lower.pipelines import rings
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.loops import LoopHead
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Lambda, Name
from tilegen.model.statements import Blank, Comment, CStmt, Declare, Expression, ForC, IfC
from tilegen.model.walk import names
from tilegen.schedule.analysis import reads
from tilegen.schedule.plan import HandOver
from tilegen.schedule.skew import Skew

if TYPE_CHECKING:
    from tilegen.lower.pipelines.consumers import Consumers

Call = Callable[[CExpr], list[CStmt]]  # the code of an iteration


def lower_skewed(consumers: Consumers, loop: For, head: LoopHead, skew: Skew) -> list[CStmt]:
    """The loop's code."""
    out: list[CStmt] = []
    pieces = SkewedLoop.of(consumers, loop, head, skew)
    pieces.declare_first(out)
    pieces.declare_others(out)
    end = c.sub(head.stop, 1)
    awaited = [tile for tile in pieces.second_tiles if not rings.entered_once(consumers.context, tile)]
    last = [
        Comment("Last iteration's second gemm"),
        *pieces.issue_second(end),
        *pieces.settled(0, awaited, end),
    ]
    first = [
        Comment("First iteration: nothing runs beside it yet"),
        *pieces.in_turn(pieces.issue_first(head.start)),
    ]
    whole: list[CStmt] = [*first, *pieces.first_work(), Blank(), *pieces.main(), Blank(), *last]
    out.append(Blank())
    if head.runs:
        return [*out, *whole]
    return [*out, IfC(head.condition, tuple(whole))]


@dataclass(slots=True)
class SkewedLoop:
    """The pieces of a skewed loop; what issues gemms and works on their results is declared as lambdas first."""

    consumers: Consumers
    head: LoopHead
    skew: Skew
    first_tiles: list[HandOver]
    second_tiles: list[HandOver]
    issue_first: Call = field(default=lambda iteration: [])
    issue_second: Call = field(default=lambda iteration: [])
    early: Call = field(default=lambda iteration: [])
    late: Call = field(default=lambda iteration: [])

    @staticmethod
    def of(consumers: Consumers, loop: For, head: LoopHead, skew: Skew) -> SkewedLoop:
        consumers.context.primitive("warpgroup_wait")
        first, second = (_hand_overs(consumers, loop, gemm) for gemm in (skew.first, skew.second))
        return SkewedLoop(consumers, head, skew, first, second)

    @property
    def variable(self) -> CExpr:
        return Name(self.head.variable)

    @property
    def last(self) -> CExpr:
        """The last iteration."""
        return c.sub(self.head.stop, 1)

    def declare_first(self, out: list[CStmt]) -> None:
        """Declares what issues the first gemm."""
        self.issue_first = _issue(self.consumers, out, self.head, self.skew.first, self.first_tiles)

    def declare_others(self, out: list[CStmt]) -> None:
        """Declares what issues the second gemm, and the element-wise work."""
        self.issue_second = _issue(self.consumers, out, self.head, self.skew.second, self.second_tiles)
        self.early = _work(self.consumers, out, "work_beside", self.head, self.skew.early)
        self.late = _work(self.consumers, out, "work_after", self.head, self.skew.late)

    def in_turn(self, issued: list[CStmt]) -> list[CStmt]:
        """Gemms issued when it is the warpgroup's turn."""
        mine, next_turn = _turns(self.consumers)
        return [*mine, *issued, *next_turn]

    def settled(
        self, pending: int, tiles: list[HandOver], iteration: CExpr, comment: str = ""
    ) -> list[CStmt]:
        """Waits for all but the last `pending` gemms, and lets tiles go."""
        wait = Expression(c.call("warpgroup_wait", template=(pending,)), comment=comment)
        rings.enter(self.consumers.context, tiles, iteration)
        return [wait, *(code for tile in tiles for code in self.consumers.release(tile))]

    def first_work(self) -> list[CStmt]:
        """The first iteration, once its first gemm is issued."""
        start = self.head.start
        return [*self.settled(0, self.first_tiles, start), *self.early(start), *self.late(start)]

    def main(self) -> list[CStmt]:
        """The iterations behind the first one, without the last one's second gemm."""
        first, second = self.skew.first.c.buffer.name, self.skew.second.c.buffer.name
        before = c.sub(self.variable, 1)
        issued = [*self.issue_first(self.variable), *self.issue_second(before)]
        body = (
            *self.in_turn(issued),
            Blank(),
            *self.settled(
                1, self.first_tiles, self.variable, f"{first} is there, {second} is still under way"
            ),
            *self.early(self.variable),
            Blank(),
            *self.settled(0, self.second_tiles, before, f"{second} is there too"),
            *self.late(self.variable),
        )
        head = self.head
        title = f"Main loop: {first} of iteration {head.variable} beside {second} of the iteration before it"
        start = c.add(head.start, 1)
        return [Comment(title), ForC(head.variable, start, head.stop, body, comment=head.comment)]


def _turns(consumers: Consumers) -> tuple[list[CStmt], list[CStmt]]:
    """The warpgroups take turns: while one keeps the tensor cores busy, the others do their element-wise work. Returns
    what waits for the own turn, and what gives it to the next. Source: Shah et al., FlashAttention-3, section 3.1."""
    context = consumers.context
    if not context.plan.turns:
        return [], []
    for name in ("named_barrier_sync", "named_barrier_arrive"):
        context.primitive(name)
    first = turn_barrier(context)
    both = c.operation("*", 2, context.warpgroup())
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
    both = c.operation("*", 2, context.warpgroup())
    give = Expression(c.call("named_barrier_arrive", turn_barrier(context), both))
    last = c.operation("-", context.constant("kConsumers", context.plan.consumers), 1)
    condition = c.operation("==", context.threads.name("consumer"), last)
    return [IfC(condition, (give,), comment="consumer 0 issues first")]


def _hand_overs(consumers: Consumers, loop: For, gemm: Gemm) -> list[HandOver]:
    read = [buffer.name for buffer in reads(gemm)]
    return [
        hand_over
        for hand_over in consumers.context.plan.hand_overs
        if hand_over.loop is loop and any(name in hand_over.buffers for name in read)
    ]


def _issue(consumers: Consumers, out: list[CStmt], head: LoopHead, gemm: Gemm, tiles: list[HandOver]) -> Call:
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


def declare_lambda(name: str, body: list[CStmt], parameter: str = "") -> CStmt:
    """A lambda of the text, of one integer or of nothing."""
    parameters = (("int", parameter),) if parameter else ()
    return Declare("auto", name, Lambda(parameters, tuple(body)), const=True)


def _work(
    consumers: Consumers, out: list[CStmt], name: str, head: LoopHead, statements: tuple[Stmt, ...]
) -> Call:
    """Declares the statements as a lambda over the loop variable; returns what calls it."""
    if not statements:
        return lambda iteration: []
    context = consumers.context
    body = [code for statement in statements for code in consumers.lower(context, statement)]
    return _declared(out, context.name(name), head, body)


def _declared(out: list[CStmt], name: str, head: LoopHead, body: list[CStmt]) -> Call:
    """Declares a lambda over the loop variable, if it uses that; returns what calls it."""
    used = head.variable in names(body)
    out += [Blank(), declare_lambda(name, body, head.variable if used else "")]
    return lambda iteration: [Expression(c.call(name, *((iteration,) if used else ())))]
