"""Barriers between the consumers' own accesses to shared memory: where threads read what others wrote, or write what
others still read; and the fences that make stores visible to tensor cores and TMA.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.ir.effects import expressions_of
from tilegen.ir.nodes import AddPartials, Buffer, For, If, LeaveParts, Persistent, Stmt
from tilegen.lower.synchronisation.barriers import reads_asynchronously
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.words import settled
from tilegen.model import build as c
from tilegen.model.statements import CStmt, Expression
from tilegen.schedule.analysis import each_statement, loaded, reads, writes
from tilegen.schedule.overlays import Overlay

Names = dict[str, None]
State = tuple[Names, Names]


@dataclass(slots=True)
class SharedHazards:
    """Which shared buffers threads have written and read since all of them last met."""

    context: Context
    written: Names = field(default_factory=dict)
    read: Names = field(default_factory=dict)
    unfenced: Names = field(default_factory=dict)  # written since the last proxy fence
    read_rings: Names = field(default_factory=dict)  # tiles of rings that threads themselves have read
    laid: Names = field(default_factory=dict)  # tiles that have taken the place of others

    def note(self, statement: Stmt) -> None:
        """Remembers what the statement's threads wrote and read; rings have barriers of their own for reads."""
        if isinstance(statement, For | If | Persistent):
            return  # see `note_evaluated`
        if isinstance(statement, AddPartials | LeaveParts):
            self.written.clear()
            self.read.clear()
            self.read_rings.clear()
            if isinstance(statement, AddPartials):  # its barrier stands between its stores and its loads
                self.read[statement.partials.name] = None
            return
        stores = dict.fromkeys(_shared(writes(statement)))
        self.written.update(stores)
        self.unfenced.update(stores)
        self._note_read(_shared(reads(statement)), asynchronously=self._asynchronous(statement))

    def note_evaluated(self, statement: For | If | Persistent) -> None:
        """Remembers what threads read to see which way they go: before what stands inside."""
        self._note_read(_shared(loaded(expressions_of(statement))), asynchronously=False)

    def _note_read(self, names: tuple[str, ...], asynchronously: bool) -> None:
        rings = [name for hand_over in self.context.plan.hand_overs for name in hand_over.buffers]
        self.read.update(dict.fromkeys(name for name in names if name not in rings))
        if not asynchronously:
            self.read_rings.update(dict.fromkeys(name for name in names if name in rings))

    def threaten(self, statement: Stmt, under_way: tuple[str, ...]) -> bool:
        """Whether all threads must meet before the statement; tensor cores are still reading what is `under_way`."""
        loads, stores = _touched(statement)
        return (
            bool(self._overlays(stores))
            or any(name in self.written for name in (*loads, *stores))
            or any(name in self.read or name in under_way for name in stores)
            or (self._asynchronous(statement) and any(name in self.unfenced for name in loads))
        )

    def overwritten(self, statement: Stmt) -> tuple[str, ...]:
        """The tiles whose bytes a statement writes: its own, and those that they take the place of."""
        _, stores = _touched(statement)
        return (*stores, *(overlay.over for overlay in self._overlays(stores)))

    def meet(self, statement: Stmt, under_way: tuple[str, ...]) -> list[CStmt]:
        """The barrier before the statement; tensor cores have read what was `under_way`."""
        loads, stores = _touched(statement)
        touched = dict.fromkeys((*loads, *stores))
        behind = self.written if not self._asynchronous(statement) else {**self.written, **self.unfenced}
        written = [name for name in touched if name in behind]
        read = [name for name in stores if name in self.read or name in under_way]
        fence = [self._fence()] if self._asynchronous(statement) else []
        overlays = self._overlays(stores)
        self.laid.update((overlay.buffer, None) for overlay in overlays)
        self.written.clear()
        self.read.clear()
        self.read_rings.clear()
        said = [f"{overlay.buffer} lies over {overlay.over}, which has been read" for overlay in overlays]
        if written or read:
            said.append(settled(written, read))
        return [*fence, self.context.synchronise(", ".join(said))]

    def _overlays(self, stores: tuple[str, ...]) -> list[Overlay]:
        """What tiles now take the place of for the first time, which other threads may still be reading."""
        found = (self.context.plan.overlay_of(name) for name in dict.fromkeys(stores))
        return [overlay for overlay in found if overlay is not None and overlay.buffer not in self.laid]

    def state(self) -> State:
        """What is pending, to be compared at the end of a loop's iteration."""
        return dict(self.written), dict(self.read)

    def fork(self) -> SharedHazards:
        """What is pending here, for the other way that control may take."""
        copies = (dict(n) for n in (self.written, self.read, self.unfenced, self.read_rings, self.laid))
        return SharedHazards(self.context, *copies)

    def go_back(self, to: SharedHazards) -> None:
        self.written, self.read, self.unfenced = dict(to.written), dict(to.read), dict(to.unfenced)
        self.read_rings = dict(to.read_rings)

    def join(self, other: SharedHazards) -> None:
        """Control may also have come another way: a barrier of one way alone has parted nothing."""
        self.written.update(other.written)
        self.read.update(other.read)
        self.unfenced.update(other.unfenced)
        self.read_rings.update(other.read_rings)

    def end_of_iteration(self, before: State, body: tuple[Stmt, ...]) -> list[CStmt]:
        """A barrier where the next iteration of the body would write what this one still reads, or read what it wrote,
        before its threads meet anyway."""
        written, read = before
        pending = [n for n in self.written if n not in written] + [n for n in self.read if n not in read]
        again = [name for name in dict.fromkeys(_touched_before_meeting(body)) if name in pending]
        if not again:
            return []
        over = settled([n for n in again if n not in self.read], [n for n in again if n in self.read])
        self.written.clear()
        self.read.clear()
        fence = [self._fence()] if self._read_asynchronously() else []
        return [*fence, self.context.synchronise(over)]

    def _asynchronous(self, statement: Stmt) -> bool:
        """Whether the statement's shared tiles are read through the asynchronous proxy."""
        return reads_asynchronously(statement, self.context.decisions)

    def _read_asynchronously(self) -> bool:
        """Whether a statement of the kernel reads through that proxy what threads have stored."""
        return any(
            name in self.unfenced
            for statement in each_statement(self.context.program.kernel.body)
            if not isinstance(statement, For | If | Persistent) and self._asynchronous(statement)
            for name in _shared(reads(statement))
        )

    def _fence(self) -> CStmt:
        """Makes what this thread stored visible to the asynchronous proxy."""
        self.context.primitive("fence_proxy_async")
        self.unfenced.clear()
        return Expression(c.call("fence_proxy_async"))


def _touched_before_meeting(body: tuple[Stmt, ...]) -> tuple[str, ...]:
    """The shared buffers that an iteration touches before a barrier that it has in any case."""
    names: list[str] = []
    for statement in body:
        if isinstance(statement, AddPartials):
            return (*names, statement.partials.name)
        if isinstance(statement, LeaveParts):
            return tuple(names)
        names += _shared((*reads(statement), *writes(statement)))
    return tuple(names)


def _touched(statement: Stmt) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The shared buffers that a statement itself reads and writes, nested blocks left out."""
    if isinstance(statement, For | If | Persistent):
        return _shared(loaded(expressions_of(statement))), ()
    return _shared(reads(statement)), _shared(writes(statement))


def _shared(buffers: tuple[Buffer, ...]) -> tuple[str, ...]:
    return tuple(buffer.name for buffer in buffers if buffer.scope == "shared")
