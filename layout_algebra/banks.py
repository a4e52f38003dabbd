"""Exact counting of shared-memory bank conflicts.

A bank is 4 bytes wide. Hardware serves one access of a warp in phases, groups of lanes; in a phase each bank
gives one word a cycle, to all lanes that want it. A conflict is a cycle more than one a phase.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from layout_algebra.errors import LayoutError, MisalignedAccess, ProfileError
from layout_algebra.fragment import Fragment, check_tile
from layout_algebra.layout import OffsetMap

Phases: TypeAlias = Sequence[Sequence[int]]

BANK_BYTES = 4


def consecutive_phases(lanes: int, lanes_per_phase: int) -> tuple[tuple[int, ...], ...]:
    """Lanes 0 … n-1, n … 2n-1, and so on. Raises LayoutError unless `lanes_per_phase` divides `lanes`."""
    if lanes_per_phase < 1 or lanes % lanes_per_phase:
        raise LayoutError(f"{lanes} lanes are not phases of {lanes_per_phase}")
    return tuple([tuple(range(start, start + lanes_per_phase)) for start in range(0, lanes, lanes_per_phase)])


def default_phases(lanes: int, access_bytes: int, banks: int = 32) -> tuple[tuple[int, ...], ...]:
    """NVIDIA's rule: consecutive lanes, as many as fill all banks once.

    With 32 banks that is a warp of 32 lanes for accesses of 4 bytes (and narrower ones), half a warp for 8, a
    quarter for 16.
    """
    width = max(access_bytes, BANK_BYTES)
    return consecutive_phases(lanes, min(lanes, banks * BANK_BYTES // width))


def phase_cycles(
    byte_addresses: Sequence[int | None], access_bytes: int, banks: int = 32, phases: Phases | None = None
) -> tuple[int, ...]:
    """Cycles of each phase: the most distinct words that any bank has to give. Arguments and errors as
    `bank_conflicts`.
    """
    if access_bytes not in (1, 2, 4, 8, 16):
        raise LayoutError(f"an access is 1, 2, 4, 8 or 16 bytes wide, not {access_bytes}")
    for lane, address in enumerate(byte_addresses):
        if address is not None and address % access_bytes:
            raise MisalignedAccess(f"lane {lane} accesses {access_bytes} bytes at address {address}")
    if phases is None:
        phases = default_phases(len(byte_addresses), access_bytes, banks)
    served = sorted(lane for phase in phases for lane in phase)
    if served != list(range(len(byte_addresses))):
        raise ProfileError(f"the phases do not serve each of the {len(byte_addresses)} lanes exactly once")
    words_each = max(access_bytes // BANK_BYTES, 1)
    cycles = []
    for phase in phases:
        addresses = (byte_addresses[lane] for lane in phase)
        first_words = {address // BANK_BYTES for address in addresses if address is not None}
        load = [0] * banks
        for first in first_words:
            for word in range(first, first + words_each):
                load[word % banks] += 1
        cycles.append(max(load))
    return tuple(cycles)


def bank_conflicts(
    byte_addresses: Sequence[int | None], access_bytes: int, banks: int = 32, phases: Phases | None = None
) -> int:
    """Cycles lost by one access of a warp: over all phases, the most distinct words of any bank, less one.

    `byte_addresses` holds one address a lane, None for an inactive lane. `access_bytes` is 1, 2, 4, 8 or 16.
    Lanes that want the same word share it. `phases` lists the lanes served together, each lane once; by
    default they are NVIDIA's (`default_phases`). Other hardware differs: CDNA, for instance, serves a 16-byte
    read of LDS by lanes 0-3 with 20-23, 4-7 with 16-19 and so on.

    Raises MisalignedAccess where an address is no multiple of `access_bytes`, LayoutError on another width,
    ProfileError where the phases do not serve each lane exactly once.
    """
    return sum(max(cycles - 1, 0) for cycles in phase_cycles(byte_addresses, access_bytes, banks, phases))


def matrix_conflicts(row_byte_addresses: Sequence[int], banks: int = 32) -> int:
    """Cycles lost by ldmatrix or stmatrix: each 8 x 8 matrix is one phase of 8 rows of 16 bytes.

    `row_byte_addresses` holds 8 addresses a matrix, in the order of the lanes that give them. Raises
    MisalignedAccess where a row does not start at a multiple of 16 bytes, LayoutError unless there are 8 rows
    a matrix. Source: PTX ISA, "ldmatrix".
    """
    return bank_conflicts(row_byte_addresses, 16, banks, consecutive_phases(len(row_byte_addresses), 8))


@lru_cache(maxsize=4096)
def fragment_conflicts(
    fragment: Fragment,
    memory: OffsetMap,
    element_bytes: int,
    access_elements: int = 1,
    warp_size: int = 32,
    banks: int = 32,
    phases: tuple[tuple[int, ...], ...] | None = None,
) -> int:
    """Cycles lost, over all warps, when every thread moves its values to or from `memory`, `access_elements`
    at a time.

    Values v, v+1, … of one access must lie in a row in `memory`, which is a layout of the fragment's tile in
    elements of `element_bytes`.

    Raises ProfileError where `memory` is no layout of the tile, LayoutError where threads or values do not
    divide or values of one access are not contiguous, MisalignedAccess as `bank_conflicts`.
    """
    check_tile(fragment, memory)
    if fragment.threads % warp_size or fragment.values % access_elements:
        raise LayoutError(
            f"{fragment.threads} threads x {fragment.values} values are not warps of {warp_size} with accesses of "
            f"{access_elements} elements"
        )
    offsets = fragment.offsets_in(memory)
    threads = fragment.threads
    lost = 0
    for value in range(0, fragment.values, access_elements):
        first = offsets[value * threads : (value + 1) * threads]
        for step in range(1, access_elements):
            row = offsets[(value + step) * threads : (value + step + 1) * threads]
            if any(offset != start + step for offset, start in zip(row, first, strict=True)):
                raise LayoutError(
                    f"values {value} and {value + step} of some thread are not {step} elements apart in {memory}"
                )
        for warp in range(0, threads, warp_size):
            addresses = [offset * element_bytes for offset in first[warp : warp + warp_size]]
            lost += bank_conflicts(addresses, access_elements * element_bytes, banks, phases)
    return lost
