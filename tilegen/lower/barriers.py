"""Where the threads of a block must meet: between a store to shared memory and the accesses of other threads.

For each shared buffer it is tracked whether threads wrote or read it since the last barrier. A barrier goes before a
statement that reads what was written, or writes what was written or read. Loops are walked until nothing changes, so
that the end of an iteration meets the start of the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tilegen.inference.decisions import Decisions, PerNode
from tilegen.ir.nodes import Buffer, Copy, For, Gemm, If, Persistent, Reduce, Stmt, SyncThreads
from tilegen.ir.walk import each_statement
from tilegen.lower.context import Context
from tilegen.model import build as c
from tilegen.model.statements import CStmt, Expression
from tilegen.schedule.analysis import reads, writes
from tilegen.schedule.plan import Plan


@dataclass(slots=True)
class _Pending:
    """Shared buffers touched since the last barrier."""

    written: dict[str, None] = field(default_factory=dict)
    read: dict[str, None] = field(default_factory=dict)

    def copy(self) -> _Pending:
        return _Pending(dict(self.written), dict(self.read))

    def join(self, other: _Pending) -> None:
        self.written.update(other.written)
        self.read.update(other.read)

    def clear(self) -> None:
        self.written.clear()
        self.read.clear()


def barrier_before(context: Context, statement: Stmt) -> list[CStmt]:
    """The barrier that must stand before a statement, if any."""
    if context.barriers is None:
        context.barriers = place_barriers(context.program.kernel.body, context.decisions, context.plan)
    fence = context.barriers.get(statement)
    if fence is None:
        return []
    out: list[CStmt] = []
    if fence:
        context.primitive("fence_proxy_async")
        out.append(Expression(c.call("fence_proxy_async")))
    return [*out, context.synchronise()]


def place_barriers(body: tuple[Stmt, ...], decisions: Decisions, plan: Plan) -> PerNode[Stmt, bool]:
    """The statements that a barrier must precede; True where it must also make the threads' stores visible to tensor
    cores, which read shared memory through the asynchronous proxy (PTX ISA, "Async proxy").

    Buffers that a pipeline hands over are its own business, and in a warp-specialised kernel everything but scratch
    buffers is the consumers'."""
    owned = _pipelined_buffers(body, plan)
    scratch = {buffer.name: None for buffer in decisions.scratch}

    def tracked(name: str) -> bool:
        return name in scratch if plan.kind == "warp_specialised" else name not in owned

    fenced = plan.stages if plan.kind == "register_prefetch" else PerNode[For, int]()
    placement = _Placement(decisions, tracked, fenced)
    pending = _Pending()
    placement.block(body, pending)
    if plan.persistent:
        placement.block(body, pending)
    return placement.barriers


def _pipelined_buffers(body: tuple[Stmt, ...], plan: Plan) -> dict[str, None]:
    """Shared buffers that the plan's pipelines fill."""
    owned: dict[str, None] = {}
    for hand_over in plan.hand_overs:
        owned.update(dict.fromkeys(hand_over.buffers))
    if plan.kind in ("multistage", "register_prefetch"):
        for loop in each_statement(body):
            if isinstance(loop, For) and loop.kind == "pipelined" and (plan.stages.get(loop) or 0) > 0:
                copies = [s for s in loop.body if isinstance(s, Copy)]
                filled = [s.target.buffer for s in copies if s.source.buffer.scope == "global"]
                owned.update({buffer.name: None for buffer in filled if buffer.scope == "shared"})
    return owned


class _Placement:
    """`fenced` loops have a barrier of their own before the first iteration and at the end of each."""

    def __init__(
        self, decisions: Decisions, tracked: Callable[[str], bool], fenced: PerNode[For, int]
    ) -> None:
        self.decisions = decisions
        self.tracked = tracked
        self.fenced = fenced
        self.barriers: PerNode[Stmt, bool] = PerNode()

    def block(self, statements: tuple[Stmt, ...], pending: _Pending) -> None:
        for statement in statements:
            self.statement(statement, pending)

    def statement(self, statement: Stmt, pending: _Pending) -> None:
        match statement:
            case SyncThreads():
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
            case For() | Persistent():
                before = pending.copy()
                self.block(statement.body, pending)
                again = pending.copy()
                again.join(before)
                self.block(statement.body, again)
                pending.clear()
                pending.join(again)
                pending.join(before)
            case _:
                self.leaf(statement, pending)

    def leaf(self, statement: Stmt, pending: _Pending) -> None:
        touched_read = self._shared(reads(statement))
        touched_write = self._shared(writes(statement))
        through = self._scratch(statement)
        hazard = any(name in pending.written for name in (*touched_read, *touched_write, *through))
        hazard |= any(name in pending.read for name in (*touched_write, *through))
        if statement in self.barriers or hazard:
            asynchronous = isinstance(statement, Gemm) and self.decisions.gemms[statement].family == "wgmma"
            self.barriers[statement] = asynchronous
            pending.clear()
        if through:
            pending.clear()  # the statement has a barrier of its own, between filling its scratch and reading it
            pending.read.update(dict.fromkeys(through))
        pending.read.update(dict.fromkeys(touched_read))
        pending.written.update(dict.fromkeys(touched_write))

    def _shared(self, buffers: tuple[Buffer, ...]) -> tuple[str, ...]:
        return tuple(b.name for b in buffers if b.scope == "shared" and self.tracked(b.name))

    def _scratch(self, statement: Stmt) -> tuple[str, ...]:
        """Scratch buffers that a statement fills, waits for, and reads."""
        names = [buffer.name for buffer in (self.decisions.exchanges.get(statement) or {}).values()]
        if isinstance(statement, Reduce) and statement in self.decisions.partials:
            names.append(self.decisions.partials[statement])
        return tuple(names)
