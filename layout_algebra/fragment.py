"""Fragment: which thread holds which element of a tile, in which of its registers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from layout_algebra.composing import composition
from layout_algebra.errors import (
    CoordinateError,
    IncompleteFragment,
    LayoutError,
    NotComposable,
    NotRepresentable,
    ProfileError,
)
from layout_algebra.fitting import try_fit
from layout_algebra.int_tuple import column_major_strides, crd2idx, flatten, product_each
from layout_algebra.layout import Layout, OffsetMap, coalesce, is_injective, make_layout
from layout_algebra.layout import filter as filter_modes
from layout_algebra.tile_cover import (
    check_cover,
    check_cover_of_table,
    coordinate_at,
    table_of_owners,
    tile_shape,
)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Fragment:
    """A map (thread, value) → coordinate of a tile of `shape`. Several owners may hold one coordinate
    (replication).

    `Fragment(shape, layout)` takes a thread-value layout as in CuTe: rank 2, offsets are column-major indices
    of the tile. `layout` keeps its canonical form, each of the two modes coalesced; it is None for a map that
    no strides say, which `table` holds instead (index at `thread + threads * value`). Fragments are equal if
    they are the same map.

    Raises IncompleteFragment unless the owners reach every coordinate of the tile and nothing else, ProfileError
    on a nested shape or a layout of another rank.
    """

    shape: tuple[int, ...]
    threads: int
    values: int
    layout: Layout | None
    table: tuple[int, ...] | None

    def __init__(self, shape: Sequence[int], layout: Layout) -> None:
        shape = tile_shape(shape)
        if layout.rank != 2 or isinstance(layout.shape, int):
            raise ProfileError(
                f"a thread-value layout has two modes, thread and value; {layout} has {layout.rank}"
            )
        layout = coalesce(layout, (1, 1))
        check_cover(shape, layout)
        self._set(shape, layout[0].size, layout[1].size, layout, None)

    def _set(
        self,
        shape: tuple[int, ...],
        threads: int,
        values: int,
        layout: Layout | None,
        table: tuple[int, ...] | None,
    ) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "threads", threads)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "table", table)

    @classmethod
    def from_table(cls, shape: Sequence[int], threads: int, values: int, table: Sequence[int]) -> "Fragment":
        """From the column-major tile indices, that of `thread` and `value` at `thread + threads * value`.

        Raises IncompleteFragment as the class, ProfileError if the table has another length than `threads *
        values`.
        """
        if len(table) != threads * values:
            raise ProfileError(f"{len(table)} entries do not fill {threads} threads x {values} values")
        layout = _fit_with_origin(table, threads, values)
        if layout is not None:
            return cls(shape, layout)
        shape = tile_shape(shape)
        entries = tuple([int(entry) for entry in table])
        check_cover_of_table(shape, entries)
        fragment = cls.__new__(cls)
        fragment._set(shape, threads, values, None, entries)
        return fragment

    @classmethod
    def from_function(
        cls,
        shape: Sequence[int],
        threads: int,
        values: int,
        coordinate: Callable[[int, int], int | Sequence[int]],
    ) -> "Fragment":
        """From a function (thread, value) → coordinate (a plain integer is a column-major index of the tile).

        Raises IncompleteFragment as the class, CoordinateError where the function leaves the tile.
        """
        extents = tile_shape(shape)
        strides = column_major_strides(extents)
        table = [
            crd2idx(coordinate(thread, value), extents, strides)
            for value in range(values)
            for thread in range(threads)
        ]
        return cls.from_table(extents, threads, values, table)

    @classmethod
    def from_owners(
        cls,
        shape: Sequence[int],
        threads: int,
        thread_of: Callable[..., int],
        value_of: Callable[..., int],
        replicate: int = 1,
    ) -> "Fragment":
        """From functions coordinate → thread and coordinate → value.

        With `replicate` > 1, `thread_of` takes the number of the copy after the coordinate and names a thread
        for each copy.

        Raises IncompleteFragment where two coordinates claim one register or a register of some thread stays
        free, CoordinateError where `thread_of` names no thread.
        """
        extents = tile_shape(shape)
        values, table = table_of_owners(extents, threads, thread_of, value_of, replicate)
        return cls.from_table(extents, threads, values, table)

    @property
    def size(self) -> int:
        """Number of coordinates of the tile."""
        return prod(self.shape)

    @property
    def replication(self) -> int:
        """How many owners each coordinate has. Raises LayoutError if not all have equally many."""
        counts = {len(owners) for owners in self.inverse()}
        if len(counts) > 1:
            raise LayoutError(
                f"the coordinates of {self} have between {min(counts)} and {max(counts)} owners each"
            )
        return counts.pop()

    def index(self, thread: int, value: int) -> int:
        """Column-major tile index of what `thread` holds as `value`. Raises CoordinateError outside the
        fragment.
        """
        if not (0 <= thread < self.threads and 0 <= value < self.values):
            raise CoordinateError(
                f"({thread}, {value}) is outside {self.threads} threads x {self.values} values"
            )
        return self.indices()[thread + self.threads * value]

    def __call__(self, thread: int, value: int) -> tuple[int, ...]:
        """Coordinate of what `thread` holds as `value`. Raises CoordinateError outside the fragment."""
        return coordinate_at(self.shape, self.index(thread, value))

    def indices(self) -> tuple[int, ...]:
        """Column-major tile index of every owner, at `thread + threads * value`. Memoised."""
        if self.table is not None:
            return self.table
        assert self.layout is not None
        return self.layout.offsets()

    def inverse(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """All owners (thread, value) of each coordinate, by column-major tile index. Memoised."""
        return _inverse(self)

    def owners(self, *coordinate: int) -> tuple[tuple[int, int], ...]:
        """All owners (thread, value) of a coordinate. Raises CoordinateError outside the tile."""
        return self.inverse()[crd2idx(coordinate, self.shape)]

    def thread_value_layout(self) -> Layout:
        """The thread-value layout. Raises NotRepresentable where strides do not say this map."""
        if self.layout is None:
            raise NotRepresentable(f"{self} is no Shape:Stride layout")
        return self.layout

    def offsets_in(self, memory: OffsetMap) -> tuple[int, ...]:
        """Offset in `memory` (a layout of the tile) of every owner, at `thread + threads * value`. Memoised.

        Raises ProfileError unless each mode of `memory` is as long as that dimension of the tile.
        """
        return _offsets_in(self, memory)

    def repeat(self, repeats: Sequence[int], order: Sequence[int] | None = None) -> "Fragment":
        """Cover a tile `repeats` times as large in each dimension; every thread holds more values.

        The copies are numbered with dimension `order[0]` fastest (default: the first). Raises ProfileError
        unless there is one number a dimension.
        """
        return _repeat(self, repeats, order, on_thread=False)

    def repeat_on_thread(self, repeats: Sequence[int], order: Sequence[int] | None = None) -> "Fragment":
        """As `repeat`, but each copy goes to the next `threads` threads instead of to more values."""
        return _repeat(self, repeats, order, on_thread=True)

    def replicate(self, copies: int) -> "Fragment":
        """The same tile held `copies` times: thread t + threads * copy holds what thread t does."""
        if self.layout is not None:
            return Fragment(
                self.shape, make_layout(make_layout(self.layout[0], Layout(copies, 0)), self.layout[1])
            )
        columns = _columns(self)
        table = [index for column in columns for _ in range(copies) for index in column]
        return Fragment.from_table(self.shape, self.threads * copies, self.values, table)

    def permute(self, order: Sequence[int]) -> "Fragment":
        """Transpose the tile: dimension i of the result is dimension `order[i]` of this one. Raises
        ProfileError if `order` is no permutation.
        """
        if sorted(order) != list(range(len(self.shape))):
            raise ProfileError(f"{tuple(order)} is no order of {len(self.shape)} dimensions")
        shape = tuple([self.shape[dimension] for dimension in order])
        new_strides = flatten(column_major_strides(shape))
        strides = tuple([new_strides[list(order).index(dimension)] for dimension in range(len(shape))])
        return _mapped(self, shape, Layout(self.shape, strides))

    def reduce(self, dimension: int) -> "Fragment":
        """The fragment of the tile without one dimension: each thread keeps once every coordinate that it
        holds any element of.

        This is where a reduction along `dimension` leaves its result. Values keep their order of first
        appearance. Raises IncompleteFragment where the threads end with different numbers of values,
        CoordinateError where there is no such dimension.
        """
        if not 0 <= dimension < len(self.shape):
            raise CoordinateError(f"{self} has no dimension {dimension}")
        return _reduce(self, dimension)

    def __str__(self) -> str:
        held = (
            str(self.layout)
            if self.layout is not None
            else f"table of {self.threads} threads x {self.values} values"
        )
        return f"{held} -> {self.shape}"

    def __repr__(self) -> str:
        return f"Fragment({self})"


def _fit_with_origin(table: Sequence[int], threads: int, values: int) -> Layout | None:
    return try_fit(table, (threads, values)) if len(table) and table[0] == 0 else None


@lru_cache(maxsize=128)
def _inverse(fragment: Fragment) -> tuple[tuple[tuple[int, int], ...], ...]:
    owners: list[list[tuple[int, int]]] = [[] for _ in range(fragment.size)]
    for position, index in enumerate(fragment.indices()):
        value, thread = divmod(position, fragment.threads)
        owners[index].append((thread, value))
    return tuple([tuple(sorted(each)) for each in owners])


@lru_cache(maxsize=128)
def _offsets_in(fragment: Fragment, memory: OffsetMap) -> tuple[int, ...]:
    check_tile(fragment, memory)
    offsets = memory.offsets()
    return tuple([offsets[index] for index in fragment.indices()])


def check_tile(fragment: Fragment, memory: OffsetMap) -> None:
    """Raises ProfileError unless `memory` has one mode for each dimension of the tile, equally long."""
    if product_each(memory.shape) != fragment.shape:
        raise ProfileError(f"the memory layout {memory} is not one of the tile {fragment.shape}")


def _columns(fragment: Fragment) -> list[tuple[int, ...]]:
    """Tile indices of all threads, one row a value."""
    indices = fragment.indices()
    return [indices[start : start + fragment.threads] for start in range(0, len(indices), fragment.threads)]


def _composed(fragment: Fragment, after: Layout) -> Layout | None:
    """The thread-value layout followed by `after`; None where strides do not say it."""
    if fragment.layout is None:
        return None
    try:
        return composition(after, fragment.layout)
    except NotComposable:
        return None


def _mapped(fragment: Fragment, shape: tuple[int, ...], embedding: Layout) -> Fragment:
    """The fragment after `embedding`, a layout from its tile into the tile of `shape`."""
    layout = _composed(fragment, embedding)
    if layout is not None:
        return Fragment(shape, layout)
    offsets = embedding.offsets()
    return Fragment.from_table(
        shape, fragment.threads, fragment.values, [offsets[index] for index in fragment.indices()]
    )


def _repeat(
    fragment: Fragment, repeats: Sequence[int], order: Sequence[int] | None, on_thread: bool
) -> Fragment:
    dimensions = len(fragment.shape)
    order = range(dimensions) if order is None else order
    if len(repeats) != dimensions or sorted(order) != list(range(dimensions)):
        raise ProfileError(
            f"repeats {tuple(repeats)} in order {tuple(order)} do not fit a tile of {dimensions} dimensions"
        )
    shape = tuple([extent * count for extent, count in zip(fragment.shape, repeats, strict=True)])
    strides = flatten(column_major_strides(shape))
    embedding = Layout(fragment.shape, strides)
    copies = make_layout(*(Layout(repeats[axis], fragment.shape[axis] * strides[axis]) for axis in order))
    layout = _composed(fragment, embedding)
    if layout is not None:
        thread, value = layout
        if on_thread:
            return Fragment(shape, make_layout(make_layout(thread, copies), value))
        return Fragment(shape, make_layout(thread, make_layout(value, copies)))
    offsets = embedding.offsets()
    starts = copies.offsets()
    columns = [[offsets[index] for index in column] for column in _columns(fragment)]
    if on_thread:
        table = [index + start for column in columns for start in starts for index in column]
        return Fragment.from_table(shape, fragment.threads * copies.size, fragment.values, table)
    table = [index + start for start in starts for column in columns for index in column]
    return Fragment.from_table(shape, fragment.threads, fragment.values * copies.size, table)


@lru_cache(maxsize=128)
def _reduce(fragment: Fragment, dimension: int) -> Fragment:
    shape = fragment.shape[:dimension] + fragment.shape[dimension + 1 :]
    kept = flatten(column_major_strides(shape))
    projection = Layout(fragment.shape, (*kept[:dimension], 0, *kept[dimension:]))
    layout = _composed(fragment, projection)
    if layout is not None:
        thread, value = layout
        distinct = filter_modes(value)
        if is_injective(distinct):
            return Fragment(shape, make_layout(thread, distinct))
    offsets = projection.offsets()
    indices = fragment.indices()
    held = [
        list(dict.fromkeys(offsets[index] for index in indices[thread :: fragment.threads]))
        for thread in range(fragment.threads)
    ]
    if len({len(values) for values in held}) > 1:
        raise IncompleteFragment(
            f"threads of {fragment} hold different numbers of coordinates after a reduction"
        )
    table = [values[number] for number in range(len(held[0])) for values in held]
    return Fragment.from_table(shape, fragment.threads, len(held[0]), table)
