"""Divide and product families.

Every function takes a tiler: a layout, an extent n (short for `n:1`), None (leave the mode), or a tuple with
one of these for each mode. On a tuple the function works mode by mode. ComposedLayouts divide like the layout
inside.
"""

from collections.abc import Callable
from itertools import chain
from typing import TypeVar

from layout_algebra.composing import Tiler, composition
from layout_algebra.errors import NotComplementable, NotComposable, NotDivisible, ProfileError
from layout_algebra.inverting import complement, unbounded_complement
from layout_algebra.layout import Layout, make_layout
from layout_algebra.swizzle import ComposedLayout

AnyLayout = TypeVar("AnyLayout", Layout, ComposedLayout)


def logical_divide(layout: AnyLayout, tiler: Tiler) -> AnyLayout:
    """`(tile, rest)`: the elements that the tiler picks, and the layout of the tiles; mode by mode for a
    tuple.

    Together they reach each index of `layout` exactly once. Raises NotDivisible where the tiler does not cut
    the layout into whole tiles, ProfileError where a tuple has more modes than the layout. Source: CuTe.
    """
    return _on_inside(layout, tiler, _logical_divide)


def zipped_divide(layout: AnyLayout, tiler: Tiler) -> AnyLayout:
    """`((tile0, tile1, …), (rest0, rest1, …))`. Raises as `logical_divide`. Source: CuTe."""
    return _on_inside(layout, tiler, _zipped_divide)


def tiled_divide(layout: AnyLayout, tiler: Tiler) -> AnyLayout:
    """`((tile0, tile1, …), rest0, rest1, …)`. Raises as `logical_divide`. Source: CuTe."""
    return _on_inside(layout, tiler, lambda inside, by: _unpack_rest(_zipped_divide(inside, by)))


def flat_divide(layout: AnyLayout, tiler: Tiler) -> AnyLayout:
    """`(tile0, tile1, …, rest0, rest1, …)`. Raises as `logical_divide`. Source: CuTe."""
    return _on_inside(layout, tiler, lambda inside, by: _unpack_both(_zipped_divide(inside, by)))


def logical_product(block: Layout, tiler: Tiler) -> Layout:
    """`(block, repetitions)`: copies of the block at the offsets that it leaves free, in the order that the
    tiler says.

    Raises NotComplementable where the block leaves no regular gaps, NotComposable where the copies that the
    tiler asks for are no layout, ProfileError where a tuple has more modes than the block. Source: CuTe.
    """
    match tiler:
        case None:
            return block
        case int():
            return logical_product(block, Layout(tiler))
        case Layout():
            return make_layout(block, composition(unbounded_complement(block, tiler.cosize), tiler))
        case _:
            return _by_mode(block, tiler, logical_product)


def zipped_product(block: Layout, tiler: Tiler) -> Layout:
    """`((block0, block1, …), (repetitions0, …))`. Raises as `logical_product`. Source: CuTe."""
    return _unzip(logical_product, block, tiler)


def tiled_product(block: Layout, tiler: Tiler) -> Layout:
    """`((block0, block1, …), repetitions0, repetitions1, …)`. Raises as `logical_product`. Source: CuTe."""
    return _unpack_rest(zipped_product(block, tiler))


def flat_product(block: Layout, tiler: Tiler) -> Layout:
    """`(block0, block1, …, repetitions0, …)`. Raises as `logical_product`. Source: CuTe."""
    return _unpack_both(zipped_product(block, tiler))


def blocked_product(block: Layout, tiler: Layout) -> Layout:
    """Tile of blocks: mode i is `(block mode i, tiler mode i)`, so that a block's elements stay
    together.

    Raises as `logical_product`. Source: CuTe.
    """
    blocks, tiles = _ranked_product(block, tiler)
    return _interleave(blocks, tiles)


def raked_product(block: Layout, tiler: Layout) -> Layout:
    """Interleaved blocks: mode i is `(tiler mode i, block mode i)`, so that the blocks' elements
    alternate.

    Raises as `logical_product`. Source: CuTe.
    """
    blocks, tiles = _ranked_product(block, tiler)
    return _interleave(tiles, blocks)


def _on_inside(layout: AnyLayout, tiler: Tiler, divide: Callable[[Layout, Tiler], Layout]) -> AnyLayout:
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.swizzles, layout.offset, divide(layout.layout, tiler))
    return divide(layout, tiler)


def _logical_divide(layout: Layout, tiler: Tiler) -> Layout:
    match tiler:
        case None:
            return layout
        case int():
            return _logical_divide(layout, Layout(tiler))
        case Layout():
            return _divide_by_layout(layout, tiler)
        case _:
            return _by_mode(layout, tiler, _logical_divide)


def _divide_by_layout(layout: Layout, tiler: Layout) -> Layout:
    try:
        return composition(layout, make_layout(tiler, complement(tiler, layout.size)))
    except (NotComplementable, NotComposable, NotDivisible) as error:
        raise NotDivisible(f"{layout} is not divided into whole tiles by {tiler}: {error}") from error


def _by_mode(layout: Layout, tilers: tuple[Tiler, ...], split: Callable[[Layout, Tiler], Layout]) -> Layout:
    _check_rank(layout, tilers)
    done = [split(layout[mode], tiler) for mode, tiler in enumerate(tilers)]
    return make_layout(*done, *(layout[mode] for mode in range(len(tilers), layout.rank)))


def _check_rank(layout: Layout, tilers: tuple[Tiler, ...]) -> None:
    if len(tilers) > layout.rank:
        raise ProfileError(f"{len(tilers)} tilers for the {layout.rank} modes of {layout}")


def _unzip(split: Callable[[Layout, Tiler], Layout], layout: Layout, tiler: Tiler) -> Layout:
    """Split mode by mode, then gather the first halves and the second halves."""
    match tiler:
        case None:
            return make_layout(Layout(1, 0), layout)
        case int() | Layout():
            return split(layout, tiler)
        case _:
            _check_rank(layout, tiler)
            halves = [_unzip(split, layout[mode], part) for mode, part in enumerate(tiler)]
            untouched = (layout[mode] for mode in range(len(tiler), layout.rank))
            return make_layout(
                make_layout(*(half[0] for half in halves)),
                make_layout(*chain((half[1] for half in halves), untouched)),
            )


def _zipped_divide(layout: Layout, tiler: Tiler) -> Layout:
    return _unzip(_logical_divide, layout, tiler)


def _unpack_rest(zipped: Layout) -> Layout:
    return make_layout(zipped[0], *zipped[1])


def _unpack_both(zipped: Layout) -> Layout:
    return make_layout(*zipped[0], *zipped[1])


def _ranked_product(block: Layout, tiler: Layout) -> tuple[Layout, Layout]:
    """Block and repetitions, both brought to the larger rank of the two by modes `1:0`."""
    rank = max(block.rank, tiler.rank)
    result = logical_product(_append_to_rank(block, rank), _append_to_rank(tiler, rank))
    return result[0], result[1]


def _append_to_rank(layout: Layout, rank: int) -> Layout:
    if layout.rank == rank:
        return layout if not isinstance(layout.shape, int) else make_layout(layout)
    return make_layout(*layout, *[Layout(1, 0)] * (rank - layout.rank))


def _interleave(fast: Layout, slow: Layout) -> Layout:
    return make_layout(*(make_layout(*pair) for pair in zip(fast, slow, strict=True)))
