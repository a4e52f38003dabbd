"""The state of one wave: 64 lanes of vector and accumulation registers, scalar registers, masks, loads in flight."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cdna_simulator.local_data_share import LocalDataShare
from cdna_simulator.memory import GlobalMemory

LANES = 64
FULL = (1 << LANES) - 1
VCC = 106  # scalar registers 106 and 107 hold VCC
M0 = 124
_REGISTERS = 512
_SCALARS = 128
_BITS = np.uint64(1) << np.arange(LANES, dtype=np.uint64)

Mask = NDArray[np.bool_]


class Wave:
    """`vector` and `accumulation` are [register, lane] of 32 bits. `next` is the index of the instruction to run."""

    def __init__(self, number: int, lanes: int, memory: GlobalMemory, lds: LocalDataShare) -> None:
        self.number = number
        self.memory = memory
        self.lds = lds
        self.vector = np.zeros((_REGISTERS, LANES), np.uint32)
        self.accumulation = np.zeros((_REGISTERS, LANES), np.uint32)
        self.scalar = [0] * _SCALARS
        self.scc = False
        self.next = 0
        self.done = False
        self.in_flight: list[Callable[[], None] | None] = []
        self.set_exec(FULL >> (LANES - lanes))

    def set_exec(self, bits: int) -> None:
        self.exec = bits
        self.mask = lanes_of(bits)
        self.active = np.flatnonzero(self.mask)
        self.full = bits == FULL

    @property
    def vcc(self) -> int:
        return self.scalar[VCC] | self.scalar[VCC + 1] << 32

    def retire(self, remaining: int) -> None:
        """s_waitcnt vmcnt(remaining): older memory operations have finished."""
        while len(self.in_flight) > remaining:
            landing = self.in_flight.pop(0)
            if landing:
                landing()


def lanes_of(bits: int) -> Mask:
    """A 64-bit lane mask as booleans."""
    return (np.uint64(bits) & _BITS) != 0


def bits_of(lanes: Mask) -> int:
    """Booleans as a 64-bit lane mask."""
    return int(_BITS[lanes].sum(dtype=np.uint64))
