"""The consumers of a warp-specialised kernel: waits before first uses, releases after last ones.

Tensor-core groups run asynchronously. Each is waited for where its accumulators (or register operands) are needed
next, and the shared tiles that it reads are released only then. In a loop whose accumulators nothing else touches the
wait lags one iteration behind, so that the tensor cores never drain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from tilegen.inference.decisions import PerNode
from tilegen.ir.nodes import AtomicTile, Copy, For, Gemm, If, Persistent, Stmt
from tilegen.lower.copies.tma_store import lower_staged_store, warpgroup_sync
from tilegen.lower.gemms.interleaved import lower_interleaved
from tilegen.lower.gemms.tensor_core_groups import Group, lagging, readers_of, reads_last, shared_names
from tilegen.lower.gemms.wgmma import lower_gemm
from tilegen.lower.pipelines import rings
from tilegen.lower.pipelines.skewed_loop import lower_skewed
from tilegen.lower.pipelines.tiles import cluster_constant, persistent_tiles
from tilegen.lower.statements import after_loop, quoted, remark
from tilegen.lower.synchronisation.shared_hazards import SharedHazards
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.loops import LoopHead, loop_head, provably_runs
from tilegen.lower.vocabulary.scalar import scalar
from tilegen.lower.vocabulary.uniform import uniform_load
from tilegen.lower.vocabulary.words import listed
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import AssignC, Comment, CStmt, Declare, Expression, ForC, IfC
from tilegen.schedule.analysis import reads, writes
from tilegen.schedule.interleave import Interleaving, find_interleaving
from tilegen.schedule.plan import HandOver
from tilegen.schedule.rolled_loops import stays_rolled
from tilegen.schedule.skew import find_skew

Lower = Callable[[Context, Stmt], list[CStmt]]


@dataclass(slots=True)
class Consumers:
    """Lowers the statements of the computing warpgroups, in order."""

    context: Context
    lower: Lower  # of every statement that has nothing to do with pipelines
    accumulate: Callable[[Gemm], CExpr]
    hazards: SharedHazards
    outstanding: list[Group] = field(default_factory=list)
    waited: dict[str, None] = field(default_factory=dict)  # hand-overs whose full barrier was waited for here
    reused: bool = False  # whether hand-overs outside loops are filled again and again
    heads: PerNode[For, LoopHead] = field(default_factory=PerNode)  # of pipelined loops
    interleaving: Interleaving | None = None  # of the loop whose body is being lowered

    # ------------------------------------------------------------------------------------- statements

    def block(self, statements: tuple[Stmt, ...]) -> list[CStmt]:
        """The statements of one body; the hand-overs that its own copies fill are waited for and released in it."""
        mine = [h for h in self.context.plan.hand_overs if any(h.copies[0] is s for s in statements)]
        out: list[CStmt] = []
        outside = dict(self.context.taken)
        for position, statement in enumerate(statements):
            if isinstance(statement, Copy) and self.context.plan.hand_over_of(statement) is not None:
                continue
            if self.interleaving is not None and self.interleaving.produces(statement):
                continue  # part of its gemm
            last = [h for h in mine if self.refilled(h) and reads_last(statements, position, h)]
            if isinstance(statement, For) and statement.kind == "pipelined":
                # How often it runs is counted beside what that follows from, before any tile is waited for.
                declared, head = rings.trip_count(self.context, statement, loop_head(self.context, statement))
                self.heads[statement] = head
                out += declared
            else:
                out += self.context.title(statement)
            out += self.before(statement, mine)
            if self.by_wgmma(statement):
                read = [h for h in last if self.being_read(statements[:position], h)]
                out += self.threads_have_read(read) if read else []
            out += self.statement(statement, last)
        for name in [name for name in self.context.taken if name.startswith("descriptor_")]:
            if name not in outside:  # declared in this block
                del self.context.taken[name]
        return out

    def statement(self, statement: Stmt, last: list[HandOver]) -> list[CStmt]:
        """One statement and the releases that follow it."""
        match statement:
            case Gemm() if self.context.decisions.gemms[statement].family == "wgmma":
                out = self.gemm(statement)
                self.outstanding.append(Group(statement, tuple(last)))
                return out
            case For() if statement.kind == "pipelined":
                out = [*self.pipelined(statement), *after_loop(self.context, statement)]
            case For() | If() | Persistent():
                out = [*self.nested(statement), *after_loop(self.context, statement)]
            case Copy() | AtomicTile() if statement in self.context.plan.staging:
                out = [
                    *self.context.comment(statement.location),
                    *lower_staged_store(self.context, statement),
                ]
            case _:
                out = self.lower(self.context, statement)
        self.hazards.note(statement)
        if not last:
            return out
        out += self.settle(len(self.outstanding)) if self.outstanding else []
        by_threads = [hand_over for hand_over in last if not self.read_by_gemms(statement, hand_over)]
        out += self.threads_have_read(by_threads) if by_threads else []
        for hand_over in last:
            out += self.release(hand_over)
        return out

    def read_by_gemms(self, statement: Stmt, hand_over: HandOver) -> bool:
        """Whether only tensor cores read the hand-over's tiles in a statement, and do so in any case: who waits for
        them needs nobody else. Where they may have nothing to do, a thread could let the stage go before another has
        seen it filled."""
        readers = readers_of((statement,), hand_over)
        return self.multiplies((statement,)) and all(self.by_wgmma(one) for one in readers)

    def being_read(self, statements: tuple[Stmt, ...], hand_over: HandOver) -> bool:
        """Whether threads that have not met since may still read the hand-over's tiles in these statements: who waits
        for a wgmma that comes later does not wait for them."""
        pending = any(name in self.hazards.read_rings for name in hand_over.buffers)
        return pending and not all(self.by_wgmma(one) for one in readers_of(statements, hand_over))

    def by_wgmma(self, statement: Stmt) -> bool:
        return isinstance(statement, Gemm) and self.context.decisions.gemms[statement].family == "wgmma"

    def multiplies(self, statements: tuple[Stmt, ...]) -> bool:
        """Whether statements issue a wgmma in any case, for which the threads of a warpgroup meet."""
        return any(
            self.by_wgmma(s)
            or (isinstance(s, For) and provably_runs(self.context, s) and self.multiplies(s.body))
            for s in statements
        )

    def nested(self, statement: For | If | Persistent) -> list[CStmt]:
        """Control flow around statements of the consumers; nothing is outstanding at its borders."""
        out = self.settle(len(self.outstanding)) if self.outstanding else []
        out += self.context.comment(quoted(statement)) if isinstance(statement, If) else []
        self.hazards.note_evaluated(statement)
        before = self.hazards.fork()
        match statement:
            case For():
                head = loop_head(self.context, statement)
                body = self.iteration(statement.body)
                counts = statement.var.name in self.context.decisions.counters
                step = scalar(self.context, statement.step)
                if statement.kind == "unroll" or counts:
                    each = ForC(head.variable, head.start, head.stop, body, step, True, head.comment)
                else:
                    each = self.loop(statement, head, body, step)
                out.append(each)
            case If(condition, then, otherwise):
                taken = self.nested_block(then)
                behind = self.hazards.fork()
                self.hazards.go_back(before)
                other = self.nested_block(otherwise)
                self.hazards.join(behind)
                test = scalar(self.context, condition, uniform_load(self.context))
                out.append(IfC(test, taken, other, comment=remark(statement)))
            case Persistent():
                tiles = persistent_tiles(self.context, statement)
                body = self.iteration(statement.body)
                out += tiles.wrap(self.context, list(body))
            case _:
                assert_never(statement)
        if isinstance(statement, Persistent) or (isinstance(statement, For) and not head.runs):
            self.hazards.join(before)  # there may be no iteration
        return out

    def iteration(self, statements: tuple[Stmt, ...]) -> tuple[CStmt, ...]:
        """The body of a loop, which its threads leave together where the next iteration asks for it."""
        before = self.hazards.state()
        return (*self.nested_block(statements), *self.hazards.end_of_iteration(before, statements))

    def nested_block(self, statements: tuple[Stmt, ...]) -> tuple[CStmt, ...]:
        body = self.block(statements)
        return (*body, *(self.settle(len(self.outstanding)) if self.outstanding else []))

    def gemm(self, gemm: Gemm) -> list[CStmt]:
        self.hazards.note(gemm)
        if self.interleaving is not None:
            return lower_interleaved(self.context, self.interleaving, self.accumulate(gemm))
        return [*self.context.comment(gemm.location), *lower_gemm(self.context, gemm, self.accumulate(gemm))]

    # ------------------------------------------------------------------------------------- before a statement

    def before(self, statement: Stmt, mine: list[HandOver]) -> list[CStmt]:
        """Waits that the statement needs: for bytes, for tensor-core groups, for other threads' stores."""
        out: list[CStmt] = []
        names = [buffer.name for buffer in reads(statement)]
        for hand_over in mine:
            if hand_over.name not in self.waited and any(name in hand_over.buffers for name in names):
                out.append(self.wait(hand_over, "full"))
                self.waited[hand_over.name] = None
        touched = dict.fromkeys([*names, *(buffer.name for buffer in writes(statement))])
        needed = -1
        for position, group in enumerate(self.outstanding):
            if any(name in touched for name in group.registers) and not self.chained(statement, group):
                needed = position
        if needed >= 0:
            out += self.settle(needed + 1)
        under_way = shared_names(tuple(b for g in self.outstanding for b in reads(g.gemm)))
        if self.hazards.threaten(statement, under_way):
            if any(name in under_way for name in self.hazards.overwritten(statement)):
                out += self.settle(len(self.outstanding))
            out += self.hazards.meet(statement, under_way)
        return out

    def chained(self, statement: Stmt, group: Group) -> bool:
        """Whether a gemm may follow a group on the same accumulators without a wait: it adds to them in order."""
        return (
            isinstance(statement, Gemm)
            and statement.c.buffer == group.gemm.c.buffer
            and statement.a.buffer.name not in group.registers
        )

    # ------------------------------------------------------------------------------------- waits and releases

    def settle(self, count: int) -> list[CStmt]:
        """Waits for the first `count` outstanding groups and releases what only they were reading."""
        self.context.primitive("warpgroup_wait")
        done, self.outstanding = self.outstanding[:count], self.outstanding[count:]
        out: list[CStmt] = [Expression(c.call("warpgroup_wait", template=(len(self.outstanding),)))]
        for group in done:
            self.hazards.note(group.gemm)  # only now other threads may write what it read
            for hand_over in group.releases:
                out += self.release(hand_over)
        return out

    def refilled(self, hand_over: HandOver) -> bool:
        """Whether a hand-over's buffers are filled more than once in the kernel, so that they must be let go."""
        return hand_over.loop is not None or self.reused

    def state(self, hand_over: HandOver, part: rings.Part) -> CExpr:
        """`stage` or `phase` of the ring's position; what is filled once has none."""
        if not self.refilled(hand_over):
            return c.expr(0)
        return rings.position(self.context, hand_over, part)

    def barrier(self, hand_over: HandOver, kind: str, stage: CExpr | None = None) -> CExpr:
        name = hand_over.barrier("full" if kind == "full" else "empty")
        base = c.member("shared", name)
        if hand_over.stages == 1:
            return base
        return c.index(base, stage or self.state(hand_over, "stage"))

    def wait(self, hand_over: HandOver, kind: str) -> CStmt:
        self.context.primitive("mbarrier_wait")
        return Expression(
            c.call("mbarrier_wait", self.barrier(hand_over, kind), self.state(hand_over, "phase"))
        )

    def release(
        self, hand_over: HandOver, stage: CExpr | None = None, when: CExpr | None = None
    ) -> list[CStmt]:
        """One thread of the warpgroup or warp lets the stage go, and the ring moves on."""
        self.waited.pop(hand_over.name, None)
        out: list[CStmt] = []
        thread = self.context.threads.name("lane" if hand_over.by_warps else "thread")
        barrier = self.barrier(hand_over, "empty", stage)
        if shares_loads(self.context, hand_over):
            # The stage is filled by all blocks of the cluster, so all of them must know that it is free here.
            self.context.primitive("mbarrier_arrive_cluster")
            chosen = c.operation("<", thread, cluster_constant(self.context))
            arrive = Expression(c.call("mbarrier_arrive_cluster", barrier, thread))
        else:
            self.context.primitive("mbarrier_arrive")
            chosen = c.operation("==", thread, 0)
            arrive = Expression(c.call("mbarrier_arrive", barrier))
        condition = chosen if when is None else c.operation("&&", when, chosen)
        out.append(IfC(condition, (arrive,)))
        return [*out, *(rings.advance(self.context, hand_over) if stage is None else [])]

    def threads_have_read(self, hand_overs: list[HandOver]) -> list[CStmt]:
        """All threads have read the stage before one of them lets it go: of a warp, or of the warpgroup."""
        buffers = listed([name for hand_over in hand_overs for name in hand_over.buffers])
        if all(hand_over.by_warps for hand_over in hand_overs):
            return [Expression(c.call("__syncwarp"), comment=f"all lanes have read {buffers}")]
        return warpgroup_sync(self.context, f"all its threads have read {buffers}")

    # ------------------------------------------------------------------------------------- pipelined loops

    def pipelined(self, loop: For) -> list[CStmt]:
        """A pipelined loop of the consumers."""
        out = self.settle(len(self.outstanding)) if self.outstanding else []
        head = self.heads[loop]
        skew = find_skew(loop, self.context.decisions, self.context.plan)
        if skew is not None:
            return [*out, *lower_skewed(self, loop, head, skew)]
        self.interleaving = find_interleaving(loop, self.context.decisions, self.context.plan)
        late = lagging(loop, self.interleaving, self.context.decisions, self.context.plan)
        out += self.context.title(loop)
        out += [
            Declare("int", _released(h), Literal(0), comment="the stage whose wgmma may still read it")
            for h in late
        ]
        self.hazards.note_evaluated(loop)
        before, skipped = self.hazards.state(), self.hazards.fork()
        self.waited.clear()
        body = self.block(loop.body)
        if late or self.interleaving is not None:
            body += self._let_go_late(loop, late)
        elif self.outstanding:
            body += self.settle(len(self.outstanding))
        body += self.hazards.end_of_iteration(before, loop.body)
        if not head.runs:
            self.hazards.join(skipped)
        out.append(self.loop(loop, head, tuple(body)))
        if late or self.interleaving is not None:
            out += self._drained(loop, late)
        self.interleaving = None
        self.waited.clear()
        return out

    def _let_go_late(self, loop: For, late: Sequence[HandOver]) -> list[CStmt]:
        """The end of an iteration whose gemms are still under way: the stages of the one before it are let go."""
        out: list[CStmt] = []
        if self.interleaving is None:  # else what is under way belongs to this iteration
            self.context.primitive("warpgroup_wait")
            wait = c.call("warpgroup_wait", template=(len(self.outstanding),))
            out.append(Expression(wait, comment="the previous stage has been read"))
        ran = c.operation(">", loop_variable(self.context, loop), self.heads[loop].start)
        for hand_over in late:
            out += self.release(hand_over, Name(_released(hand_over)), ran)
            out.append(AssignC(Name(_released(hand_over)), self.state(hand_over, "stage")))
            out += rings.advance(self.context, hand_over)
        self.outstanding.clear()
        return out

    def _drained(self, loop: For, late: Sequence[HandOver]) -> list[CStmt]:
        """Behind such a loop: all gemms are waited for, and the last stages let go where they are filled again. They
        are also where the loop may not run: else ptxas may take the accumulators' zeros for written beside the wgmma
        that is under way, and serialise all of it (C7515)."""
        head = self.heads[loop]
        out: list[CStmt] = [Expression(c.call("warpgroup_wait", template=(0,)))]
        runs = None if head.runs else head.condition
        for hand_over in late:
            once = rings.entered_once(self.context, hand_over)
            if once and runs is None:
                self.waited.pop(hand_over.name, None)
                continue
            release = self.release(hand_over, Name(_released(hand_over)), runs)
            if once:
                out.append(
                    Comment("Nobody waits for it; without it ptxas may serialise the wgmma above (C7515)")
                )
            out += release
        for gemm in loop.body:
            if isinstance(gemm, Gemm):
                self.hazards.note(gemm)
        return out

    def loop(self, loop: For, head: LoopHead, body: tuple[CStmt, ...], step: CExpr | None = None) -> ForC:
        """A loop that the compiler may unroll where registers suffice for it."""
        context = self.context
        kernel = context.program.kernel
        rolled = stays_rolled(kernel, loop, context.plan, context.decisions, context.target)
        why = "not unrolled, registers are too few for all its loads"
        said = ": ".join(part for part in (head.comment, why if rolled else "") if part)
        return ForC(head.variable, head.start, head.stop, body, step, 1 if rolled else None, said)


def shares_loads(context: Context, hand_over: HandOver) -> bool:
    """Whether other blocks of the cluster load parts of the hand-over's tiles."""
    return any(context.plan.multicast_of(name) is not None for name in hand_over.buffers)


def _released(hand_over: HandOver) -> str:
    return f"{hand_over.name}_released" if hand_over.name else "released"


def loop_variable(context: Context, loop: For) -> CExpr:
    return context.environment.get(loop.var.name, Name(loop.var.name))
