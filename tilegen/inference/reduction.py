"""How a reduction runs over a fragment: in the thread, then by shuffles in the warp, then across warps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from math import prod

from tilegen.diagnostics import ProgramError
from tilegen.inference.decisions import Decisions
from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.propagate import reduced
from tilegen.inference.shared import row_major
from tilegen.ir import build
from tilegen.ir.nodes import Buffer, Reduce
from tilegen.ir.types import DType, float32, int32, uint32
from tilegen.target import Target

LOGICAL = ("any", "all")
"""Reductions that count each element, and the old value, as 0 or 1."""


@dataclass(frozen=True, slots=True)
class ThreadDigit:
    """thread / divisor % extent."""

    divisor: int
    extent: int


@dataclass(frozen=True, slots=True)
class ReductionSteps:
    """What follows the reduction of a thread's own registers.

    `masks` are the lane distances of the shuffles. `warps` are the digits of the thread index that tell apart the warps
    which share a row; each of them writes its partial result to shared memory, where there are any.
    """

    masks: tuple[int, ...]
    warps: tuple[ThreadDigit, ...]

    @property
    def shares(self) -> int:
        """Partial results a row."""
        return prod(digit.extent for digit in self.warps)


def reduction_steps(source: Fragment, reduction: Reduce, target: Target) -> ReductionSteps:
    """The steps of a reduction.

    Raises:
        ProgramError: when lanes divide the reduced axis in other than powers of two.
    """
    masks: list[int] = []
    warps: list[ThreadDigit] = []
    warp = target.limits.warp_size
    for divisor, mode in _thread_digits(source, warp):
        if mode.steps[reduction.axis] == 0:
            continue
        diagonal = any(step for axis, step in enumerate(mode.steps) if axis != reduction.axis)
        if diagonal or (divisor < warp and mode.extent & (mode.extent - 1)):
            raise ProgramError(
                reduction.location,
                f"{reduction.source.buffer.name} is laid out as {source}: its threads cannot be halved along the "
                "reduced axis",
                remedy="copy it to a fragment of its own first"
                if diagonal
                else "give the block a number of threads that is a power of two",
            )
        if divisor >= warp:
            warps.append(ThreadDigit(divisor, mode.extent))
        else:
            masks += [divisor << bit for bit in range(mode.extent.bit_length() - 1)]
    return ReductionSteps(tuple(masks), tuple(warps))


def _thread_digits(fragment: Fragment, warp: int) -> Iterator[tuple[int, Mode]]:
    """(divisor, mode) of each thread mode, cut where a warp ends."""
    divisor = 1
    for mode in fragment.threads:
        room = warp // divisor if divisor < warp else 1
        if 1 < room < mode.extent and mode.extent % room == 0:
            yield divisor, Mode(room, mode.steps)
            yield divisor * room, Mode(mode.extent // room, tuple(room * step for step in mode.steps))
        else:
            yield divisor, mode
        divisor *= mode.extent


def accumulation_dtype(reduction: Reduce) -> DType:
    """The element type that partial results have: at least 32 bits, which is what shuffles move. Whether any or all
    elements differ from 0 is an integer, also where the result is a float."""
    dtype = reduction.target.buffer.dtype
    if reduction.op in LOGICAL and dtype.is_float:
        return int32
    if dtype.bits >= 32:
        return dtype
    return float32 if dtype.is_float else uint32 if dtype.kind == "uint" else int32


def shared_partials(source: Fragment, reduction: Reduce, target: Target) -> Fragment:
    """The distribution of partial results before they meet in shared memory: the result's, with a leading axis that
    counts the warps which share a row."""
    threads: list[Mode] = []
    weight = 1
    rank = source.rank
    result = reduced(source, reduction)
    for divisor, mode in _thread_digits(source, target.limits.warp_size):
        if not mode.steps[reduction.axis]:
            threads.append(Mode(mode.extent, (0, *_seen_by(result, mode, reduction, rank))))
        elif divisor < target.limits.warp_size:
            threads.append(Mode(mode.extent, (0,) * (1 + result.rank)))
        else:
            threads.append(Mode(mode.extent, (weight, *(0 for _ in range(result.rank)))))
            weight *= mode.extent
    registers = tuple(tuple(Mode(m.extent, (0, *m.steps)) for m in modes) for modes in result.registers)
    return Fragment((weight, *result.tile), tuple(threads), registers)


def _seen_by(result: Fragment, mode: Mode, reduction: Reduce, rank: int) -> tuple[int, ...]:
    """A thread mode's steps along the axes of the result."""
    kept = tuple(step for axis, step in enumerate(mode.steps) if axis != reduction.axis)
    if result.rank == rank:  # the reduced axis stays, with extent 1
        return (*kept[: reduction.axis], 0, *kept[reduction.axis :])
    return kept


def reduction_scratch(reductions: list[Reduce], decisions: Decisions, target: Target) -> None:
    """Adds the shared buffers in which warps leave their partial results: two an element type, which reductions take in
    turn, so that none needs a barrier before it overwrites what the threads read in the one before. A buffer is called
    after the result of the first one that takes it."""
    sizes: dict[str, tuple[DType, int]] = {}
    taken: dict[DType, list[str]] = {}
    turns: dict[DType, int] = {}
    for reduction in reductions:
        source = decisions.fragments.get(reduction.source.buffer.name)
        if source is None:
            continue
        steps = reduction_steps(source, reduction, target)
        if steps.warps:
            dtype = accumulation_dtype(reduction)
            turn = turns[dtype] = turns.get(dtype, 0) + 1
            buffers = taken.setdefault(dtype, [])
            if turn <= 2:
                buffers.append(
                    _unused(
                        f"{reduction.target.buffer.name}_partials",
                        (*decisions.fragments, *decisions.shared, *sizes),
                    )
                )
            name = buffers[(turn - 1) % 2]
            elements = steps.shares * prod(reduced(source, reduction).tile)
            sizes[name] = (dtype, max(sizes.get(name, (dtype, 0))[1], elements))
            decisions.partials[reduction] = name
    for name, (dtype, elements) in sizes.items():
        decisions.scratch.append(Buffer(name, (build.const(elements),), dtype, "shared"))
        decisions.shared[name] = row_major((elements,), dtype)
        decisions.conflicts[name] = 0
        decisions.reasons[name] = "partial results of reductions across warps"


def _unused(name: str, taken: Iterable[str]) -> str:
    """The name, or one with a number behind it."""
    others = set(taken)
    number = next(
        number for number in count(1) if (name if number == 1 else f"{name}_{number}") not in others
    )
    return name if number == 1 else f"{name}_{number}"
