"""Where the threads of a block must meet: between a store to shared or global memory and the accesses of other threads.

For each buffer it is tracked how threads wrote and read it since the last barrier. A barrier goes before a
statement that reads what was written, or writes what was written or read, unless every thread only meets elements of
its own. Loops are walked until nothing changes, so that the end of an iteration meets the start of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilegen.inference.decisions import Decisions, PerNode
from tilegen.inference.loops import as_loop
from tilegen.inference.operations import registered
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import (
    AddPartials,
    AddParts,
    Buffer,
    Copy,
    CustomOperation,
    For,
    Gemm,
    If,
    Kernel,
    LeaveParts,
    Persistent,
    Reduce,
    Stmt,
    SyncThreads,
)
from tilegen.lower.synchronisation.pending_touches import (
    Meeting,
    Pending,
    Touches,
    buffers_met,
    join_touches,
    touch_of,
)
from tilegen.lower.synchronisation.tensor_touches import Tensors, TensorTouches, tensors_of
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.stored_matrices import matrices_of
from tilegen.lower.vocabulary.words import settled
from tilegen.model import build as c
from tilegen.model.statements import CStmt, Expression
from tilegen.schedule.analysis import each_statement, loaded, reads, writes
from tilegen.schedule.plan import Plan
from tilegen.schedule.plan_multistage import staged_copies
from tilegen.target import Target


def barrier_before(context: Context, statement: Stmt) -> list[CStmt]:
    """The barrier that must stand before a statement, if any."""
    if context.barriers is None:
        context.barriers = place_barriers(
            context.program.kernel, context.decisions, context.plan, context.target
        )
    meeting = context.barriers.get(statement)
    if meeting is None:
        return []
    if any(statement is one for one in context.program.kernel.body):
        context.all_meet()
    out: list[CStmt] = []
    if meeting.fence and context.target.has("wgmma"):
        context.primitive("fence_proxy_async")
        out.append(Expression(c.call("fence_proxy_async")))
    return [*out, context.synchronise(settled(meeting.written, meeting.read))]


def place_barriers(
    kernel: Kernel, decisions: Decisions, plan: Plan, target: Target
) -> PerNode[Stmt, Meeting]:
    """The statements that a barrier must precede; with a fence where it must also make the threads' stores visible to
    tensor cores, which read shared memory through the asynchronous proxy (PTX ISA, "Async proxy").

    Buffers that a pipeline hands over are its own business, and in a warp-specialised kernel everything but scratch
    buffers is the consumers'."""
    body = kernel.body
    owned = _pipelined_buffers(kernel, decisions, plan)
    scratch = {buffer.name: None for buffer in decisions.scratch}

    def tracked(name: str) -> bool:
        return name in scratch if plan.kind == "warp_specialised" else name not in owned

    fenced = plan.stages if plan.kind == "register_prefetch" else PerNode[For, int]()
    # CDNA's buffer loads fill shared tiles by a distribution of their own, see tilegen.schedule.tile_copy.
    tensors = tensors_of(kernel, plan)
    placement = _Placement(
        decisions, target, tensors, tracked, fenced, carries=plan.kind == "register_prefetch"
    )
    placement.hoists = plan.kind != "warp_specialised"
    if plan.kind == "multistage":
        for loop, _ in plan.stages.items():
            filled = [copy.target.buffer.name for copy in staged_copies(kernel, loop, decisions)]
            placement.rings[loop] = dict.fromkeys(filled, (None,))
    pending = Pending()
    placement.block(body, pending)
    if plan.persistent:
        placement.block(body, pending)
    return placement.barriers


def _pipelined_buffers(kernel: Kernel, decisions: Decisions, plan: Plan) -> dict[str, None]:
    """Shared buffers that the plan's pipelines fill."""
    owned: dict[str, None] = {}
    for hand_over in plan.hand_overs:
        owned.update(dict.fromkeys(hand_over.buffers))
    for loop, _ in plan.stages.items():
        copies: Iterable[Stmt] = loop.body
        if plan.kind == "multistage":  # others are filled by threads in the loop itself
            copies = staged_copies(kernel, loop, decisions)
        for copy in copies:
            if isinstance(copy, Copy) and copy.source.buffer.scope == "global":
                owned[copy.target.buffer.name] = None
    return owned


def fences_proxy(loop: For, decisions: Decisions) -> bool:
    """Whether the barrier of a multistage loop's iterations also makes stores visible to tensor cores."""
    return any(reads_asynchronously(statement, decisions) for statement in each_statement(loop.body))


def reads_asynchronously(statement: Stmt, decisions: Decisions) -> bool:
    """Whether tensor cores read the statement's shared tiles themselves, through the asynchronous proxy."""
    match statement:
        case Gemm():
            return decisions.gemms[statement].family == "wgmma"
        case CustomOperation(operation):
            return registered(operation).engine == "tensor_cores"
        case _:
            return False


class _Placement:
    """`fenced` loops have a barrier of their own before the first iteration and at the end of each; `rings` are filled
    ahead by a loop, from before its first iteration on; with `carries` copies from global to shared memory do not run
    by their loop's partition."""

    def __init__(
        self,
        decisions: Decisions,
        target: Target,
        tensors: Tensors,
        tracked: Callable[[str], bool],
        fenced: PerNode[For, int],
        carries: bool,
    ) -> None:
        self.decisions = decisions
        self.target = target
        self.tensors = tensors
        self.tracked = tracked
        self.fenced = fenced
        self.carries = carries
        self.hoists = True  # what a loop needs once goes in front of it
        self.rings: PerNode[For, Touches] = PerNode()
        self.barriers: PerNode[Stmt, Meeting] = PerNode()

    def block(self, statements: tuple[Stmt, ...], pending: Pending) -> None:
        for statement in statements:
            self.statement(statement, pending)

    def statement(self, statement: Stmt, pending: Pending) -> None:
        if isinstance(statement, If):
            self.condition(statement, pending)
        match statement:
            case SyncThreads() | LeaveParts():  # which has barriers of its own
                pending.clear()
            case If(_, then, otherwise):
                other = pending.copy()
                self.block(then, pending)
                self.block(otherwise, other)
                pending.join(other)
            case For() if statement in self.fenced:
                pending.clear()
                self.block(statement.body, pending)
                pending.clear()
            case For() if statement in self.rings:
                ring = self.rings[statement]
                self.meet(statement, Meeting(read=buffers_met(pending.read, ring)), pending)
                skipped = pending.copy()
                # Each iteration begins with the barrier behind which its tile has landed.
                pending.clear(fences_proxy(statement, self.decisions))
                self.block(statement.body, pending)
                if not _runs(statement):
                    pending.join(skipped)
                join_touches(pending.read, ring)
            case For() | Persistent():
                self.loop(statement, pending)
            case _:
                self.leaf(statement, pending)

    def condition(self, statement: If, pending: Pending) -> None:
        """What every thread reads to see which way it goes."""
        now: Touches = {b.name: (None,) for b in loaded(statement.condition) if self._is_shared(b)}
        tensors = self.tensors.evaluated(statement.condition)
        written, read = self._tensors_met(pending.tensors, tensors)
        self.meet(statement, Meeting(False, (*buffers_met(pending.written, now), *written), read), pending)
        join_touches(pending.read, now)
        join_touches(pending.tensors, tensors)

    def meet(self, statement: Stmt, meeting: Meeting, pending: Pending) -> None:
        """A barrier before the statement if there is a reason for it, now or when it was seen before."""
        before = self.barriers.get(statement)
        if before is not None or meeting.written or meeting.read:
            self.barriers[statement] = meeting.joined(before)
            pending.clear(meeting.fence)

    def _tensors_met(
        self, earlier: TensorTouches, now: TensorTouches
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The tensors that were written, and those that were read, by other threads than those that touch them now."""
        met = [name for name, touches in now.items() if self.tensors.meet(earlier, {name: touches})]
        written = [name for name in met if any(touch.kind != "load" for touch in earlier[name])]
        return tuple(written), tuple(name for name in met if name not in written)

    def _is_shared(self, buffer: Buffer) -> bool:
        return buffer.scope == "shared" and self.tracked(buffer.name)

    def loop(self, loop: For | Persistent, pending: Pending) -> None:
        if self.hoists and isinstance(loop, For) and pending.touched:
            self.before_loop(loop, pending)
        before = pending.copy()
        self.block(loop.body, pending)
        again = pending.copy()
        again.join(before)
        self.block(loop.body, again)
        pending.clear()
        pending.join(again)
        pending.join(before)

    def before_loop(self, loop: For, pending: Pending) -> None:
        """A barrier in front of a loop in place of those in it that only what stands before it makes necessary: one for
        all iterations."""
        own = self.barriers_of(loop, Pending())
        added = [(at, fence) for at, fence in self.barriers_of(loop, pending).items() if at not in own]
        before = self.barriers.get(loop)
        fenced = any(meeting.fence for _, meeting in added) or (before is not None and before.fence)
        together = Meeting(fenced)
        for _, meeting in added:
            together = together.joined(meeting)
        self.meet(loop, together, pending)

    def barriers_of(self, loop: For, pending: Pending) -> PerNode[Stmt, Meeting]:
        """The barriers in a loop that begins so."""
        found, self.barriers = self.barriers, self.barriers.copy()
        self.hoists = False  # a trial: where barriers of inner loops stand is seen when they are placed
        try:
            start = pending.copy()
            again = pending.copy()
            self.block(loop.body, start)
            again.join(start)
            self.block(loop.body, again)
            return self.barriers
        finally:
            self.barriers, self.hoists = found, True

    def leaf(self, statement: Stmt, pending: Pending) -> None:
        now_read, now_written = self._touches(statement)
        now_read.update(dict.fromkeys(self._kept(statement), (None,)))
        through: Touches = dict.fromkeys(self._scratch(statement), (None,))
        asynchronous = reads_asynchronously(statement, self.decisions)
        tensors = self._tensors_touched(statement)
        written, read = self._tensors_met(pending.tensors, tensors)
        unfenced = [name for name in now_read if asynchronous and name in pending.unfenced]
        written = (*buffers_met(pending.written, now_read, now_written, through), *unfenced, *written)
        read = (*buffers_met(pending.read, now_written, through), *read)
        self.meet(statement, Meeting(asynchronous, written, read), pending)
        if through:
            pending.clear()  # the statement has a barrier of its own, between filling its scratch and reading it
            join_touches(pending.read, through)
        join_touches(pending.read, now_read)
        join_touches(pending.written, now_written)
        pending.unfenced.update(dict.fromkeys(now_written))
        join_touches(pending.tensors, tensors)

    def _tensors_touched(self, statement: Stmt) -> TensorTouches:
        """How a statement reads and writes the tensors that the kernel writes."""
        loop = as_loop(statement)
        partition = None if loop is None or self.carried(statement) else self.decisions.loops.get(loop.node)
        return self.tensors.touched(statement, partition)

    def _touches(self, statement: Stmt) -> tuple[Touches, Touches]:
        """How a statement reads and writes shared buffers."""
        if isinstance(statement, AddPartials | LeaveParts | AddParts):  # they touch no tile of the program
            return {}, {}
        loop = as_loop(statement)
        partition = self.decisions.loops.get(loop.node) if loop is not None else None
        if loop is None or partition is None or self.carried(statement):
            read = dict.fromkeys(self._shared(reads(statement)), (None,))
            written = dict.fromkeys(self._shared(writes(statement)), (None,))
            return dict(read), dict(written)
        # The lanes of stmatrix write other elements than they hold.
        by_matrices = (
            not self.decisions.exchanges.get(statement)
            and matrices_of(loop, partition, self.decisions, self.target) is not None
        )
        found: tuple[Touches, Touches] = ({}, {})
        for access in loop.accesses:
            if access.buffer.scope != "shared" or not self.tracked(access.buffer.name):
                continue
            own = None if by_matrices and access.kind == "store" else touch_of(loop, partition, access)
            touch: Touches = {access.buffer.name: (own,)}
            if access.kind != "store":
                join_touches(found[0], touch)
            if access.kind != "load":
                join_touches(found[1], touch)
        return found

    def carried(self, statement: Stmt) -> bool:
        """Whether threads fill a shared tile by another distribution than that of the statement's loop."""
        if not self.carries or not isinstance(statement, Copy):
            return False
        return statement.source.buffer.scope == "global" and statement.target.buffer.scope == "shared"

    def _shared(self, buffers: tuple[Buffer, ...]) -> tuple[str, ...]:
        return tuple(b.name for b in buffers if b.scope == "shared" and self.tracked(b.name))

    def _kept(self, statement: Stmt) -> tuple[str, ...]:
        """Scratch buffers that a statement reads as an earlier one has filled them."""
        exchanges = self.decisions.exchanges.get(statement) or {}
        return tuple(exchanges[name].name for name in self.decisions.kept.get(statement) or ())

    def _scratch(self, statement: Stmt) -> tuple[str, ...]:
        """Scratch buffers that a statement fills, waits for, and reads."""
        kept = self.decisions.kept.get(statement) or ()
        exchanges = self.decisions.exchanges.get(statement) or {}
        names = [buffer.name for name, buffer in exchanges.items() if name not in kept]
        if isinstance(statement, Reduce) and statement in self.decisions.partials:
            names.append(self.decisions.partials[statement])
        if isinstance(statement, AddPartials) and self.tracked(statement.partials.name):
            names.append(statement.partials.name)
        return tuple(names)


def _runs(loop: For) -> bool:
    """Whether a loop is known to have an iteration."""
    match loop.start, loop.stop:
        case Const(value=start), Const(value=stop):
            return start < stop
        case _:
            return False
