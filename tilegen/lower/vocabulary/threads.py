"""How emitted text names the threads of a block, and the coordinates that a thread and its registers hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tilegen.inference.fragment import Fragment, Mode
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import CStmt, Declare
from tilegen.model.walk import names


@dataclass(frozen=True, slots=True)
class Level:
    """A name for a part of the computing threads' index: `name` counts units of `unit` threads, `count` of them."""

    name: str
    unit: int
    count: int
    definition: CExpr
    comment: str = ""


@dataclass(slots=True)
class Threads:
    """The names of one role's threads. Levels go from the finest (lane) to the coarsest (consumer); `whole` is the
    index of a computing thread in the block, `extras` are further names that definitions use. A name is declared only
    where the text uses it."""

    levels: tuple[Level, ...]
    whole: Level
    extras: tuple[Level, ...] = ()
    used: dict[str, None] = field(default_factory=dict)
    shares: dict[int, CExpr] = field(default_factory=dict)  # names for a consumer's rows or columns

    def name(self, name: str) -> Name:
        """The identifier, noted as used together with those that its definition needs.

        Raises:
            KeyError: when the role has no such name.
        """
        level = self._known[name]
        for inner in names(level.definition):
            if inner != name and inner in self._known:
                self.name(inner)
        self.used[name] = None
        return Name(name)

    @property
    def _known(self) -> dict[str, Level]:
        coarsest_first = reversed(self.levels)
        return {level.name: level for level in (self.whole, *self.extras, *coarsest_first)}

    def declarations(self, body: Iterable[CStmt]) -> list[CStmt]:
        """The definitions of the names that the body mentions, each after those that it needs."""
        wanted = dict.fromkeys(names(tuple(body)))
        found: list[Level] = []
        for level in reversed(self._known.values()):
            if level.name in wanted and level.name in self.used:
                found.insert(0, level)
                wanted.update(dict.fromkeys(names(level.definition)))
        return [
            Declare("int", level.name, level.definition, const=True, comment=level.comment) for level in found
        ]

    def digits(self, divisor: int, extent: int) -> list[tuple[int, CExpr]]:
        """`index / divisor % extent` of the computing thread's index as a sum of (factor, part) on the finest names
        that say it, finest first."""
        parts: list[tuple[int, CExpr]] = []
        scale, rest, at = 1, extent, divisor
        for level in self.levels:
            span = level.unit * level.count
            if rest == 1 or at >= span:
                continue
            if at % level.unit or level.count % (at // level.unit):
                break
            room = span // at
            take = min(rest, room)
            if rest % take or room % take:
                break
            part: CExpr = c.div(self.name(level.name), at // level.unit)
            parts.append((scale, c.mod(part, take) if take < room else part))
            scale, rest, at = scale * take, rest // take, span
        if rest == 1:
            return parts
        whole = c.div(self.name(self.whole.name), divisor)
        return [(1, c.mod(whole, extent) if divisor * extent < self.whole.count else whole)]

    def scaled(self, factor: int, part: CExpr) -> CExpr:
        """`64 * part`; `kConsumerRows * consumer` where the factor is a share with a name."""
        share = self.shares.get(factor)
        if share is not None and part == Name(self.levels[-1].name):
            return c.operation("*", share, part)
        return c.mul(factor, part)

    def digit(self, divisor: int, extent: int) -> CExpr:
        """`index / divisor % extent` of the computing thread's index."""
        return c.add(*(c.mul(factor, part) for factor, part in reversed(self.digits(divisor, extent))))


def thread_part(fragment: Fragment, axis: int, threads: Threads) -> CExpr:
    """The thread's share of a coordinate."""
    terms: list[CExpr] = []
    divisor = 1
    for mode in _merge_axis(fragment.threads, axis):
        if mode.steps[axis]:
            parts = threads.digits(divisor, mode.extent)
            terms += [threads.scaled(mode.steps[axis] * factor, part) for factor, part in parts]
        divisor *= mode.extent
    return c.add(*reversed(terms)) if terms else Literal(0)


def register_part(fragment: Fragment, axis: int, registers: tuple[CExpr, ...]) -> CExpr:
    """The register index's share of a coordinate, for one index expression a register dimension."""
    terms: list[CExpr] = []
    for position, modes in zip(registers, fragment.registers, strict=True):
        total = 1
        for mode in modes:
            total *= mode.extent
        divisor = 1
        for mode in _merge_axis(modes, axis):
            if mode.steps[axis]:
                digit = c.div(position, divisor)
                if divisor * mode.extent < total:
                    digit = c.mod(digit, mode.extent)
                terms.append(c.mul(mode.steps[axis], digit))
            divisor *= mode.extent
    return c.add(*terms) if terms else Literal(0)


def coordinate(fragment: Fragment, axis: int, registers: tuple[CExpr, ...], threads: Threads) -> CExpr:
    """The tile coordinate of a thread's register along an axis."""
    return c.add(thread_part(fragment, axis, threads), register_part(fragment, axis, registers))


def _merge_axis(modes: tuple[Mode, ...], axis: int) -> tuple[Mode, ...]:
    """Modes as this axis sees them: neighbours that continue each other are one digit."""
    merged: list[Mode] = []
    for mode in (Mode(m.extent, tuple(s if a == axis else 0 for a, s in enumerate(m.steps))) for m in modes):
        if merged:
            last = merged[-1]
            if mode.steps[axis] == last.extent * last.steps[axis] and (
                mode.steps[axis] or not last.steps[axis]
            ):
                merged[-1] = Mode(last.extent * mode.extent, last.steps)
                continue
        merged.append(mode)
    return tuple(merged)


def plain_threads(count: int, warp_size: int, warp_name: str) -> Threads:
    """The names of a block in which every thread computes: `thread`, `warp` (or `wave`) and `lane`.

    Warp and lane are parts of the unsigned built-in: divisions of a signed number round towards 0, which costs several
    instructions wherever the compiler does not know that it is not negative.
    """
    whole = Level("thread", 1, count, c.expr("threadIdx.x"))
    levels = (
        Level("lane", 1, warp_size, c.mod("threadIdx.x", warp_size)),
        Level(warp_name, warp_size, max(1, count // warp_size), c.div("threadIdx.x", warp_size)),
    )
    return Threads(levels, whole)


def consumer_threads(consumers: int, warpgroup: int, warp_size: int) -> Threads:
    """The names of the computing warpgroups behind a producer warpgroup (which is warpgroup 0)."""
    whole = Level("computing_thread", 1, consumers * warpgroup, c.sub("threadIdx.x", "kWarpgroup"))
    thread = Level("thread", 1, warpgroup, c.mod("threadIdx.x", "kWarpgroup"))
    levels = (
        Level("lane", 1, warp_size, c.mod("thread", warp_size)),
        Level("warp", warp_size, warpgroup // warp_size, c.div("thread", warp_size)),
        Level("consumer", warpgroup, consumers, c.sub("warpgroup", 1)),
    )
    return Threads(levels, whole, (thread,))
