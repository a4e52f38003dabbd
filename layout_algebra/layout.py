"""Layout: a function from coordinates to integer offsets, written Shape:Stride."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol, TypeAlias

from layout_algebra.errors import CoordinateError, LayoutError, ProfileError
from layout_algebra.int_tuple import (
    IntTuple,
    IntTupleLike,
    column_major_strides,
    congruent,
    crd2idx,
    flatten,
    leaves,
    normalize,
    row_major_strides,
)

# (extent, stride) of one leaf
Mode: TypeAlias = tuple[int, int]


class OffsetMap(Protocol):
    """What places the elements of a tile in memory: a Layout, a ComposedLayout or a concrete IndexMap.
    Hashable.
    """

    def __hash__(self) -> int: ...

    @property
    def shape(self) -> IntTuple:
        """Extents of the tile; a mode may be nested."""

    def offsets(self) -> tuple[int, ...]:
        """Offset of every flat index, first mode fastest."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Layout:
    """Offsets of the coordinates of `shape`: the sum of coordinate times stride over all leaves.

    `stride` defaults to column-major, as in CuTe. Extents are at least 1; strides are any integers, also 0
    and negative ones. Two layouts are equal if shape and stride are; `same_function` compares what they
    compute.

    Raises LayoutError on an extent below 1, ProfileError if shape and stride are not nested alike.
    """

    shape: IntTuple
    stride: IntTuple
    size: int = field(compare=False)
    modes: tuple[Mode, ...] = field(compare=False)

    def __init__(self, shape: IntTupleLike, stride: IntTupleLike | None = None) -> None:
        shape = normalize(shape)
        stride = column_major_strides(shape) if stride is None else normalize(stride)
        if not congruent(shape, stride):
            raise ProfileError(f"shape {shape} and stride {stride} are not nested alike")
        modes = tuple(zip(leaves(shape), leaves(stride), strict=True))
        size = 1
        for extent, _ in modes:
            if extent < 1:
                raise LayoutError(f"every extent of a shape is at least 1, got {shape}")
            size *= extent
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "modes", modes)

    @property
    def rank(self) -> int:
        """Number of top-level modes."""
        return 1 if isinstance(self.shape, int) else len(self.shape)

    @property
    def cosize(self) -> int:
        """Largest offset plus one."""
        return 1 + sum((extent - 1) * stride for extent, stride in self.modes if stride > 0)

    @property
    def minimum(self) -> int:
        """Smallest offset; below 0 only with negative strides."""
        return sum((extent - 1) * stride for extent, stride in self.modes if stride < 0)

    def __call__(self, *coordinate: IntTupleLike) -> int:
        """Offset of a flat index `layout(i)`, of a coordinate `layout(i, j)` or `layout((i, (j, k)))`, or of
        a mixture.

        Raises CoordinateError outside the domain, ProfileError if the coordinate is not nested as the shape.
        """
        point = coordinate[0] if len(coordinate) == 1 else coordinate
        if type(point) is not int:
            return crd2idx(point, self.shape, self.stride)
        if not 0 <= point < self.size:
            raise CoordinateError(f"index {point} is outside {self} of size {self.size}")
        return evaluate_modes(self.modes, point)

    def __getitem__(self, mode: int | slice) -> "Layout":
        """Top-level mode as a layout, or a range of modes as a layout of that rank."""
        if isinstance(self.shape, int) or isinstance(self.stride, int):
            if mode not in (0, -1):
                raise CoordinateError(f"{self} has one mode, not mode {mode}")
            return self
        if isinstance(mode, int) and not -len(self.shape) <= mode < len(self.shape):
            raise CoordinateError(f"{self} has {len(self.shape)} modes, not mode {mode}")
        return Layout(self.shape[mode], self.stride[mode])

    def __len__(self) -> int:
        return self.rank

    def __iter__(self) -> Iterator["Layout"]:
        return (self[mode] for mode in range(self.rank))

    def __str__(self) -> str:
        return f"{self.shape}:{self.stride}"

    def __repr__(self) -> str:
        return f"Layout({self.shape}, {self.stride})"

    def offsets(self) -> tuple[int, ...]:
        """Offset of every flat index, in order. Memoised."""
        return _offsets(self.modes)


def evaluate_modes(modes: Sequence[Mode], index: int) -> int:
    """Offset of the flat index; the last mode takes whatever is left, so it never ends."""
    if not modes:
        return 0
    offset = 0
    for extent, stride in modes[:-1]:
        index, digit = divmod(index, extent)
        offset += digit * stride
    return offset + index * modes[-1][1]


def table_of_modes(modes: Sequence[Mode]) -> list[int]:
    """Offset of every flat index."""
    table = [0]
    for extent, stride in modes:
        if extent > 1:
            table = (
                [offset + start for start in range(0, extent * stride, stride) for offset in table]
                if stride
                else table * extent
            )
    return table


@lru_cache(maxsize=128)
def _offsets(modes: tuple[Mode, ...]) -> tuple[int, ...]:
    return tuple(table_of_modes(modes))


def make_layout(*layouts: Layout) -> Layout:
    """Layout whose top-level modes are the given layouts."""
    return Layout(tuple([layout.shape for layout in layouts]), tuple([layout.stride for layout in layouts]))


def layout_of_modes(modes: Sequence[Mode]) -> Layout:
    """Flat layout of the given modes: `1:0` of none, an unnested mode of one, else a tuple."""
    match len(modes):
        case 0:
            return Layout(1, 0)
        case 1:
            return Layout(*modes[0])
        case _:
            return Layout(tuple([extent for extent, _ in modes]), tuple([stride for _, stride in modes]))


def column_major(shape: IntTupleLike) -> Layout:
    """Compact layout, first mode fastest."""
    return Layout(shape)


def row_major(shape: IntTupleLike) -> Layout:
    """Compact layout, last mode fastest (leaves too)."""
    shape = normalize(shape)
    return Layout(shape, row_major_strides(shape))


def ordered_layout(shape: Sequence[int], order: Sequence[int]) -> Layout:
    """Compact layout of a flat shape whose mode with the smallest `order` is the fastest; ties go left to
    right.

    Raises ProfileError if the two differ in length.
    """
    if len(shape) != len(order):
        raise ProfileError(f"{len(shape)} extents, but {len(order)} places in the order")
    strides = [0] * len(shape)
    step = 1
    for mode in sorted(range(len(shape)), key=lambda mode: order[mode]):
        strides[mode] = step
        step *= shape[mode]
    return Layout(tuple(shape), tuple(strides))


def flatten_layout(layout: Layout) -> Layout:
    """The same function without nesting: leaves become top-level modes."""
    return Layout(flatten(layout.shape), flatten(layout.stride))


def coalesced_modes(modes: Sequence[Mode]) -> list[Mode]:
    """Fewest modes that compute the same function of the flat index; unique for each function."""
    merged: list[Mode] = []
    for extent, stride in modes:
        if extent == 1:
            continue
        if merged and merged[-1][0] * merged[-1][1] == stride:
            merged[-1] = (merged[-1][0] * extent, merged[-1][1])
        else:
            merged.append((extent, stride))
    return merged


@lru_cache(maxsize=65536)
def _coalesce(layout: Layout) -> Layout:
    return layout_of_modes(coalesced_modes(layout.modes))


def coalesce(layout: Layout, profile: IntTuple | None = None) -> Layout:
    """Fewest modes that compute the same function of the flat index.

    With `profile`, each mode at a leaf of the profile is coalesced by itself, and modes beyond the profile
    stay as they are: `coalesce(layout, (1, 1))` keeps the first two modes apart. Raises ProfileError if the
    profile is nested deeper than the layout or has more modes.
    """
    if profile is None or isinstance(profile, int):
        return _coalesce(layout)
    if isinstance(layout.shape, int) or len(profile) > len(layout.shape):
        raise ProfileError(f"the profile {profile} has more modes than {layout}")
    done = [coalesce(layout[mode], part) for mode, part in enumerate(profile)]
    return make_layout(*done, *(layout[mode] for mode in range(len(profile), layout.rank)))


def same_function(first: Layout, second: Layout) -> bool:
    """Both have the same size and give every flat index the same offset."""
    return first.size == second.size and coalesced_modes(first.modes) == coalesced_modes(second.modes)


def is_injective(layout: Layout) -> bool:
    """No two indices share an offset."""
    reached = 1
    for stride, extent in sorted((abs(stride), extent) for extent, stride in layout.modes if extent > 1):
        if stride < reached:
            return len(set(layout.offsets())) == layout.size
        reached += (extent - 1) * stride
    return True


def filter_zeros(layout: Layout) -> Layout:
    """Modes of stride 0 shrink to extent 1; the profile stays, and so does the set of offsets."""

    def shrink(shape: IntTuple, stride: IntTuple) -> IntTuple:
        if isinstance(shape, int) or isinstance(stride, int):
            return 1 if stride == 0 else shape
        return tuple(map(shrink, shape, stride))

    return Layout(shrink(layout.shape, layout.stride), layout.stride)


def filter(layout: Layout) -> Layout:
    """Coalesced layout without the modes of stride 0: the same set of offsets, repetitions dropped."""
    return coalesce(filter_zeros(layout))


def slice_layout(layout: Layout, coordinate: tuple[IntTuple | None, ...]) -> tuple[Layout, int]:
    """Fix the modes with a coordinate, keep those with None: (layout of the kept modes, offset of the fixed
    ones).

    Raises ProfileError unless there is one entry a top-level mode.
    """
    if len(coordinate) != layout.rank:
        raise ProfileError(f"{len(coordinate)} entries for the {layout.rank} modes of {layout}")
    kept = [layout[mode] for mode, entry in enumerate(coordinate) if entry is None]
    offset = sum(layout[mode](entry) for mode, entry in enumerate(coordinate) if entry is not None)
    return make_layout(*kept), offset
