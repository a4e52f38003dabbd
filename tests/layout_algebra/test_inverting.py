"""Complement and inverses against brute force over whole domains."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_strategies import any_layouts, compact_layouts, table_by_definition

from layout_algebra import (
    Layout,
    LayoutError,
    NotComplementable,
    NotComposable,
    NotDivisible,
    NotInvertible,
    complement,
    composition,
    filter_zeros,
    inverse,
    is_bijective,
    is_injective,
    left_inverse,
    make_layout,
    max_common_layout,
    max_common_vector,
    right_inverse,
)


@settings(max_examples=200)
@given(any_layouts(size=64), st.integers(1, 12))
def test_complement_fills_the_gaps(layout, copies):
    reached = sorted(set(table_by_definition(layout)))
    try:
        end = complement(layout).cosize - 1 + layout.cosize
        result = complement(layout, end * copies)
    except NotComplementable:
        assert not is_injective(filter_zeros(layout)) or not _tiles_an_interval(reached)
        return
    both = [offset + gap for offset in reached for gap in table_by_definition(result)]
    assert sorted(both) == list(range(end * copies))
    assert list(result.modes) == sorted(result.modes, key=lambda mode: mode[1])


def _tiles_an_interval(offsets):
    """Whether copies of the set fill 0 … n-1 for some n: each copy must start at the first free offset."""
    filled = set()
    limit = 2 * (offsets[-1] + 1)
    start = 0
    while start < limit:
        copy = {start + offset for offset in offsets}
        if copy & filled:
            return False
        filled |= copy
        while start in filled:
            start += 1
        if len(filled) == start:
            return True
    return False


def test_known_complements():
    assert complement(Layout(4, 1), 24) == Layout(6, 4)
    assert complement(Layout(6, 4), 24) == Layout(4, 1)
    assert complement(Layout((4, 6), (1, 4)), 24) == Layout(1, 0)
    assert complement(Layout(4, 2), 24) == Layout((2, 3), (1, 8))
    assert complement(Layout((2, 4), (1, 6)), 24) == Layout(3, 2)
    assert complement(Layout((2, 2), (1, 6)), 24) == Layout((3, 2), (2, 12))
    assert complement(Layout(4, 2)) == Layout(2, 1)
    assert complement(Layout((4, 2), (2, 0)), (4, 6)) == Layout((2, 3), (1, 8))
    with pytest.raises(NotDivisible):
        complement(Layout(4), 10)
    with pytest.raises(LayoutError):
        complement(Layout(4), 0)
    for layout in (Layout((2, 2), (1, 3)), Layout((4, 2), (1, 2)), Layout(2, -1)):
        with pytest.raises(NotComplementable):
            complement(layout, 12)


@settings(max_examples=200)
@given(any_layouts(size=128))
def test_right_inverse(layout):
    result = right_inverse(layout)
    assert [layout(result(index)) for index in range(result.size)] == list(range(result.size))
    assert is_bijective(layout) == (sorted(table_by_definition(layout)) == list(range(layout.size)))


@settings(max_examples=200)
@given(compact_layouts(size=128))
def test_two_sided_inverse(layout):
    if not is_bijective(layout):
        with pytest.raises(NotInvertible):
            inverse(layout)
        return
    result = inverse(layout)
    assert [layout(result(index)) for index in range(layout.size)] == list(range(layout.size))
    assert [result(layout(index)) for index in range(layout.size)] == list(range(layout.size))


@settings(max_examples=200)
@given(any_layouts(size=128))
def test_left_inverse(layout):
    table = table_by_definition(layout)
    try:
        result = left_inverse(layout)
    except NotInvertible:
        # impossible, or strides that neither nest nor divide each other
        strides = sorted({stride for extent, stride in layout.modes if extent > 1})
        divide = all(high % low == 0 for low, high in pairwise(strides) if low)
        assert len(set(table)) < len(table) or not divide
        return
    assert [result(offset) for offset in table] == list(range(layout.size))


def test_known_inverses():
    assert right_inverse(Layout((4, 8), (8, 1))) == Layout((8, 4), (4, 1))
    assert right_inverse(Layout((4, 8), (1, 5))) == Layout(4)
    assert right_inverse(Layout(4, 2)) == Layout(1, 0)
    assert right_inverse(Layout((2, 4), (0, 1))) == Layout(4, 2)
    assert left_inverse(Layout(4, 2)) == Layout((2, 4), (4, 1))
    assert left_inverse(Layout((2, 2), (1, 3))) == Layout((3, 2), (1, 2))
    for layout in (Layout((2, 2), (1, 1)), Layout(4, 0), Layout(4, -1)):
        with pytest.raises(NotInvertible):
            left_inverse(layout)


@settings(max_examples=200)
@given(any_layouts(size=64), any_layouts(size=64))
def test_max_common_layout(first, second):
    if first.size != second.size:
        with pytest.raises(LayoutError):
            max_common_layout(first, second)
        return
    common = max_common_layout(first, second)
    for index in range(common.size):
        assert first(common(index)) == second(common(index)) == index
    assert max_common_vector(first, second) == common.size


@given(compact_layouts(size=64))
def test_layouts_have_everything_in_common_with_themselves(layout):
    assert max_common_vector(layout, layout) == right_inverse(layout).size


def test_max_common_vector_examples():
    assert max_common_vector(Layout((8, 4), (1, 8)), Layout((8, 4), (1, 16))) == 8
    assert max_common_vector(Layout((8, 4), (4, 1)), Layout((8, 4), (1, 8))) == 1
    assert max_common_vector(Layout((4, 8), (8, 1)), Layout((4, (4, 2)), (4, (1, 16)))) == 4


def test_complement_composes_into_a_bijection():
    tile = Layout((4, 2), (2, 32))
    whole = make_layout(tile, complement(tile, 128))
    assert sorted(whole.offsets()) == list(range(128))
    with pytest.raises(NotComposable):
        composition(Layout(64), whole)
