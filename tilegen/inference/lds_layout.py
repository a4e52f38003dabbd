"""Where CDNA's LDS keeps an operand tile: the swizzle (or padding) under which no access meets a bank conflict.

Candidates are counted exactly: every ds_read of the matrix cores' operands and every ds_write of the tile's transfer,
with the lanes that the target serves in one cycle (targets/atoms/lds_*.toml). The first without a conflict wins, the
fewest XORs first, then padding; should there be none, the one with the fewest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from tilegen.inference.conflicts import access_cost, offsets
from tilegen.inference.decisions import GemmDecision
from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.mfma_operands import operand_fragment
from tilegen.inference.shared import CHUNK_BYTES, SharedLayout, Xor
from tilegen.inference.tile_transfer import TileTransfer, straight_transfer, transposing_transfers
from tilegen.ir.nodes import Buffer
from tilegen.ir.types import DType
from tilegen.target import Target

Integers = npt.NDArray[np.int64]
DIVISORS = (1, 2, 4, 8, 16, 32)
MOST_XORS = 3


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """One kind of shared-memory access of the whole block: `fragment` over the tile as it is stored [rows, columns],
    its innermost registers the elements of one access."""

    kind: str  # load | store
    fragment: Fragment


def operand_layout(decision: GemmDecision, which: str, buffer: Buffer, target: Target) -> SharedLayout:
    """The layout of the shared tile that holds operand "a" or "b"; k is contiguous in it, whatever the tensor says."""
    return _chosen(decision, which, buffer, target)[0]


def operand_transfer(decision: GemmDecision, which: str, buffer: Buffer, target: Target) -> TileTransfer:
    """How the threads bring that tile from global memory, as the layout was counted with."""
    return _chosen(decision, which, buffer, target)[1]


def operand_conflicts(
    decision: GemmDecision, which: str, layout: SharedLayout, transfer: TileTransfer, target: Target
) -> int:
    """Cycles lost to bank conflicts by all reads of the operand and all stores of the tile, once each."""
    accesses = (SharedAccess("load", operand_fragment(decision, which)), transfer_stores(transfer))
    return sum(conflicts(layout, access, target) for access in accesses)


def conflicts(layout: SharedLayout, access: SharedAccess, target: Target) -> int:
    """Cycles that all instructions of all waves lose. `layout` is taken as it stores: rows, then columns."""
    fragment = access.fragment
    outer = tuple(mode for modes in reversed(fragment.registers[:-1]) for mode in modes)
    rows, columns = _coordinates(fragment, outer, fragment.thread_count, prod(m.extent for m in outer))
    size = layout.dtype.bytes
    plain = SharedLayout(layout.stored, layout.dtype, layout.group, layout.xors, layout.padding)
    inside = (rows < plain.rows) & (columns < plain.columns)
    addresses = np.where(inside, offsets(plain, [rows, columns]) * size, -1)
    width = fragment.register_shape[-1] * size
    return access_cost(addresses, width, target.shared_phases(access.kind, width), target).lost


def transfer_stores(transfer: TileTransfer) -> SharedAccess:
    """The stores of a tile, over the tile as it is stored."""
    fragment = transfer.fragment
    if transfer.transposes:
        blocks, run, piece = fragment.registers
        turned = Fragment(fragment.tile, fragment.threads, (blocks, piece, run))
        fragment = turned.project((1, 0), (fragment.tile[1], fragment.tile[0]))
    return SharedAccess("store", fragment)


def _coordinates(
    fragment: Fragment, outer: tuple[Mode, ...], threads: int, instructions: int
) -> tuple[Integers, Integers]:
    """(rows, columns) of the first element of each access: [instructions, threads]."""
    sides = []
    for axis in (0, 1):
        lanes = _walk(np.arange(threads), fragment.threads, axis)
        registers = _walk(np.arange(instructions), outer, axis)
        sides.append(registers[:, None] + lanes[None, :])
    return sides[0], sides[1]


def _walk(index: Integers, modes: tuple[Mode, ...], axis: int) -> Integers:
    total = np.zeros_like(index)
    for mode in modes:
        total += index % mode.extent * mode.steps[axis]
        index = index // mode.extent
    return total


# ------------------------------------------------------------------------------------------- the search


def _chosen(
    decision: GemmDecision, which: str, buffer: Buffer, target: Target
) -> tuple[SharedLayout, TileTransfer]:
    """The layout and the transfer of an operand's buffer, chosen together."""
    shape = buffer.extents
    tile = (shape[-2], shape[-1])
    transposes = (decision.a_major if which == "a" else decision.b_major) == "MN"
    threads = decision.c.thread_count
    size = buffer.dtype.bytes
    transfers = (
        transposing_transfers(tile, threads, size, target.limits.cache_line_bytes)
        if transposes
        else (straight_transfer(tile, threads, size),)
    )
    stored = (tile[1], tile[0]) if transposes else tile
    reads = SharedAccess("load", operand_fragment(decision, which))
    found, position = _search(
        stored, buffer.dtype, reads, tuple(map(transfer_stores, transfers)), target.name
    )
    layout = SharedLayout(shape, buffer.dtype, found.group, found.xors, found.padding, transposes)
    return layout, transfers[position]


def best_layout(
    stored: tuple[int, int],
    dtype: DType,
    reads: SharedAccess,
    stores: tuple[SharedAccess, ...],
    target: Target,
) -> SharedLayout:
    """The layout of a tile stored as [rows, columns] under which these accesses lose the fewest cycles."""
    return _search(stored, dtype, reads, stores, target.name)[0]


@lru_cache(maxsize=256)
def _search(
    stored: tuple[int, int],
    dtype: DType,
    reads: SharedAccess,
    stores: tuple[SharedAccess, ...],
    target_name: str,
) -> tuple[SharedLayout, int]:
    """The best layout of a tile stored as [rows, columns], and which of the `stores` it goes with."""
    from tilegen.target import load_target

    target = load_target(target_name)
    best: tuple[int, SharedLayout, int] | None = None
    for layout, promising in _candidates(stored, dtype, reads, stores, target):
        lost_reads = conflicts(layout, reads, target)
        for position in promising:
            lost = lost_reads + conflicts(layout, stores[position], target)
            if best is None or lost < best[0]:
                best = (lost, layout, position)
            if lost == 0:
                return layout, position
    assert best is not None
    return best[1], best[2]


def _candidates(
    stored: tuple[int, int],
    dtype: DType,
    reads: SharedAccess,
    stores: tuple[SharedAccess, ...],
    target: Target,
) -> Iterator[tuple[SharedLayout, tuple[int, ...]]]:
    """Layouts, simplest first, with the stores that may go with each: those that one phase of one instruction does not
    rule out. Then, should none do, the plain one and paddings."""
    columns = stored[1]
    everything = tuple(range(len(stores)))
    chunk = CHUNK_BYTES // dtype.bytes
    xors = _xors(stored, chunk, target) if columns % chunk == 0 else []
    for count in range(MOST_XORS + 1):
        chosen = np.array(list(combinations(range(len(xors)), count)), dtype=np.int64)
        if not len(chosen):
            continue
        reading = _undisturbed(xors, chosen, stored, dtype, reads, target)
        storing = [_undisturbed(xors, chosen, stored, dtype, store, target) for store in stores]
        for index in np.flatnonzero(reading & np.any(storing, axis=0)):
            layout = SharedLayout(stored, dtype, columns, tuple(xors[number] for number in chosen[index]))
            yield layout, tuple(position for position in everything if storing[position][index])
    paddings = range(chunk, 4 * chunk + 1, chunk) if columns % chunk == 0 else ()
    for padding in (0, *paddings):
        yield SharedLayout(stored, dtype, columns, (), padding), everything
    yield from ((SharedLayout(stored, dtype, columns, (xor,)), everything) for xor in xors)


def _xors(stored: tuple[int, int], chunk: int, target: Target) -> list[Xor]:
    """XORs that stay in the tile: of the chunks of a row, or of rows that together span the banks."""
    rows, columns = stored
    chunks = columns // chunk
    slots = target.limits.banks * target.limits.bank_bytes // CHUNK_BYTES
    whole = chunks & -chunks == chunks
    fitting = [e for e in (16, 8, 4, 2) if e <= slots and (chunks % e == 0 or whole)]
    extents = sorted(fitting, key=lambda extent: (extent > chunks, -extent))
    return [
        Xor(divisor, extent)
        for extent in extents
        for divisor in DIVISORS
        if divisor < rows
        and rows % max(1, extent // chunks) == 0
        and (extent <= chunks or divisor >= extent // chunks)
    ]


def _undisturbed(
    xors: list[Xor],
    chosen: Integers,
    stored: tuple[int, int],
    dtype: DType,
    access: SharedAccess,
    target: Target,
) -> npt.NDArray[np.bool_]:
    """For each choice (numbers of `xors`), whether the first phase of the first instruction is free of conflicts."""
    fragment = access.fragment
    width = fragment.register_shape[-1] * dtype.bytes
    phase = list(target.shared_phases(access.kind, width)[0])
    rows, columns = _coordinates(fragment, (), fragment.thread_count, 1)
    row, column = rows[0, phase], columns[0, phase]
    chunk = CHUNK_BYTES // dtype.bytes
    if stored[1] % chunk:
        return np.ones(len(chosen), bool)
    places = np.tile(row * (stored[1] // chunk) + column // chunk, (len(chosen), 1))
    moves = np.array([row // xor.divisor % xor.extent for xor in xors])
    for position in range(chosen.shape[1]):
        places ^= moves[chosen[:, position]]
    addresses = places * CHUNK_BYTES + column % chunk * dtype.bytes
    banks, bank_bytes = target.limits.banks, target.limits.bank_bytes
    words = (addresses[:, :, None] // bank_bytes + np.arange(max(1, width // bank_bytes))).reshape(
        len(places), -1
    )
    line = np.arange(len(words))[:, None] * banks + words % banks
    load = np.bincount(line.ravel(), minlength=len(words) * banks).reshape(-1, banks)
    return np.asarray(load.max(axis=1) <= 1)
