"""The layout of shared tiles that no tensor-core operand decides: the first candidate without bank conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilegen.inference.conflicts import FREE, Cost, loop_cost, shared_accesses
from tilegen.inference.fragment import Fragment
from tilegen.inference.loops import Access, Loop
from tilegen.inference.shared import CHUNK_BYTES, SharedLayout, Xor, row_major, swizzled
from tilegen.inference.vector_access import access_width
from tilegen.ir.nodes import Buffer
from tilegen.ir.types import DType
from tilegen.target import Target

LINE_CHUNKS = 8  # of 16 bytes, in the 128 bytes that 32 banks hold side by side


@dataclass(frozen=True, slots=True)
class Choice:
    """A layout, the conflict cycles of one execution of every access under it, and how many were tried."""

    layout: SharedLayout
    conflicts: int
    tried: int


def choose_layout(
    buffer: Buffer,
    loops: list[tuple[Loop, Fragment]],
    known: Mapping[str, int],
    target: Target,
    loaded: bool = False,
) -> Choice:
    """The first layout (plain, then swizzles, then padding) under which no access conflicts and all vectors are as wide
    as the plain layout allows. Where there is none: the one that takes the banks the fewest cycles. Of a tile that a
    pipeline has `loaded`, rows longer than a TMA box are cut into groups of columns."""
    widest = target.tma.box_extent if loaded and target.tma is not None else 0
    plain = _plain(buffer.extents, buffer.dtype, widest)
    uses = list(_uses(buffer, loops))
    best: tuple[int, int] | None = None
    chosen, tried = plain, 0
    ordered = candidates(buffer.extents, buffer.dtype, widest)
    wide = [layout for layout in ordered if not any(_narrows(layout, plain, *use, known) for use in uses)]
    for layout in (*wide, *(layout for layout in ordered if layout not in wide)):
        tried += 1
        cost = _cost(layout, uses, known, target)
        rank = (cost.cycles, cost.lost)
        if best is None or rank < best:
            best, chosen = rank, layout
        if cost.lost == 0 and layout in wide:
            break
    assert best is not None
    return Choice(chosen, best[1], tried)


Use = tuple[Access, tuple[str, ...], Fragment]


def _uses(buffer: Buffer, loops: list[tuple[Loop, Fragment]]) -> Iterator[Use]:
    for loop, partition in loops:
        for access in shared_accesses(buffer, loop.accesses):
            yield access, loop.names, partition


def buffer_conflicts(
    buffer: Buffer,
    layout: SharedLayout,
    loops: list[tuple[Loop, Fragment]],
    known: Mapping[str, int],
    target: Target,
) -> int:
    """Conflict cycles of one execution of every element-wise access to a buffer."""
    return _cost(layout, list(_uses(buffer, loops)), known, target).lost


def _cost(layout: SharedLayout, uses: list[Use], known: Mapping[str, int], target: Target) -> Cost:
    total = FREE
    for access, names, partition in uses:
        total += loop_cost(access, names, partition, layout, known, target)
    return total


def _narrows(
    layout: SharedLayout,
    plain: SharedLayout,
    access: Access,
    names: tuple[str, ...],
    partition: Fragment,
    known: Mapping[str, int],
) -> bool:
    wide = access_width(access, names, partition, known, plain)
    narrow = access_width(access, names, partition, known, layout)
    return (narrow[1] if narrow else 1) < (wide[1] if wide else 1)


def _plain(shape: tuple[int, ...], dtype: DType, widest: int) -> SharedLayout:
    """Rows one after another, in groups of at most `widest` columns (0: any number)."""
    if not widest or shape[-1] <= widest or len(shape) < 2:
        return row_major(shape, dtype)
    groups = next(
        count for count in range(2, shape[-1] + 1) if shape[-1] % count == 0 and shape[-1] // count <= widest
    )
    return SharedLayout(shape, dtype, shape[-1] // groups)


@lru_cache(maxsize=64)
def candidates(shape: tuple[int, ...], dtype: DType, widest: int = 0) -> tuple[SharedLayout, ...]:
    """Layouts to try, the preferred first: plain, the hardware's swizzle, other XORs of 16-byte chunks, padding."""
    plain = _plain(shape, dtype, widest)
    found = [plain]
    if len(shape) > 1:
        found.append(swizzled(shape, dtype))
        found += [SharedLayout(shape, dtype, shape[-1], xors) for xors in _xors(shape, dtype)]
        found += [
            row_major(shape, dtype, width // dtype.bytes)
            for width in (4, 8, 16, 32)
            if width % dtype.bytes == 0
        ]
    return tuple(dict.fromkeys(found))


def _xors(shape: tuple[int, ...], dtype: DType) -> Iterator[tuple[Xor, ...]]:
    """XORs that permute the chunks of a row, single ones first, then those that permute the rows of a bank line too."""
    columns = shape[-1]
    if columns * dtype.bytes % CHUNK_BYTES:
        return
    chunks = columns * dtype.bytes // CHUNK_BYTES
    extent = min(LINE_CHUNKS, chunks & -chunks)
    divisors = (1, 2, 4, 8, 16, 32)
    if extent > 1:
        singles = [Xor(divisor, extent) for divisor in divisors]
        yield from ((xor,) for xor in singles)
        yield from ((singles[0], xor) for xor in singles[1:])
    moved = LINE_CHUNKS // extent  # neighbouring rows in one line of all banks
    if moved > 1 and extent == chunks and shape[-2] % moved == 0:  # they stay in the last axis of rows
        yield from ((Xor(divisor, LINE_CHUNKS),) for divisor in divisors if divisor * chunks >= moved)
