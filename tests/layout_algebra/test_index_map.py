"""Symbolic index maps against Python's own integers."""

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_strategies import any_layouts, table_by_definition

from layout_algebra import (
    BitXor,
    ComposedLayout,
    CoordinateError,
    FloorDiv,
    FloorMod,
    Index,
    IndexMap,
    Layout,
    LayoutError,
    NotComposable,
    NotRepresentable,
    ProfileError,
    Swizzle,
    dynamic_extent,
    same_function,
)

NUMBERS = st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 64])


@st.composite
def formulas(draw, depth=3):
    """Python source of an integer formula in i and j."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(["i", "j", "i", "j", "3", "8"]))
    inner = draw(formulas(depth=depth - 1))
    match draw(st.integers(0, 7)):
        case 0 | 1:
            return f"({inner} + {draw(formulas(depth=depth - 1))})"
        case 2:
            return f"({draw(NUMBERS)} * {inner})"
        case 3 | 4:
            return f"({inner} // {draw(NUMBERS)})"
        case 5 | 6:
            return f"({inner} % {draw(NUMBERS)})"
        case _:
            operator = draw(st.sampled_from(["^", "&", "|", "-", "<<", ">>"]))
            right = "2" if operator in ("<<", ">>") else draw(formulas(depth=depth - 1))
            return f"({inner} {operator} {right})"


@settings(max_examples=150, deadline=None)
@given(formulas(), st.sampled_from([(8, 8), (4, 6), (5, 16)]))
def test_simplification_keeps_every_value(formula, extents):
    function = eval(f"lambda i, j: {formula} + 0 * i")
    index_map = IndexMap.from_function(extents, function)
    expected = [function(i, j) for j in range(extents[1]) for i in range(extents[0])]
    assert list(index_map.offsets()) == expected
    assert [index_map(i, j) for j in range(extents[1]) for i in range(extents[0])] == expected


@settings(max_examples=60, deadline=None)
@given(formulas(depth=2), st.integers(1, 9), st.integers(1, 9))
def test_dynamic_extents_keep_every_value(formula, rows, columns):
    width = dynamic_extent("N")
    text = f"({formula} + i * N + j) // N + 3 * (({formula} + i * N + j) % N)"
    symbolic = IndexMap.from_function(("M", "N"), lambda i, j: eval(text, {"i": i, "j": j, "N": width}))
    bound = symbolic.bind({"M": rows, "N": columns}) if "M" in str(symbolic.extents) else symbolic
    expected = [eval(text, {"i": i, "j": j, "N": columns}) for j in range(columns) for i in range(rows)]
    assert list(bound.offsets()) == expected


@pytest.mark.parametrize(
    ("extents", "function", "text"),
    [
        ((128, 64), lambda i, j: i * 72 + j, "(i, j) -> 72*i + j"),
        ((128, 64), lambda i, j: ((i * 64 + j) // 64, (i * 64 + j) % 64), "(i, j) -> (i, j)"),
        ((128, 64), lambda i, j: (i * 64 + j) // 8 % 8, "(i, j) -> (j // 8)"),
        ((64,), lambda i: i // 8 * 8 + i % 8, "(i) -> i"),
        ((64,), lambda i: i // 4 % 2 * 4 + i % 4, "(i) -> (i % 8)"),
        ((64,), lambda i: i // 4 // 2, "(i) -> (i // 8)"),
        ((64,), lambda i: i % 16 % 4, "(i) -> (i % 4)"),
        ((64,), lambda i: (5 * i + 8 * i) % 8, "(i) -> (5*i % 8)"),
        ((64,), lambda i: i & 7, "(i) -> (i % 8)"),
        ((64,), lambda i: i >> 3 << 3 | 0, "(i) -> 8*(i // 8)"),
        ((64,), lambda i: (i ^ i) + (i & i) - (0 ^ i), "(i) -> 0"),
        ((8,), lambda i: (i + 16) // 8, "(i) -> 2"),
        ((8,), lambda i: (i + 17) // 8, "(i) -> ((i + 1) // 8) + 2"),
        (("M", "N"), lambda i, j: (i * dynamic_extent("N") + j) // dynamic_extent("N"), "(i, j) -> i"),
        (("M", "N"), lambda i, j: (i * dynamic_extent("N") + j) % dynamic_extent("N"), "(i, j) -> j"),
    ],
)
def test_simplified_text(extents, function, text):
    index_map = IndexMap.from_function(extents, function)
    assert str(index_map) == text.replace("(5*i % 8)", "((5*i) % 8)")


@settings(max_examples=60, deadline=None)
@given(any_layouts(size=64))
def test_layouts_become_maps_and_come_back(layout):
    index_map = IndexMap.from_layout(layout)
    assert list(index_map.offsets()) == table_by_definition(layout)
    assert same_function(index_map.to_layout(), layout)
    assert index_map.cosize == layout.cosize and index_map.size == layout.size


@settings(max_examples=40, deadline=None)
@given(any_layouts(size=64), st.integers(0, 2), st.sampled_from([3, -3]), st.integers(0, 9))
def test_swizzled_layouts_become_maps(layout, base, shift, offset):
    composed = ComposedLayout((Swizzle(2, base, shift), Swizzle(1, 0, 5)), offset, layout)
    assert IndexMap.from_layout(composed).offsets() == composed.offsets()


def test_users_swizzle_is_the_swizzle():
    user = IndexMap.from_function((128, 64), lambda i, j: i * 64 + ((j // 8) ^ (i % 8)) * 8 + j % 8)
    assert user.offsets() == ComposedLayout(Swizzle(3, 3, 3), 0, Layout((128, 64), (64, 1))).offsets()
    with pytest.raises(NotRepresentable):
        user.to_layout()


def test_to_layout():
    tiled = IndexMap.from_function(
        (128, 64), lambda i, j: (i // 8) * 512 + (j // 8) * 64 + (i % 8) * 8 + j % 8
    )
    assert tiled.to_layout() == Layout(((8, 16), (8, 8)), ((8, 512), (1, 64)))
    assert IndexMap.from_function((128, 64), lambda i, j: i * 72 + j).to_layout() == Layout(
        (128, 64), (72, 1)
    )
    with pytest.raises(NotRepresentable):
        IndexMap.from_function((4,), lambda i: i + 1).to_layout()


def test_composition():
    width = dynamic_extent("N")
    flat = IndexMap.from_function(("M", "N"), lambda i, j: i * width + j)
    split = IndexMap.from_function((dynamic_extent("M") * width,), lambda x: (x // width, x % width))
    assert str(split.compose(flat)) == "(i, j) -> (i, j)"
    # proved by enumeration: the bounds of i ^ 1 are exact only in blocks of powers of two
    inner = IndexMap.from_function((6,), lambda i: i ^ 1)
    outer = IndexMap.from_function((6,), lambda x: 10 * x)
    assert outer.compose(inner).offsets() == (10, 0, 30, 20, 50, 40)
    with pytest.raises(NotComposable):
        IndexMap.from_function((5,), lambda x: x).compose(inner)
    with pytest.raises(NotComposable):
        IndexMap.from_function(("N",), lambda x: x).compose(IndexMap.from_function(("M",), lambda i: i))
    with pytest.raises(ProfileError):
        flat.compose(flat)


def test_calls():
    index_map = IndexMap.from_function((8, 8), lambda i, j: (i + j, i // 2))
    assert index_map(3, 4) == (7, 1)
    symbol = sympy.Symbol("t", integer=True, nonnegative=True)
    assert index_map(2 * symbol, 0) == (2 * symbol, symbol)
    assert index_map(Index(symbol), 1)[0] == symbol + 1
    assert IndexMap.from_function((2, 2), lambda *at: at[0] + 2 * at[1]).table() == ((0,), (1,), (2,), (3,))
    with pytest.raises(CoordinateError):
        index_map(8, 0)
    with pytest.raises(CoordinateError):
        index_map(0, -1)
    with pytest.raises(ProfileError):
        index_map(0)


def test_sympys_own_functions_are_understood():
    i = sympy.Symbol("i", integer=True, nonnegative=True)
    index_map = IndexMap((i,), (sympy.Integer(32),), (sympy.floor(i / 4) + sympy.Mod(i, 4),))
    assert index_map.offsets() == tuple(n // 4 + n % 4 for n in range(32))
    wrapped = Index(sympy.floor(i / 4) + sympy.ceiling(i / 8) * 10 + sympy.Mod(i, 4))
    assert wrapped.expression == FloorDiv(i, 4) - 10 * FloorDiv(-i, 8) + FloorMod(i, 4)
    assert FloorDiv(-7, 2) == -4 and FloorMod(-7, 4) == 1 and BitXor(5, 3) == 6


def test_reflected_operators():
    for function in (
        lambda i: 3 + i,
        lambda i: 3 - i,
        lambda i: 3 * i,
        lambda i: 30 // (i + 1),
        lambda i: 30 % (i + 1),
        lambda i: 5 ^ i,
        lambda i: 5 & i,
        lambda i: 5 | i,
        lambda i: -i + 0 * i,
        lambda i: i << 2,
        lambda i: i >> 1,
    ):
        assert IndexMap.from_function((9,), function).offsets() == tuple(function(n) for n in range(9))


def test_errors():
    symbolic = IndexMap.from_function(("M", 4), lambda i, j: 4 * i + j)
    for read in (lambda: symbolic.shape, symbolic.offsets, symbolic.to_layout, lambda: symbolic.size):
        with pytest.raises(LayoutError):
            read()
    with pytest.raises(LayoutError):
        symbolic.bind({"K": 4})
    with pytest.raises(LayoutError):
        symbolic.bind({"M": 0})
    for function in (
        lambda i, j: i / 2,
        lambda i, j: 1 / i,
        lambda i, j: i // 0,
        lambda i, j: i << j,
        lambda i, j: i if i else j,
        lambda i, j: "text",
        lambda i, j: i * 0.5,
        lambda i, j: 1.0,
    ):
        with pytest.raises(LayoutError):
            IndexMap.from_function((4, 4), function)
    with pytest.raises(ProfileError):
        IndexMap.from_function((4,), lambda i, j: i)
    with pytest.raises(LayoutError):
        IndexMap.from_function(("i", 4), lambda i, j: i)
    with pytest.raises(LayoutError):
        IndexMap.from_function((0, 4), lambda i, j: i)
    with pytest.raises(LayoutError):
        IndexMap.from_function((4, 4), lambda i, j: (i, j)).offsets()
    with pytest.raises(ProfileError):
        IndexMap(symbolic.variables, (sympy.Integer(4),), symbolic.expressions)
