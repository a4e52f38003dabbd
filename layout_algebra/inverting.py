"""Complement and inverses of layouts."""

from functools import lru_cache

from layout_algebra.composing import composition
from layout_algebra.errors import LayoutError, NotComplementable, NotComposable, NotDivisible, NotInvertible
from layout_algebra.int_tuple import IntTuple, ceil_div, product
from layout_algebra.layout import Layout, Mode, coalesce, coalesced_modes, layout_of_modes, make_layout


def complement(layout: Layout, cotarget: IntTuple = 1) -> Layout:
    """The layout C of the gaps: `(layout, C)` reaches each offset of 0 … N-1 exactly once, strides
    increasing.

    N is `product(cotarget)`, or the end of the last run of `layout` where that is larger (so the default
    fills the gaps only). Modes of stride 0 of `layout` do not count.

    Raises NotComplementable where the offsets of `layout` leave no such gaps (they overlap, or do not nest),
    NotDivisible where `cotarget` is larger than the end of the last run, but no multiple of it (CuTe rounds
    up).
    """
    target = product(cotarget)
    if target < 1:
        raise LayoutError(f"a complement fills at least one offset, not {cotarget}")
    return _complement(layout, target)


@lru_cache(maxsize=16384)
def _complement(layout: Layout, cotarget: int) -> Layout:
    modes, end = _gaps(layout)
    if cotarget > end:
        if cotarget % end:
            raise NotDivisible(
                f"{cotarget} offsets are not whole runs of {end}, the length of one run of {layout}"
            )
        modes.append((cotarget // end, end))
    return layout_of_modes(coalesced_modes(modes))


def _gaps(layout: Layout) -> tuple[list[Mode], int]:
    """Modes that fill the gaps of the layout, and the end of the range that both cover together."""
    gaps: list[Mode] = []
    covered = 1
    for stride, extent in sorted((stride, extent) for extent, stride in layout.modes):
        if extent == 1 or stride == 0:
            continue
        if stride < covered or stride % covered:
            raise NotComplementable(
                f"the offsets of {layout} overlap or do not nest: no layout fills its gaps exactly"
            )
        gaps.append((stride // covered, covered))
        covered = stride * extent
    return gaps, covered


def unbounded_complement(layout: Layout, count: int) -> Layout:
    """A complement of at least `count` elements. Raises NotComplementable as `complement`."""
    gaps, end = _gaps(layout)
    inside = 1
    for extent, _ in gaps:
        inside *= extent
    return _complement(layout, end * max(1, ceil_div(count, inside)))


@lru_cache(maxsize=16384)
def right_inverse(layout: Layout) -> Layout:
    """R with `layout(R(i)) == i` for every index i of R: as many offsets 0, 1, 2, … as whole modes of
    `layout` reach in a row.

    R is defined for every layout (at worst it is `1:0`); `inverse` asks for all of the domain instead.
    Source: CuTe.
    """
    result: list[Mode] = []
    reached = 1
    for stride, extent, place in sorted(_placed(layout)):
        if extent == 1 or stride < reached:
            continue
        if stride > reached:
            break
        result.append((extent, place))
        reached = stride * extent
    return layout_of_modes(coalesced_modes(result))


def _placed(layout: Layout) -> list[tuple[int, int, int]]:
    """(stride, extent, weight in the flat index) of each leaf."""
    placed = []
    place = 1
    for extent, stride in layout.modes:
        placed.append((stride, extent, place))
        place *= extent
    return placed


@lru_cache(maxsize=16384)
def left_inverse(layout: Layout) -> Layout:
    """L with `L(layout(i)) == i` for every index i of `layout`. Offsets that `layout` does not reach map to
    anything.

    Raises NotInvertible where two indices share an offset, an offset is negative, or no such layout is known.
    """
    if any(stride <= 0 for extent, stride in layout.modes if extent > 1):
        raise NotInvertible(
            f"{layout} has no left inverse: strides of 0 and below reach offsets twice or below 0"
        )
    try:
        return right_inverse(make_layout(layout, complement(layout)))
    except NotComplementable:
        return _left_inverse_with_holes(layout)


def _left_inverse_with_holes(layout: Layout) -> Layout:
    """Left inverse of a layout whose runs do not divide the gaps between them, but whose strides divide each
    other.
    """
    result: list[Mode] = []
    covered = 1
    extent, place = 1, 0
    for stride, next_extent, next_place in sorted(_placed(layout)):
        if next_extent == 1:
            continue
        if stride % covered or stride // covered < extent:
            raise NotInvertible(
                f"{layout} has no left inverse: two indices may share an offset, or its strides do not nest"
            )
        result.append((stride // covered, place))
        covered = stride
        extent, place = next_extent, next_place
    result.append((extent, place))
    return layout_of_modes(coalesced_modes(result))


def inverse(layout: Layout) -> Layout:
    """The two-sided inverse of a layout that reaches each of 0 … size-1 exactly once. Raises NotInvertible
    otherwise.
    """
    result = right_inverse(layout)
    if result.size != layout.size:
        raise NotInvertible(
            f"{layout} does not reach each of the offsets 0 to {layout.size - 1} exactly once"
        )
    return result


def is_bijective(layout: Layout) -> bool:
    """The layout reaches each of the offsets 0 … size-1 exactly once."""
    return right_inverse(layout).size == layout.size


def max_common_layout(first: Layout, second: Layout) -> Layout:
    """Indices C with `first(C(i)) == second(C(i)) == i`: the elements 0, 1, 2, … that lie alike in both.

    As many as lie alike and form a layout. Source: CuTe. Raises LayoutError if the two differ in size.
    """
    if first.size != second.size:
        raise LayoutError(f"{first} and {second} differ in size: they do not index the same elements")
    inverted = right_inverse(second)
    count = _common_run(first, inverted)
    while True:
        try:
            return composition(inverted, Layout(count))
        except NotComposable:
            count -= 1


def _common_run(first: Layout, inverted: Layout) -> int:
    """Largest n with `first(inverted(i)) == i` for all i < n."""
    try:
        extent, stride = coalesce(composition(first, inverted)).modes[0]
        return extent if stride == 1 else 1
    except NotComposable:
        count = 1
        while count < inverted.size and first(inverted(count)) == count:
            count += 1
        return count


def max_common_vector(first: Layout, second: Layout) -> int:
    """How many elements in a row, from offset 0 on, lie alike in both layouts. Raises as `max_common_layout`."""
    return max_common_layout(first, second).size
