"""Exact bank conflicts of the accesses that threads make to shared memory.

Source of the rule: a bank gives one 4-byte word a cycle to all lanes that want it; lanes meet in the phases that the
target's description lists for each kind and width of access.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy

from tilegen.inference.access import coordinates, inside
from tilegen.inference.fragment import Fragment
from tilegen.inference.index_math import Integers, NotStatic, evaluate
from tilegen.inference.loops import Access
from tilegen.inference.shared import SharedLayout
from tilegen.inference.vector_access import access_width
from tilegen.ir.expressions import Expr, Var
from tilegen.ir.nodes import Buffer
from tilegen.ir.walk import each_node
from tilegen.target import Target


def offsets(layout: SharedLayout, indices: list[Integers]) -> Integers:
    """Element offsets of arrays of coordinates."""
    if layout.transposed:
        indices = [*indices[:-2], indices[-1], indices[-2]]
    row = numpy.zeros_like(indices[-1])
    for extent, index in zip(layout.stored[:-1], indices[:-1], strict=True):
        row = row * extent + index
    column = indices[-1] % layout.group
    chunk = column // layout.chunk
    place = row
    for xor in layout.row_xors:
        place = place ^ (row // xor.divisor % xor.extent)
    for xor in layout.chunk_xors:
        chunk = chunk ^ (row // xor.divisor % xor.extent)
    result: Integers = (
        indices[-1] // layout.group * layout.group_elements
        + place * layout.pitch
        + chunk * layout.chunk
        + column % layout.chunk
    )
    return result


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of the banks: all, and those lost to conflicts."""

    cycles: int
    lost: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.cycles + other.cycles, self.lost + other.lost)


FREE = Cost(0, 0)


def access_cost(addresses: Integers, width: int, phases: tuple[tuple[int, ...], ...], target: Target) -> Cost:
    """What accesses cost. `addresses` are bytes, [accesses, threads], below 0 for idle threads; `width` is the bytes of
    one access."""
    limits = target.limits
    warp = limits.warp_size
    words_each = max(1, width // limits.bank_bytes)
    if addresses.shape[1] % warp:
        padding = -addresses.shape[1] % warp
        addresses = numpy.pad(addresses, ((0, 0), (0, padding)), constant_values=-1)
    warps = addresses.reshape(-1, warp)
    total = FREE
    for group in phases:
        lanes = warps[:, list(group)]
        first = numpy.where(lanes >= 0, lanes // limits.bank_bytes, -limits.banks * 2)
        words = (first[:, :, None] + numpy.arange(words_each)).reshape(len(lanes), -1)
        words.sort(axis=1)
        distinct = words >= 0
        distinct[:, 1:] &= words[:, 1:] != words[:, :-1]
        places = numpy.arange(len(words))[:, None] * limits.banks + words % limits.banks
        load = numpy.bincount(places[distinct], minlength=len(words) * limits.banks)
        worst = load.reshape(len(words), limits.banks).max(axis=1)
        total += Cost(int(worst.sum()), int(numpy.maximum(worst - 1, 0).sum()))
    return total


def cycles_lost(addresses: Integers, width: int, phases: tuple[tuple[int, ...], ...], target: Target) -> int:
    """The conflict cycles of `access_cost`."""
    return access_cost(addresses, width, phases, target).lost


def loop_cost(
    access: Access,
    names: tuple[str, ...],
    partition: Fragment,
    layout: SharedLayout,
    known: Mapping[str, int],
    target: Target,
) -> Cost:
    """What one execution of a shared-memory access in a parallel loop costs, over the whole block. Variables from
    outside the loop count as 0. Indices that depend on data are not counted."""
    vector = access_width(access, names, partition, known, layout)
    elements = vector[1] if vector else 1
    values: dict[str, Integers] = coordinates(partition, names)
    active = inside(partition)
    if elements > 1:
        values = {name: value[:, ::elements] for name, value in values.items()}
        active = active[:, ::elements]
    for name in outer_variables(access.indices, names):
        values[name] = numpy.zeros((1, 1), dtype=numpy.int64)
    try:
        indices = [numpy.broadcast_to(evaluate(index, values), active.shape) for index in access.indices]
    except NotStatic:
        return FREE
    extents = access.buffer.extents
    for index, extent in zip(indices, extents, strict=True):
        active = active & (index >= 0) & (index < extent)
    width = elements * access.buffer.dtype.bytes
    addresses = numpy.where(active, offsets(layout, indices) * access.buffer.dtype.bytes, -1)
    kind = "load" if access.kind == "load" else "store"
    phases = target.shared_phases(kind, width)
    owners = _writers(partition) if kind == "store" else None
    if owners is not None:
        addresses = numpy.where(owners[:, None], addresses, -1)
    return access_cost(addresses.T, width, phases, target)


def _writers(partition: Fragment) -> Integers:
    """Which threads store: of those that hold copies of an element, the first."""
    result = numpy.ones(1, dtype=bool)
    for mode in partition.threads:
        digit = numpy.arange(mode.extent) == 0 if mode.replicates else numpy.ones(mode.extent, dtype=bool)
        result = (digit[:, None] & result[None, :]).reshape(-1)
    return result


def outer_variables(indices: tuple[Expr, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Variables of index expressions that are not the loop's own."""
    found = [node.name for node in each_node(indices) if isinstance(node, Var)]
    return tuple(name for name in dict.fromkeys(found) if name not in names)


def shared_accesses(buffer: Buffer, accesses: tuple[Access, ...]) -> tuple[Access, ...]:
    """A loop's accesses to one shared buffer, each once."""
    return tuple(dict.fromkeys(access for access in accesses if access.buffer.name == buffer.name))
