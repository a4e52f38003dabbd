"""The tiles that fragments cover: their shapes and coordinates, and whether owners reach all of one."""

from collections.abc import Callable, Sequence
from math import prod

from layout_algebra.errors import CoordinateError, IncompleteFragment, ProfileError
from layout_algebra.int_tuple import flatten, normalize
from layout_algebra.layout import Layout


def tile_shape(shape: Sequence[int]) -> tuple[int, ...]:
    tile = normalize(shape)
    if isinstance(tile, int) or not all(isinstance(extent, int) and extent >= 1 for extent in tile):
        raise ProfileError(f"the shape of a tile is a flat tuple of extents of at least 1, not {shape}")
    return flatten(tile)


def coordinate_at(shape: Sequence[int], index: int) -> tuple[int, ...]:
    coordinate = []
    for extent in shape:
        index, digit = divmod(index, extent)
        coordinate.append(digit)
    return tuple(coordinate)


def check_cover(shape: tuple[int, ...], layout: Layout) -> None:
    """Compact strides cover the tile; any other layout is looked at offset by offset."""
    covered = 1
    for stride, extent in sorted((stride, extent) for extent, stride in layout.modes):
        if stride == covered:
            covered *= extent
        elif stride and extent > 1:
            check_cover_of_table(shape, layout.offsets())
            return
    if covered != prod(shape):
        raise IncompleteFragment(
            f"{layout} covers {covered} of the {prod(shape)} coordinates of the tile {shape}"
        )


def check_cover_of_table(shape: tuple[int, ...], table: Sequence[int]) -> None:
    size = prod(shape)
    held = dict.fromkeys(table)
    if min(held) < 0 or max(held) >= size:
        raise IncompleteFragment(
            f"owners hold indices {min(held)} to {max(held)}; the tile {shape} has {size} coordinates"
        )
    if len(held) != size:
        missing = next(index for index in range(size) if index not in held)
        raise IncompleteFragment(
            f"nobody holds coordinate {coordinate_at(shape, missing)} of the tile {shape}"
        )


def table_of_owners(
    shape: tuple[int, ...],
    threads: int,
    thread_of: Callable[..., int],
    value_of: Callable[..., int],
    replicate: int,
) -> tuple[int, list[int]]:
    """How many values a thread holds, and the column-major tile indices, that of `thread` and `value` at `thread +
    threads * value`.

    Raises as `Fragment.from_owners`.
    """
    held: dict[tuple[int, int], int] = {}
    for index in range(prod(shape)):
        coordinate = coordinate_at(shape, index)
        value = value_of(*coordinate)
        for copy in range(replicate):
            thread = thread_of(*coordinate, copy) if replicate > 1 else thread_of(*coordinate)
            if not 0 <= thread < threads:
                raise CoordinateError(f"coordinate {coordinate} goes to thread {thread} of {threads}")
            if held.setdefault((thread, value), index) != index:
                other = coordinate_at(shape, held[thread, value])
                raise IncompleteFragment(
                    f"thread {thread}, value {value} holds both {other} and {coordinate}"
                )
    values = 1 + max(value for _, value in held)
    owners = [(thread, value) for value in range(values) for thread in range(threads)]
    free = [owner for owner in owners if owner not in held]
    if free or min(value for _, value in held) < 0:
        raise IncompleteFragment(f"(thread, value) {free[:4]} of {threads} x {values} hold nothing")
    return values, [held[owner] for owner in owners]
