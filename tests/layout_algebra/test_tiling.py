"""Divide and product families against brute force over whole domains, and CuTe's documented examples."""

import pytest
from hypothesis import given, settings
from layout_strategies import any_layouts, compact_layouts, table_by_definition

from layout_algebra import (
    ComposedLayout,
    Layout,
    LayoutError,
    NotComplementable,
    NotComposable,
    NotDivisible,
    ProfileError,
    Swizzle,
    blocked_product,
    complement,
    composition,
    flat_divide,
    flat_product,
    logical_divide,
    logical_product,
    make_layout,
    raked_product,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)

LAYOUT = Layout((9, (4, 8)), (59, (13, 1)))
TILER = (Layout(3, 3), Layout((2, 4), (1, 8)))


@settings(max_examples=250)
@given(any_layouts(size=128), any_layouts(size=16))
def test_logical_divide(layout, tiler):
    try:
        result = logical_divide(layout, tiler)
    except NotDivisible:
        assert not _divides(layout, tiler)
        return
    tile, rest = result
    assert table_by_definition(tile) == [layout(index) for index in table_by_definition(tiler)]
    # each index of the layout exactly once, but for repetitions in the tiler itself
    indices = {
        index + start for index in tiler.offsets() for start in complement(tiler, layout.size).offsets()
    }
    assert indices == set(range(layout.size))
    assert rest.size * len(set(tiler.offsets())) == layout.size
    assert set(result.offsets()) == set(layout.offsets())


def _divides(layout, tiler):
    """The definition: the composition of the layout with tiler and complement exists."""
    try:
        composition(layout, make_layout(tiler, complement(tiler, layout.size)))
    except (NotComplementable, NotComposable, NotDivisible):
        return False
    return True


@settings(max_examples=150)
@given(compact_layouts(size=64), compact_layouts(size=16), compact_layouts(size=16))
def test_divide_family_agrees(layout, first, second):
    pair = make_layout(layout, Layout(16, 100))
    tiler = (first, second)
    try:
        logical = logical_divide(pair, tiler)
    except NotDivisible:
        for divide in (zipped_divide, tiled_divide, flat_divide):
            with pytest.raises(NotDivisible):
                divide(pair, tiler)
        return
    tiles = make_layout(logical[0][0], logical[1][0])
    rests = make_layout(logical[0][1], logical[1][1])
    assert zipped_divide(pair, tiler) == make_layout(tiles, rests)
    assert tiled_divide(pair, tiler) == make_layout(tiles, *rests)
    assert flat_divide(pair, tiler) == make_layout(*tiles, *rests)
    assert sorted(logical.offsets()) == sorted(pair.offsets())


def test_known_divides():
    assert logical_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)) == Layout(
        ((2, 2), (2, 3)), ((4, 1), (2, 8))
    )
    assert logical_divide(LAYOUT, TILER) == Layout(
        ((3, 3), ((2, 4), (2, 2))), ((177, 59), ((13, 2), (26, 1)))
    )
    assert zipped_divide(LAYOUT, TILER) == Layout(((3, (2, 4)), (3, (2, 2))), ((177, (13, 2)), (59, (26, 1))))
    assert tiled_divide(LAYOUT, TILER) == Layout(((3, (2, 4)), 3, (2, 2)), ((177, (13, 2)), 59, (26, 1)))
    assert flat_divide(LAYOUT, TILER) == Layout((3, (2, 4), 3, (2, 2)), (177, (13, 2), 59, (26, 1)))
    assert zipped_divide(Layout((128, 64)), (32, 16)) == Layout(((32, 16), (4, 4)), ((1, 128), (32, 2048)))
    assert zipped_divide(Layout((128, 64)), (32, None)) == Layout(((32, 1), (4, 64)), ((1, 0), (32, 128)))
    assert zipped_divide(Layout((128, 64)), (32,)) == Layout(((32,), (4, 64)), ((1,), (32, 128)))
    assert logical_divide(Layout((128, 64)), (None, 16)) == Layout((128, (16, 4)), (1, (128, 2048)))


def test_what_does_not_divide_raises():
    for layout, tiler in (
        (Layout(10), 4),
        (Layout(8), 16),
        (Layout((6, 4), (1, 100)), Layout(4)),
        (Layout(12), Layout((2, 2), (1, 3))),
    ):
        with pytest.raises(NotDivisible):
            logical_divide(layout, tiler)
    with pytest.raises(NotDivisible):
        zipped_divide(Layout((128, 60)), (32, 16))
    with pytest.raises(ProfileError):
        logical_divide(Layout((4, 4)), (2, 2, 2))
    with pytest.raises(ProfileError):
        zipped_divide(Layout(16), (2, 2))


def test_composed_layouts_divide_inside():
    swizzled = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((128, 64), (64, 1)))
    divided = zipped_divide(swizzled, (8, 64))
    assert divided == ComposedLayout(swizzled.swizzles, 0, zipped_divide(swizzled.layout, (8, 64)))
    assert divided((5, 9), (3, 0)) == swizzled(29, 9)


@settings(max_examples=250)
@given(any_layouts(size=32), any_layouts(size=16))
def test_logical_product(block, tiler):
    try:
        result = logical_product(block, tiler)
    except LayoutError as error:
        assert isinstance(error, NotComplementable | NotComposable)
        return
    first, copies = result
    assert first == block
    # the n-th copy of the block starts at the n-th gap, n counted by the tiler
    offsets = set(block.offsets())
    starts = []
    candidate = 0
    filled = set()
    while len(starts) < tiler.cosize:
        if candidate not in filled:
            starts.append(candidate)
            filled |= {candidate + offset for offset in offsets}
        candidate += 1
    assert table_by_definition(copies) == [starts[index] for index in table_by_definition(tiler)]


@settings(max_examples=150)
@given(compact_layouts(size=16), compact_layouts(size=16))
def test_blocked_and_raked_products(block, tiler):
    try:
        blocked = blocked_product(block, tiler)
    except LayoutError as error:
        assert isinstance(error, NotComplementable | NotComposable)
        return
    raked = raked_product(block, tiler)
    rank = max(block.rank, tiler.rank)
    assert blocked.rank == raked.rank == rank
    for low, high in zip(blocked, raked, strict=True):
        assert (low[0], low[1]) == (high[1], high[0])
    assert (
        sorted(blocked.offsets())
        == sorted(raked.offsets())
        == sorted(logical_product(block, tiler).offsets())
    )


def test_known_products():
    assert logical_product(Layout((2, 2), (4, 1)), Layout(6)) == Layout(((2, 2), (2, 3)), ((4, 1), (2, 8)))
    assert logical_product(Layout((2, 2), (4, 1)), Layout((4, 2), (2, 1))) == Layout(
        ((2, 2), (4, 2)), ((4, 1), (8, 2))
    )
    block, tiler = Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3))
    assert blocked_product(block, tiler) == Layout(((2, 3), (5, 4)), ((5, 10), (1, 30)))
    assert raked_product(block, tiler) == Layout(((3, 2), (4, 5)), ((10, 5), (30, 1)))
    assert blocked_product(Layout(4), Layout((2, 3))) == Layout(((4, 2), (1, 3)), ((1, 4), (0, 8)))
    pair = Layout((2, 5), (5, 1))
    by_mode = (Layout(3, 5), Layout(4, 6))
    logical = logical_product(pair, by_mode)
    assert logical == make_layout(logical_product(pair[0], by_mode[0]), logical_product(pair[1], by_mode[1]))
    blocks = make_layout(logical[0][0], logical[1][0])
    copies = make_layout(logical[0][1], logical[1][1])
    assert zipped_product(pair, by_mode) == make_layout(blocks, copies)
    assert tiled_product(pair, by_mode) == make_layout(blocks, *copies)
    assert flat_product(pair, by_mode) == make_layout(*blocks, *copies)
    with pytest.raises(NotComplementable):
        logical_product(Layout((2, 2), (1, 3)), 2)
    with pytest.raises(ProfileError):
        logical_product(Layout(4), (2, 2))
