"""Shared-memory tiles: where each element of a tile lies, which bytes a swizzle moves, what it costs in banks.

A tile is stored as column groups of rows, `[groups][rows][columns]`, each row optionally padded, and the 16-byte
chunks of a row are permuted by XOR with bits of the row number. The 128-, 64- and 32-byte swizzles of TMA and
wgmma (PTX ISA, "Swizzling modes") are the cases with one XOR.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from tilegen.ir.types import DType

CHUNK_BYTES = 16  # what a swizzle moves as one


@dataclass(frozen=True, slots=True)
class Xor:
    """chunk ^= row / divisor % extent, where chunks are counted through the rows of a group: an extent beyond the
    chunks of a row moves rows too."""

    divisor: int
    extent: int


HARDWARE_SWIZZLES = {128: Xor(1, 8), 64: Xor(2, 4), 32: Xor(4, 2)}  # by bytes of a row of a column group


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """Placement of a tile of `shape` (any rank; leading axes count as rows, the last as columns).

    `group` columns lie together in memory; a tile of more columns is a sequence of such groups. `padding`
    elements follow each row. `transposed` stores the last two axes exchanged: the first of them is contiguous.
    """

    shape: tuple[int, ...]
    dtype: DType
    group: int
    xors: tuple[Xor, ...] = ()
    padding: int = 0
    transposed: bool = False
    alignment: int = field(default=16)  # bytes

    @property
    def stored(self) -> tuple[int, ...]:
        """The tile's shape as it is stored."""
        if self.transposed:
            return (*self.shape[:-2], self.shape[-1], self.shape[-2])
        return self.shape

    @property
    def rows(self) -> int:
        return prod(self.stored[:-1])

    @property
    def columns(self) -> int:
        return self.stored[-1]

    @property
    def groups(self) -> int:
        return self.columns // self.group

    @property
    def chunk(self) -> int:
        """Elements in 16 bytes."""
        return CHUNK_BYTES // self.dtype.bytes

    @property
    def pitch(self) -> int:
        """Elements from one row of a group to the next."""
        return self.group + self.padding

    @property
    def group_elements(self) -> int:
        return self.rows * self.pitch

    @property
    def elements(self) -> int:
        return self.groups * self.group_elements

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.bytes

    @property
    def hardware_swizzle(self) -> int | None:
        """The row bytes of the TMA swizzle that this is (0: none); None when the hardware has no such mode."""
        if self.padding:
            return None
        if not self.xors:
            return 0
        row = self.group * self.dtype.bytes
        return row if self.xors == (HARDWARE_SWIZZLES.get(row),) else None

    @property
    def chunk_xors(self) -> tuple[Xor, ...]:
        """What the XORs do to the number of a chunk in its row."""
        return tuple(
            Xor(xor.divisor, min(xor.extent, self._row_chunks)) for xor in self.xors if self._row_chunks > 1
        )

    @property
    def row_xors(self) -> tuple[Xor, ...]:
        """What they do to the row that a chunk is stored in: row ^= row / divisor % extent."""
        chunks = self._row_chunks
        return tuple(Xor(x.divisor * chunks, x.extent // chunks) for x in self.xors if x.extent > chunks)

    @property
    def _row_chunks(self) -> int:
        return max(1, self.group // self.chunk)

    def offset(self, coordinates: tuple[int, ...]) -> int:
        """The element offset of a coordinate in the tile."""
        if self.transposed:
            coordinates = (*coordinates[:-2], coordinates[-1], coordinates[-2])
        row = 0
        for extent, coordinate in zip(self.stored[:-1], coordinates[:-1], strict=True):
            row = row * extent + coordinate
        group, column = divmod(coordinates[-1], self.group)
        chunk, rest = divmod(column, self.chunk)
        place = row
        for xor in self.row_xors:
            place ^= row // xor.divisor % xor.extent
        for xor in self.chunk_xors:
            chunk ^= row // xor.divisor % xor.extent
        return group * self.group_elements + place * self.pitch + chunk * self.chunk + rest

    def __str__(self) -> str:
        """`Sw<3,3,3> o (64, (64, 4)):(64, (1, 4096))`: swizzles on element offsets, then Shape:Stride. All XORs take
        the row as it was: one that moves rows comes last, which is leftmost."""
        base = self.chunk.bit_length() - 1
        swizzles = []
        for xor in sorted(self.xors, key=lambda xor: xor.extent <= self._row_chunks):
            bits = xor.extent.bit_length() - 1
            shift = (self.pitch * xor.divisor).bit_length() - 1 - base
            swizzles.append(f"Sw<{bits},{base},{shift}> o ")
        row_axes = self.stored[:-1]
        pitches = [self.pitch * prod(row_axes[axis + 1 :]) for axis in range(len(row_axes))]
        column_shape, column_stride = str(self.columns), "1"
        if self.groups > 1:
            column_shape, column_stride = f"({self.group}, {self.groups})", f"(1, {self.group_elements})"
        shape = [*map(str, row_axes), column_shape]
        stride = [*map(str, pitches), column_stride]
        if self.transposed:
            shape[-2:], stride[-2:] = shape[-2:][::-1], stride[-2:][::-1]
        if len(shape) == 1:
            return f"{''.join(swizzles)}{shape[0]}:{stride[0]}"
        return f"{''.join(swizzles)}({', '.join(shape)}):({', '.join(stride)})"


def row_major(shape: tuple[int, ...], dtype: DType, padding: int = 0) -> SharedLayout:
    """The plain layout."""
    return SharedLayout(shape, dtype, shape[-1], (), padding)


def swizzled(shape: tuple[int, ...], dtype: DType, transposed: bool = False) -> SharedLayout:
    """The widest hardware swizzle that the contiguous axis allows: 128-byte rows where they divide it, else 64
    or 32; no swizzle when not even 32 bytes divide it."""
    contiguous = shape[-2] if transposed else shape[-1]
    for row_bytes, xor in HARDWARE_SWIZZLES.items():
        columns = row_bytes // dtype.bytes
        if contiguous % columns == 0:
            # A swizzle repeats every 8 rows of its width: the atom's size is what the address must be aligned to.
            return SharedLayout(shape, dtype, columns, (xor,), 0, transposed, 8 * row_bytes)
    return SharedLayout(shape, dtype, contiguous, (), 0, transposed, 128)
