"""LDS of one workgroup: bytes, who touched them since the last barrier, and the banks that an access meets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cdna_simulator.errors import SimulationError
from cdna_simulator.memory import Bytes

_BANKS = 32
_BANK_BYTES = 4
_LANES = 64
_POISON = 0xFF  # makes NaN of 2, 4 and 8 bytes of un-written LDS

Addresses = NDArray[np.int64]


def _consecutive(lanes: int) -> list[list[int]]:
    return [list(range(first, first + lanes)) for first in range(0, _LANES, lanes)]


# Lanes of a 16-byte read that meet the banks together, for the first half of the wave (ROCm documentation,
# "Understanding AMD GPU LDS and bank conflicts"); the second half is alike.
_READ_16_HALF = [
    [0, 1, 2, 3, 20, 21, 22, 23],
    [4, 5, 6, 7, 16, 17, 18, 19],
    [8, 9, 10, 11, 28, 29, 30, 31],
    [12, 13, 14, 15, 24, 25, 26, 27],
]
_READ_16 = [[half + lane for lane in group] for half in (0, 32) for group in _READ_16_HALF]
_PHASES = {
    ("read", 4): _consecutive(32),
    ("read", 8): _consecutive(16),
    ("read", 16): _READ_16,
    ("write", 4): _consecutive(32),
    ("write", 8): _consecutive(16),
    ("write", 16): _consecutive(8),
}


@dataclass(slots=True)
class BankCount:
    """LDS instructions of one kind: how many, in how many phases, and the cycles lost to bank conflicts."""

    instructions: int = 0
    phases: int = 0
    conflict_cycles: int = 0


class LocalDataShare:
    """The LDS of one workgroup."""

    def __init__(self, size: int, banks: dict[str, BankCount]) -> None:
        self._bytes = np.full(size, _POISON, np.uint8)
        self._readers = np.zeros(size, np.uint32)  # bit w: wave w, since the last barrier
        self._writers = np.zeros(size, np.uint32)
        self._banks = banks

    def barrier(self) -> None:
        """All waves met: what came before is visible to all."""
        self._readers[:] = 0
        self._writers[:] = 0

    def read(self, wave: int, lanes: NDArray[np.intp], addresses: Addresses, size: int) -> Bytes:
        index = self._index(addresses, size)
        self._check_race(wave, index, writes=False)
        self._readers[index] |= np.uint32(1 << wave)
        self._count("read", lanes, addresses, size)
        return self._bytes[index]

    def write(self, wave: int, lanes: NDArray[np.intp], addresses: Addresses, data: Bytes) -> None:
        index = self._index(addresses, data.shape[1])
        self._check_race(wave, index, writes=True)
        self._writers[index] |= np.uint32(1 << wave)
        self._count("write", lanes, addresses, data.shape[1])
        self._bytes[index] = data

    def peek(self, addresses: Addresses, size: int) -> Bytes:
        """Bytes for an atomic: atomics of several waves do not race with each other."""
        return self._bytes[self._index(addresses, size)]

    def poke(self, addresses: Addresses, data: Bytes) -> None:
        """The other half of an atomic."""
        self._bytes[self._index(addresses, data.shape[-1])] = data

    def begin_direct_load(self, wave: int, addresses: Addresses, size: int) -> None:
        """A direct load was issued: until it lands, its bytes are poison."""
        index = self._index(addresses, size)
        self._check_race(wave, index, writes=True)
        self._writers[index] |= np.uint32(1 << wave)
        self._bytes[index] = _POISON

    def finish_direct_load(self, addresses: Addresses, data: Bytes) -> None:
        self._bytes[self._index(addresses, data.shape[1])] = data

    def _index(self, addresses: Addresses, size: int) -> NDArray[np.int64]:
        if (addresses % size if size in (1, 2, 4, 8, 16) else addresses % 4).any():
            raise SimulationError(f"misaligned LDS access of {size} bytes")
        if (addresses < 0).any() or (addresses + size > len(self._bytes)).any():
            raise SimulationError(f"LDS access of {size} bytes past the {len(self._bytes)} bytes allocated")
        return addresses[:, None] + np.arange(size)

    def _check_race(self, wave: int, index: NDArray[np.int64], writes: bool) -> None:
        """Two waves that touch one byte between the same two barriers, one of them writing, race."""
        touched = self._writers[index]
        if writes:
            touched = touched | self._readers[index]
        others = touched & ~np.uint32(1 << wave)
        if others.any():
            address = int(index[others != 0][0])
            raise SimulationError(
                f"LDS race at byte {address}: wave {wave} {'writes' if writes else 'reads'} what wave "
                f"{int(others[others != 0][0]).bit_length() - 1} touched since the last barrier"
            )

    def _count(self, access: str, lanes: NDArray[np.intp], addresses: Addresses, size: int) -> None:
        phases = _PHASES.get((access, max(size, _BANK_BYTES)))
        if phases is None or not len(lanes):
            return
        count = self._banks.setdefault(f"{access}_b{8 * size}", BankCount())
        count.instructions += 1
        first_word = np.full(_LANES, -1, np.int64)
        first_word[lanes] = addresses // _BANK_BYTES
        words_each = max(size // _BANK_BYTES, 1)
        for phase in phases:
            active = first_word[phase]
            active = active[active >= 0]
            if len(active):
                words = np.unique(active[:, None] + np.arange(words_each))
                count.phases += 1
                count.conflict_cycles += int(np.bincount(words % _BANKS).max()) - 1
