"""Fragments: which thread and which register holds each element of a tile.

A fragment is a thread-value layout with vector strides: the thread index and the register index decompose,
fastest first, into modes, and each mode steps along the axes of the tile. Flattening the axes column-major gives
the Shape:Stride thread-value layout of CuTe's MMA_Traits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

Coordinates = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mode:
    """`extent` positions, each `steps` further along the tile's axes; all steps 0 means replication."""

    extent: int
    steps: Coordinates

    def project(self, axes: tuple[int, ...]) -> Mode:
        """The mode seen on a choice (and order) of axes."""
        return Mode(self.extent, tuple(self.steps[axis] for axis in axes))

    @property
    def replicates(self) -> bool:
        return not any(self.steps)


def decompose(index: int, modes: tuple[Mode, ...], rank: int) -> Coordinates:
    """The tile coordinates of a thread or register index."""
    coordinates = [0] * rank
    for mode in modes:
        index, digit = divmod(index, mode.extent)
        for axis, step in enumerate(mode.steps):
            coordinates[axis] += digit * step
    return tuple(coordinates)


def merged_modes(modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
    """Neighbouring modes that continue each other become one; extents of 1 vanish."""
    merged: list[Mode] = []
    for mode in modes:
        if mode.extent == 1:
            continue
        if merged:
            last = merged[-1]
            if mode.steps == tuple(last.extent * step for step in last.steps):
                merged[-1] = Mode(last.extent * mode.extent, last.steps)
                continue
        merged.append(mode)
    return tuple(merged)


@dataclass(frozen=True, slots=True)
class Fragment:
    """The distribution of a tile over threads and registers.

    `tile` is the logical extent of each axis; coordinates at or beyond it belong to nobody (what the threads do
    not divide evenly is guarded). `threads` decompose the thread index, fastest first. `registers` has one
    entry for each dimension of the register array, outermost first, each decomposed fastest first.
    """

    tile: Coordinates
    threads: tuple[Mode, ...]
    registers: tuple[tuple[Mode, ...], ...]

    @property
    def rank(self) -> int:
        return len(self.tile)

    @property
    def thread_count(self) -> int:
        return prod(mode.extent for mode in self.threads)

    @property
    def register_shape(self) -> tuple[int, ...]:
        """Extents of the register array, outermost first; never empty."""
        return tuple(prod(mode.extent for mode in modes) for modes in self.registers)

    @property
    def register_count(self) -> int:
        """Elements that one thread holds."""
        return prod(self.register_shape)

    @property
    def replication(self) -> int:
        """How many threads hold each element."""
        return prod(mode.extent for mode in self.threads if mode.replicates)

    @property
    def padded(self) -> Coordinates:
        """The extents that the modes cover; larger than `tile` where threads do not divide it."""
        modes = (*self.threads, *(mode for modes in self.registers for mode in modes))
        return tuple(
            1 + sum((mode.extent - 1) * mode.steps[axis] for mode in modes if mode.steps[axis] > 0)
            for axis in range(self.rank)
        )

    @property
    def exact(self) -> bool:
        """Whether every register of every thread holds an element of the tile."""
        return self.padded == self.tile

    def thread_coordinates(self, thread: int) -> Coordinates:
        return decompose(thread, self.threads, self.rank)

    def register_coordinates(self, register: tuple[int, ...]) -> Coordinates:
        total = [0] * self.rank
        for index, modes in zip(register, self.registers, strict=True):
            for axis, step in enumerate(decompose(index, modes, self.rank)):
                total[axis] += step
        return tuple(total)

    def coordinates(self, thread: int, register: tuple[int, ...]) -> Coordinates:
        return tuple(
            a + b
            for a, b in zip(self.thread_coordinates(thread), self.register_coordinates(register), strict=True)
        )

    def each_register(self) -> Iterator[tuple[int, ...]]:
        """Register indices in memory order."""
        return product(*(range(extent) for extent in self.register_shape))

    def project(self, axes: tuple[int, ...], tile: Coordinates) -> Fragment:
        """The fragment of a tile that has only these axes (in this order): threads that differ elsewhere hold
        copies, registers that differ elsewhere are one register."""
        threads = tuple(mode.project(axes) for mode in self.threads)
        registers = []
        for modes in self.registers:
            kept = tuple(mode for mode in (m.project(axes) for m in modes) if not mode.replicates)
            if kept:
                registers.append(kept)
        if not registers:
            registers = [(Mode(1, (0,) * len(axes)),)]
        return Fragment(tile, threads, tuple(registers))

    def turned(self) -> Fragment:
        """The fragment of the transposed tile of a matrix."""
        return self.project((1, 0), (self.tile[1], self.tile[0]))

    def normalised(self) -> Fragment:
        """The same distribution with mergeable modes merged and one flat register dimension."""
        flat = merged_modes(tuple(mode for modes in reversed(self.registers) for mode in modes))
        return Fragment(self.tile, merged_modes(self.threads), (flat,))

    def same_distribution(self, other: Fragment) -> bool:
        """Whether each thread holds the same elements in registers of the same order."""
        return self == other or self.normalised() == other.normalised()

    def contiguous_registers(self, axis: int) -> int:
        """How many registers in a row (of the innermost dimension) walk along the axis element by element."""
        run = 1
        for mode in self.registers[-1]:
            wanted = tuple(run if a == axis else 0 for a in range(self.rank))
            if mode.steps != wanted:
                break
            run *= mode.extent
        return run

    def __str__(self) -> str:
        """Shape:Stride of the thread-value layout; strides are those of the tile in row-major order."""
        pitch = [1] * self.rank
        for axis in range(self.rank - 2, -1, -1):
            pitch[axis] = pitch[axis + 1] * self.tile[axis + 1]

        def side(modes: tuple[Mode, ...]) -> tuple[str, str]:
            modes = merged_modes(modes) or (Mode(1, (0,) * self.rank),)
            strides = [str(sum(s * p for s, p in zip(m.steps, pitch, strict=True))) for m in modes]
            extents = [str(m.extent) for m in modes]
            if len(modes) == 1:
                return extents[0], strides[0]
            return f"({', '.join(extents)})", f"({', '.join(strides)})"

        flat = tuple(mode for modes in reversed(self.registers) for mode in modes)
        thread, value = side(self.threads), side(flat)
        return f"({thread[0]}, {value[0]}):({thread[1]}, {value[1]})"


def blocked(tile: Coordinates, threads: int, vector: int) -> Fragment:
    """The coalesced partition: `vector` elements a thread along the last axis, threads along the last axis first,
    then along the axes before it; registers repeat what is left. What does not divide is padded.

    Raises:
        ValueError: when `vector` does not divide the last extent.
    """
    rank = len(tile)
    if tile[-1] % vector:
        raise ValueError(f"a vector of {vector} does not divide a row of {tile[-1]}")

    def along(axis: int, step: int) -> Coordinates:
        return tuple(step if a == axis else 0 for a in range(rank))

    thread_modes: list[Mode] = []
    repeats: list[tuple[Mode, ...]] = []
    left = threads
    for axis in range(rank - 1, -1, -1):
        unit = vector if axis == rank - 1 else 1
        pieces = -(-tile[axis] // unit)
        here = min(left, _power_of_two_at_least(pieces) if left & (left - 1) == 0 else pieces)
        while left % here:
            here -= 1
        if here > 1:
            thread_modes.append(Mode(here, along(axis, unit)))
        left //= here
        rest = -(-pieces // here)
        if rest > 1:
            repeats.append((Mode(rest, along(axis, unit * here)),))
    if left > 1:
        thread_modes.append(Mode(left, (0,) * rank))
    registers = (
        (*reversed(repeats), (Mode(vector, along(rank - 1, 1)),)) if vector > 1 else tuple(reversed(repeats))
    )
    return Fragment(tile, tuple(thread_modes), registers or ((Mode(1, (0,) * rank),),))


def _power_of_two_at_least(value: int) -> int:
    return 1 << (value - 1).bit_length()
