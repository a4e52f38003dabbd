"""Layouts as functions: evaluation, coalescing, filtering, slicing."""

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_strategies import any_layouts, layouts, table_by_definition

from layout_algebra import (
    CoordinateError,
    Layout,
    LayoutError,
    ProfileError,
    coalesce,
    column_major,
    filter,
    filter_zeros,
    flatten,
    flatten_layout,
    idx2crd,
    is_injective,
    make_layout,
    ordered_layout,
    row_major,
    same_function,
    slice_layout,
)

SIGNED = st.sampled_from([-8, -3, -1, 0, 1, 2, 4, 12])


@settings(max_examples=200)
@given(layouts(strides=SIGNED))
def test_evaluation(layout):
    table = table_by_definition(layout)
    assert [layout(index) for index in range(layout.size)] == table
    assert [layout(idx2crd(index, layout.shape)) for index in range(layout.size)] == table
    assert list(layout.offsets()) == table
    assert layout.cosize == max(table) + 1
    assert layout.minimum == min(table)
    assert is_injective(layout) == (len(set(table)) == len(table))
    for outside in (-1, layout.size):
        with pytest.raises(CoordinateError):
            layout(outside)


@settings(max_examples=200)
@given(layouts(strides=SIGNED))
def test_coalesce_is_the_same_function_in_fewest_modes(layout):
    result = coalesce(layout)
    assert table_by_definition(result) == table_by_definition(layout)
    modes = list(zip(flatten(result.shape), flatten(result.stride), strict=True))
    assert result == Layout(1, 0) or all(extent > 1 for extent, _ in modes)
    assert all(low[0] * low[1] != high[1] for low, high in pairwise(modes))
    assert isinstance(result.shape, int) or result.rank > 1
    assert same_function(layout, result)


@given(layouts(), layouts())
def test_same_function(first, second):
    assert same_function(first, second) == (table_by_definition(first) == table_by_definition(second))


@given(layouts(), layouts(), layouts())
def test_coalesce_by_mode(first, second, third):
    result = coalesce(make_layout(first, second, third), (1, 1))
    assert result == make_layout(coalesce(first), coalesce(second), third)


@given(layouts())
def test_filter(layout):
    shrunk = filter_zeros(layout)
    assert set(shrunk.offsets()) == set(layout.offsets())
    assert all(stride or extent == 1 for extent, stride in shrunk.modes)
    assert filter(layout) == coalesce(shrunk)


@given(any_layouts(), st.data())
def test_slices(layout, data):
    fixed = tuple(
        data.draw(st.one_of(st.none(), st.integers(0, mode.size - 1)), label="entry") for mode in layout
    )
    kept, offset = slice_layout(layout, fixed)
    free = [mode for mode, entry in enumerate(fixed) if entry is None]
    for index in range(kept.size):
        coordinate = dict(zip(free, _split(index, [layout[mode].size for mode in free]), strict=True))
        point = [coordinate.get(mode, entry) for mode, entry in enumerate(fixed)]
        expected = layout(*point) if layout.rank > 1 else layout[0](point[0])
        assert kept(index) + offset == expected


def _split(index, extents):
    digits = []
    for extent in extents:
        index, digit = divmod(index, extent)
        digits.append(digit)
    return digits


def test_text_and_attributes():
    layout = Layout((4, 8))
    assert str(layout) == "(4, 8):(1, 4)" and repr(layout) == "Layout((4, 8), (1, 4))"
    assert eval(repr(layout)) == layout and hash(eval(repr(layout))) == hash(layout)
    assert (layout.size, layout.cosize, layout.rank, len(layout)) == (32, 32, 2, 2)
    assert layout(1, 2) == layout((1, 2)) == layout(9) == 9
    assert Layout((4, (2, 2)), (1, (16, 4)))(3, (1, 1)) == Layout((4, (2, 2)), (1, (16, 4)))(3, 3) == 23
    assert layout[1] == layout[-1] == Layout(8, 4) and layout[0:1] == Layout((4,), (1,))
    assert Layout(8)[0] == Layout(8) and list(Layout(8)) == [Layout(8)]
    assert str(Layout((), ())) == "():()" and Layout((), ())() == 0
    assert column_major((4, 8)) == Layout((4, 8), (1, 4))
    assert row_major((4, (2, 8))) == Layout((4, (2, 8)), (16, (8, 1)))
    assert ordered_layout((4, 8, 2), (1, 0, 2)) == Layout((4, 8, 2), (8, 1, 32))
    assert flatten_layout(Layout((4, (2, 8)))) == Layout((4, 2, 8))
    assert Layout([4, [2, 2]]) == Layout((4, (2, 2)))
    assert coalesce(Layout((2, (1, 6)), (1, (6, 2)))) == Layout(12)


def test_errors():
    for shape, stride in (((4, 8), 1), ((4, 8), (1, (4,))), (4, (1,))):
        with pytest.raises(ProfileError):
            Layout(shape, stride)
    with pytest.raises(LayoutError):
        Layout((4, 0))
    with pytest.raises(LayoutError):
        Layout((4, -2), (1, 1))
    with pytest.raises(LayoutError):
        Layout((4, "8"))
    with pytest.raises(ProfileError):
        Layout((4, 8))(1, 2, 3)
    with pytest.raises(CoordinateError):
        Layout((4, 8))(4, 0)
    with pytest.raises(CoordinateError):
        Layout((4, 8))[2]
    with pytest.raises(CoordinateError):
        Layout(8)[1]
    with pytest.raises(ProfileError):
        coalesce(Layout((4, 8)), (1, 1, 1))
    with pytest.raises(ProfileError):
        coalesce(Layout((4, 8)), ((1, 1),))
    with pytest.raises(ProfileError):
        slice_layout(Layout((4, 8)), (None,))
    with pytest.raises(ProfileError):
        ordered_layout((4, 8), (0,))
    with pytest.raises(AttributeError):
        Layout(4).shape = 5


def test_import_is_light_and_complete():
    code = (
        "import sys, layout_algebra as la; assert not {'numpy', 'sympy'} & set(sys.modules);"
        "[getattr(la, name) for name in la.__all__]; assert 'sympy' in sys.modules;"
        "assert all(issubclass(getattr(la, n), la.LayoutError) for n in la.__all__ if n.startswith('Not'))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError):
        import layout_algebra

        layout_algebra.no_such_name  # noqa: B018
