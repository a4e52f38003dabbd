"""Recover Shape:Stride from a table of offsets."""

from collections.abc import Sequence
from typing import Any

from layout_algebra.errors import NotRepresentable, ProfileError
from layout_algebra.int_tuple import IntTuple, IntTupleLike, leaves, normalize, product, unflatten
from layout_algebra.layout import Layout, Mode, layout_of_modes, make_layout, table_of_modes


def fit_modes(values: Sequence[int]) -> list[Mode] | None:
    """Fewest modes whose table is `values`, or None.

    The first coalesced mode of a layout is exactly the longest run with a constant step: one step more would
    either merge into it or break the run. So the greedy search is exact.
    """
    if values[0] != 0:
        return None
    original = values
    modes: list[Mode] = []
    while len(values) > 1:
        step = values[1]
        run = 2
        while run < len(values) and values[run] == run * step:
            run += 1
        if len(values) % run:
            return None
        modes.append((run, step))
        values = values[::run]
    return modes if table_of_modes(modes) == list(original) else None


def column_major_table(table: Any, shape: IntTuple | None) -> tuple[list[int], IntTuple | None]:
    """Values in colexicographic order, and the shape of the table where it is an array of several dimensions."""
    dimensions = getattr(table, "shape", None)
    if dimensions is not None:
        values = table.flatten(order="F").tolist()
        if shape is None and len(dimensions) > 1:
            shape = tuple(dimensions)
    else:
        values = list(table)
    return values, shape


def try_fit(table: Any, shape: IntTupleLike | None = None) -> Layout | None:
    """As `fit`, but None where there is no such layout."""
    profile = None if shape is None else normalize(shape)
    values, profile = column_major_table(table, profile)
    if not values:
        raise ProfileError("an empty table has no layout")
    if profile is None:
        modes = fit_modes(values)
        return None if modes is None else layout_of_modes(modes)
    if product(profile) != len(values):
        raise ProfileError(f"a table of {len(values)} values does not fill the shape {profile}")
    layout = _fit_profile(values, profile)
    if layout is None or table_of_modes(layout.modes) != values:
        return None
    return layout


def fit(table: Any, shape: IntTupleLike | None = None) -> Layout:
    """The layout whose offsets are `table`: exact on every entry.

    `table` is a sequence in colexicographic order of `shape` (a flat one without `shape`), or a NumPy array,
    indexed by coordinate. With a shape the result keeps its profile: a leaf turns into a nested mode where
    one stride is not enough.

    Raises NotRepresentable where no layout has this table (one whose first value is not 0 among them),
    ProfileError where the table does not fill the shape.
    """
    layout = try_fit(table, shape)
    if layout is None:
        raise NotRepresentable(
            "no Shape:Stride layout has these values (is the first one 0, is each axis a layout?)"
        )
    return layout


def _fit_profile(values: Sequence[int], profile: IntTuple) -> Layout | None:
    """Fit each leaf along its own axis; the caller checks the sum over all of them."""
    fitted: list[Layout] = []
    step = 1
    for extent in leaves(profile):
        modes = fit_modes(values[: step * extent : step])
        if modes is None:
            return None
        fitted.append(layout_of_modes(modes))
        step *= extent
    return nest_layouts(fitted, profile)


def nest_layouts(fitted: Sequence[Layout], profile: IntTuple) -> Layout:
    """Put one layout at each leaf of `profile`."""
    positions = unflatten(range(len(fitted)), profile)

    def place(part: IntTuple) -> Layout:
        return fitted[part] if isinstance(part, int) else make_layout(*map(place, part))

    return place(positions)


def offset_and_fit(table: Any, shape: IntTupleLike | None = None) -> tuple[int, Layout]:
    """First value of the table, and the layout of the differences from it. Raises as `fit`."""
    profile = None if shape is None else normalize(shape)
    values, profile = column_major_table(table, profile)
    if not values:
        raise ProfileError("an empty table has no layout")
    return values[0], fit([value - values[0] for value in values], profile)
