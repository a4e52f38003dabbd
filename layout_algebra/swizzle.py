"""XOR swizzles on element offsets, and layouts behind swizzles."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import index as as_integer

from layout_algebra.errors import CoordinateError, LayoutError
from layout_algebra.int_tuple import IntTuple, IntTupleLike
from layout_algebra.layout import Layout


@dataclass(frozen=True, slots=True)
class Swizzle:
    """`x ^ ((x & mask) >> shift)`: XORs `bits` bits of an offset, found at `base + shift`, onto those at
    `base`.

    A negative shift takes the bits at `base` and XORs them onto those at `base - shift`, as in CuTe. Offsets
    count elements: `Swizzle(3, 3, 3)` is the 128-byte swizzle of 2-byte elements. It is its own inverse.
    Raises LayoutError unless `abs(shift) >= bits` (the two fields would overlap) and `bits, base >= 0`.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if self.bits < 0 or self.base < 0:
            raise LayoutError(f"{self}: bits and base are not negative")
        if abs(self.shift) < self.bits:
            raise LayoutError(
                f"{self}: the shift is at least the number of bits, else the two fields overlap"
            )

    @property
    def mask(self) -> int:
        """The bits that are read."""
        return ((1 << self.bits) - 1) << (self.base + max(self.shift, 0))

    @property
    def period(self) -> int:
        """Offsets in one block: aligned blocks of so many offsets are mapped onto themselves."""
        return 1 << (self.base + self.bits + abs(self.shift)) if self.bits else 1

    def __call__(self, offset: int) -> int:
        """The swizzled offset. Raises CoordinateError on a negative one."""
        if offset < 0:
            raise CoordinateError(f"a swizzle maps offsets from 0 on, got {offset}")
        field = offset & self.mask
        return offset ^ (field >> self.shift if self.shift >= 0 else field << -self.shift)

    def rescale(self, factor: int) -> "Swizzle":
        """The same swizzle on units `factor` times smaller, a power of two: `Swizzle(3, 3, 3).rescale(2)`
        works on bytes.

        Raises LayoutError if `factor` is no power of two.
        """
        if factor < 1 or factor & (factor - 1):
            raise LayoutError(f"{self} cannot be written in units {factor} times smaller: not a power of two")
        return Swizzle(self.bits, self.base + factor.bit_length() - 1, self.shift)

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"


@dataclass(frozen=True, slots=True, init=False)
class ComposedLayout:
    """`swizzles[0](swizzles[1](… (offset + layout(c))))`: a layout behind an offset and any number of
    swizzles.

    `swizzles` is one Swizzle or a sequence, outermost first; swizzles of 0 bits are dropped. Printed
    outermost first: `Sw<3,3,3> o (128, 64):(64, 1)`. Raises LayoutError if `offset + layout` reaches below 0.
    """

    swizzles: tuple[Swizzle, ...]
    offset: int
    layout: Layout

    def __init__(self, swizzles: Swizzle | Iterable[Swizzle], offset: int, layout: Layout) -> None:
        chain = (swizzles,) if isinstance(swizzles, Swizzle) else tuple(swizzles)
        offset = as_integer(offset)
        if offset + layout.minimum < 0:
            raise LayoutError(f"offset {offset} + {layout} reaches below 0, where swizzles are not defined")
        object.__setattr__(self, "swizzles", tuple([swizzle for swizzle in chain if swizzle.bits]))
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "layout", layout)

    @property
    def shape(self) -> IntTuple:
        return self.layout.shape

    @property
    def size(self) -> int:
        return self.layout.size

    @property
    def rank(self) -> int:
        """Number of top-level modes."""
        return self.layout.rank

    @property
    def cosize(self) -> int:
        """Largest offset plus one."""
        return max(self.offsets()) + 1

    def __call__(self, *coordinate: IntTupleLike) -> int:
        """Offset of a coordinate or flat index, as of a Layout. Raises CoordinateError, ProfileError
        likewise.
        """
        return self.swizzled(self.layout(*coordinate))

    def swizzled(self, offset: int) -> int:
        """Where the element at `offset` of the layout goes."""
        offset += self.offset
        for swizzle in reversed(self.swizzles):
            offset = swizzle(offset)
        return offset

    def offsets(self) -> tuple[int, ...]:
        """Offset of every flat index, in order. Memoised."""
        return _composed_offsets(self)

    def __str__(self) -> str:
        parts = [str(swizzle) for swizzle in self.swizzles]
        if self.offset:
            parts.append(str(self.offset))
        return " o ".join([*parts, str(self.layout)])


@lru_cache(maxsize=128)
def _composed_offsets(composed: ComposedLayout) -> tuple[int, ...]:
    swizzled = composed.swizzled
    image = {offset: swizzled(offset) for offset in dict.fromkeys(composed.layout.offsets())}
    return tuple([image[offset] for offset in composed.layout.offsets()])
