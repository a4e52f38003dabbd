"""Global memory: allocations with guard zones between them; any access outside an allocation traps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cdna_simulator.errors import SimulationError

Bytes = NDArray[np.uint8]
_BASE = 0x7F00_0000_0000
_GUARD = 4096
_ALIGNMENT = 256


class GlobalMemory:
    """A flat byte array. `valid` marks the bytes that belong to an allocation."""

    def __init__(self) -> None:
        self._bytes = np.zeros(_GUARD, np.uint8)
        self._valid = np.zeros(_GUARD, bool)

    def allocate(self, data: bytes) -> int:
        """Copies `data` in and returns its address."""
        start = len(self._bytes)
        size = (len(data) + _GUARD + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        self._bytes = np.concatenate([self._bytes, np.zeros(size, np.uint8)])
        self._valid = np.concatenate([self._valid, np.zeros(size, bool)])
        self._bytes[start : start + len(data)] = np.frombuffer(data, np.uint8)
        self._valid[start : start + len(data)] = True
        return _BASE + start

    def read_back(self, address: int, size: int) -> bytes:
        start = address - _BASE
        return self._bytes[start : start + size].tobytes()

    def load(self, addresses: NDArray[np.uint64], size: int) -> Bytes:
        """`size` bytes at each address: [lanes, size]."""
        return self._bytes[self._offsets(addresses, size)[:, None] + np.arange(size)]

    def store(self, addresses: NDArray[np.uint64], data: Bytes) -> None:
        """Lane by lane, so the last of two lanes at one address wins."""
        size = data.shape[1]
        self._bytes[self._offsets(addresses, size)[:, None] + np.arange(size)] = data

    def _offsets(self, addresses: NDArray[np.uint64], size: int) -> NDArray[np.int64]:
        offsets = (addresses - np.uint64(_BASE)).astype(np.int64)
        last = offsets + size - 1
        inside = (offsets >= 0) & (last < len(self._bytes))
        if inside.all() and self._valid[offsets].all() and self._valid[last].all():
            return offsets
        allocated = inside.copy()
        allocated[inside] = self._valid[offsets[inside]] & self._valid[last[inside]]
        lane = int(np.flatnonzero(~allocated)[0])
        raise SimulationError(
            f"global access of {size} bytes at {int(addresses[lane]):#x}: outside every allocation"
        )
