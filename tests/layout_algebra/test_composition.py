"""Composition against brute force over whole domains."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_strategies import any_layouts, is_layout_function, layouts, table_by_definition

from layout_algebra import (
    ComposedLayout,
    Layout,
    NotComposable,
    ProfileError,
    Swizzle,
    composition,
    make_layout,
    weakly_congruent,
)


@settings(max_examples=500)
@given(any_layouts(), layouts(size=64))
def test_composition_is_right_or_impossible(outer: Layout, inner: Layout) -> None:
    inside = table_by_definition(inner)
    outside = table_by_definition(outer)
    try:
        result = composition(outer, inner)
    except NotComposable:
        in_domain = all(0 <= offset < outer.size for offset in inside)
        assert not in_domain or not _representable(outer, inner)
        return
    assert table_by_definition(result) == [outside[offset] for offset in inside]
    assert weakly_congruent(inner.shape, result.shape)


def _representable(outer: Layout, inner: Layout) -> bool:
    """A layout of this profile exists: one along each mode of `inner`, and the modes add up."""
    outside = table_by_definition(outer)
    table = [0]
    for extent, step in inner.modes:
        along = [outside[coordinate * step] for coordinate in range(extent)]
        if not is_layout_function(along, extent):
            return False
        table = [offset + more for more in along for offset in table]
    return table == [outside[offset] for offset in table_by_definition(inner)]


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1)), Layout(((2, 2), 3), ((24, 2), 8))),
        (Layout(20, 2), Layout((5, 4), (4, 1)), Layout((5, 4), (8, 2))),
        (Layout((10, 2), (16, 4)), Layout((5, 4), (1, 5)), Layout((5, (2, 2)), (16, (80, 4)))),
        (Layout((4, 2), (1, 100)), Layout(2, 3), Layout(2, 3)),
        (Layout((2, 2, 2), (1, 5, 7)), Layout((2, 2), (1, 3)), Layout((2, 2), (1, 6))),
        (Layout((8, 8), (8, 1)), Layout(64, 1), Layout((8, 8), (8, 1))),
        (Layout(7, 3), Layout((3, 2), (2, 0)), Layout((3, 2), (6, 0))),
        (Layout(8, -1), Layout(4, 2), Layout(4, -2)),
    ],
)
def test_known_compositions(outer: Layout, inner: Layout, expected: Layout) -> None:
    assert composition(outer, inner) == expected


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        # CuTe and pycute return a wrong layout for these two
        (Layout((4, 3, 8), (1, 100, 1000)), Layout(5, 4)),
        (Layout((8, 6, 2), (16, 12, 24)), Layout(4, 6)),
        # 1 + 3 carries from the first mode into the second
        (Layout((4, 4), (1, 100)), Layout((2, 2), (1, 3))),
        (Layout((4, 4), (1, 100)), Layout((3, 2), (1, 2))),
        # out of the domain: CuTe extends the last mode
        (Layout(8), Layout(9)),
        (Layout((4, 2), (2, 1)), Layout(2, 8)),
        (Layout(8), Layout(2, -1)),
    ],
)
def test_impossible_compositions_raise(outer: Layout, inner: Layout) -> None:
    with pytest.raises(NotComposable):
        composition(outer, inner)


def test_tuples_compose_by_mode() -> None:
    layout = Layout((12, (4, 8)), (59, (13, 1)))
    tiler = (Layout(3, 4), Layout(8, 2))
    assert composition(layout, tiler) == make_layout(
        composition(layout[0], tiler[0]), composition(layout[1], tiler[1])
    )
    assert composition(layout, (3, 8)) == Layout((3, (4, 2)), (59, (13, 1)))
    assert composition(layout, (None, 8))[0] == layout[0]
    assert composition(layout, (Layout(3, 4),))[1] == layout[1]
    with pytest.raises(ProfileError):
        composition(layout, (3, 4, 5))


@given(any_layouts(size=128), layouts(size=32), st.integers(0, 3), st.integers(0, 3))
def test_swizzles_stay_outside(outer: Layout, inner: Layout, bits: int, base: int) -> None:
    swizzled = composition(Swizzle(bits, base, 3), outer)
    assert isinstance(swizzled, ComposedLayout)
    try:
        result = composition(swizzled, inner)
    except NotComposable:
        with pytest.raises(NotComposable):
            composition(outer, inner)
        return
    assert list(result.offsets()) == [swizzled(offset) for offset in table_by_definition(inner)]
    with pytest.raises(NotComposable):
        composition(outer, result)


def test_swizzle_of_composed_layout_goes_outermost() -> None:
    inner = ComposedLayout(Swizzle(2, 3, 7), 64, Layout((256, 64), (64, 1)))
    assert composition(Swizzle(3, 3, 3), inner) == ComposedLayout(
        (Swizzle(3, 3, 3), Swizzle(2, 3, 7)), 64, inner.layout
    )
    with pytest.raises(NotComposable):
        composition(Swizzle(3, 3, 3), (4, 4))  # type: ignore[call-overload]


def test_long_modes_are_composed_without_trying_them_out() -> None:
    huge = Layout((1 << 20, 1 << 20), (1 << 20, 1))
    assert composition(huge, Layout((1 << 10, 1 << 20), (1 << 5, 1 << 20))) == Layout(
        (1 << 10, 1 << 20), (1 << 25, 1)
    )
    with pytest.raises(NotComposable):
        composition(huge, Layout((1 << 22) + 1, 1 << 17))
