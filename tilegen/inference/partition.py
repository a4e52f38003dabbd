"""The partition of a parallel loop that no fragment decides: coalesced, vectorised, few registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.index_math import mentions
from tilegen.inference.loops import Access, Loop
from tilegen.inference.shared import SharedLayout
from tilegen.inference.vector_access import ACCESS_BYTES, aligned_elements, contiguous_axis
from tilegen.target import Target


def choose_partition(
    loop: Loop, threads: int, target: Target, known: Mapping[str, int], shared: Mapping[str, SharedLayout]
) -> Fragment:
    """The partition of a loop over its box.

    Lanes run along the axis that is contiguous in memory, each with as many neighbours as one access moves; whole
    warps stay on a row where there are enough rows, so that reductions along it stay in the warp. A loop that crosses
    shared memory (a transposition) has lanes along a row of memory for one cache line only, the others beside it, so
    that the lanes that meet in the banks lie in few rows of the shared tile. Among vector widths the fewest accesses
    win, then the fewest registers.
    """
    axis, widest = _vector_axis(loop, known, shared)
    order = (*(a for a in range(len(loop.extents)) if a != axis), axis)
    tile = tuple(loop.extents[a] for a in order)
    crossing = _crosses_shared(loop, axis, shared)
    warp = target.limits.warp_size
    candidates = []
    width = widest
    while width >= 1:
        if tile[-1] % width == 0:
            row = max(1, target.limits.cache_line_bytes // (width * crossing)) if crossing else None
            candidates.append((width, coalesced(tile, threads, width, warp, row)))
        width //= 2
    best = min(candidates, key=lambda item: (item[1].register_count // item[0], item[1].register_count))[1]
    back = tuple(order.index(a) for a in range(len(order)))
    return Fragment(
        loop.extents,
        tuple(mode.project(back) for mode in best.threads),
        tuple(tuple(mode.project(back) for mode in modes) for modes in best.registers),
    )


def _vector_axis(loop: Loop, known: Mapping[str, int], shared: Mapping[str, SharedLayout]) -> tuple[int, int]:
    """The loop axis that lanes walk along, and the widest access along it in elements: of global memory if the loop
    touches it (stores before loads), else of shared memory, else of registers."""
    best: tuple[int, int, int, int] | None = None
    for access in loop.accesses:
        layout = shared.get(access.buffer.name)
        axis = contiguous_axis(access, loop.names, layout)
        if axis is None or access.buffer.scope not in ("global", "shared"):
            continue
        width = aligned_elements(access, loop.names, axis, known, layout)
        rank = (
            int(access.buffer.scope == "global"),
            int(access.kind != "load"),
            width * _bits(access) // 8,
            width,
        )
        if best is None or rank[:3] > best[:3]:
            best, chosen = rank, axis
    if best is None:
        narrowest = min((_bits(access) for access in loop.accesses), default=32)
        last = len(loop.extents) - 1
        width = max(1, ACCESS_BYTES * 8 // max(8, narrowest))
        return last, width
    widths = [
        aligned_elements(access, loop.names, chosen, known, shared.get(access.buffer.name))
        for access in loop.accesses
        if access.buffer.scope in ("global", "shared")
        and contiguous_axis(access, loop.names, shared.get(access.buffer.name)) == chosen
    ]
    return chosen, max(widths)


def _crosses_shared(loop: Loop, axis: int, shared: Mapping[str, SharedLayout]) -> int:
    """The bytes of an element in global memory where the loop walks along `axis` there and across it in shared memory,
    else 0."""
    along = [
        _bits(access) // 8
        for access in loop.accesses
        if access.buffer.scope == "global" and contiguous_axis(access, loop.names) == axis
    ]
    across = any(
        access.buffer.scope == "shared"
        and any(mentions(index, loop.names[axis]) for index in access.indices)
        and contiguous_axis(access, loop.names, shared.get(access.buffer.name)) != axis
        for access in loop.accesses
    )
    return max(along) if along and across else 0


def _bits(access: Access) -> int:
    return max(8, access.buffer.dtype.bits)


def coalesced(
    tile: tuple[int, ...], threads: int, vector: int, warp: int, row: int | None = None
) -> Fragment:
    """`vector` elements a thread along the last axis, then lanes of a warp along it, then warps over the axes before
    it or along it, whichever takes fewer registers. `row` is how many lanes lie side by side along the last axis, where
    the whole warp shall not; those after them lie over the other axes first. What does not divide is padded.

    Raises:
        ValueError: when `vector` does not divide the last extent.
    """
    if tile[-1] % vector:
        raise ValueError(f"a vector of {vector} does not divide a row of {tile[-1]}")
    pieces = tile[-1] // vector
    lanes = min(_power_of_two_at_least(pieces), _largest_power_of_two_in(threads), row or warp)
    counts = [d for d in _divisors(threads // lanes) if d == 1 or lanes * d // 2 < pieces]
    found = (
        _distribute(tile, vector, (lanes, d) if row else (lanes * d, 1), threads // (lanes * d))
        for d in counts
    )
    return min(found, key=lambda fragment: fragment.register_count)


def _distribute(tile: tuple[int, ...], vector: int, across: tuple[int, int], left: int) -> Fragment:
    """`across` threads along the last axis: the first of them are the fastest, the others slower than all the rest."""
    rank = len(tile)

    def along(axis: int, step: int) -> tuple[int, ...]:
        return tuple(step if a == axis else 0 for a in range(rank))

    near, far = across
    thread_modes = [Mode(near, along(rank - 1, vector))]
    rest = -(-tile[-1] // (vector * near * far))
    repeats = [Mode(rest, along(rank - 1, vector * near * far))]
    for axis in range(rank - 2, -1, -1):
        here = max(d for d in _divisors(left) if d == 1 or d // 2 < tile[axis] or d <= tile[axis])
        thread_modes.append(Mode(here, along(axis, 1)))
        left //= here
        repeats.append(Mode(-(-tile[axis] // here), along(axis, here)))
    thread_modes += [Mode(far, along(rank - 1, vector * near)), Mode(left, (0,) * rank)]
    registers = [(mode,) for mode in reversed(repeats) if mode.extent > 1]
    if vector > 1:
        registers.append((Mode(vector, along(rank - 1, 1)),))
    kept = tuple(mode for mode in thread_modes if mode.extent > 1)
    return Fragment(tile, kept, tuple(registers) or ((Mode(1, (0,) * rank),),))


def _divisors(number: int) -> Iterator[int]:
    return (d for d in range(1, number + 1) if number % d == 0)


def _power_of_two_at_least(value: int) -> int:
    return 1 << (value - 1).bit_length()


def _largest_power_of_two_in(number: int) -> int:
    return number & -number


def spread(tile: tuple[int, ...], threads: int, target: Target) -> Fragment:
    """The partition of a tile that nothing else says anything about."""
    return coalesced(tile, threads, 1, target.limits.warp_size)
