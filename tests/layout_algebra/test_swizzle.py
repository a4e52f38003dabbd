"""Swizzles and layouts behind them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layout_strategies import any_layouts, table_by_definition

from layout_algebra import ComposedLayout, CoordinateError, Layout, LayoutError, Swizzle


@st.composite
def swizzles(draw):
    bits = draw(st.integers(0, 3))
    shift = draw(st.integers(bits, 4)) * draw(st.sampled_from([1, -1]))
    return Swizzle(bits, draw(st.integers(0, 3)), shift)


@given(swizzles())
def test_swizzles_permute_aligned_blocks_and_undo_themselves(swizzle):
    for block in range(2):
        offsets = range(block * swizzle.period, (block + 1) * swizzle.period)
        assert sorted(map(swizzle, offsets)) == list(offsets)
    assert all(swizzle(swizzle(offset)) == offset for offset in range(2 * swizzle.period))


@given(swizzles())
def test_swizzle_bit_by_bit(swizzle):
    for offset in range(0, 4 * swizzle.period, 3):
        expected = offset
        for bit in range(swizzle.bits):
            low, high = swizzle.base + bit, swizzle.base + bit + abs(swizzle.shift)
            source, target = (high, low) if swizzle.shift >= 0 else (low, high)
            expected ^= (offset >> source & 1) << target
        assert swizzle(offset) == expected


@given(swizzles(), st.integers(0, 3))
def test_rescale(swizzle, bits):
    fine = swizzle.rescale(1 << bits)
    assert all(
        fine((offset << bits) + rest) == (swizzle(offset) << bits) + rest
        for offset in range(swizzle.period)
        for rest in range(1 << bits)
    )


@given(any_layouts(size=128), st.lists(swizzles(), max_size=3), st.integers(0, 100))
def test_composed_layout(layout, chain, offset):
    composed = ComposedLayout(chain, offset, layout)
    expected = [start + offset for start in table_by_definition(layout)]
    for swizzle in reversed(chain):
        expected = [swizzle(value) for value in expected]
    assert list(composed.offsets()) == expected
    assert [composed(index) for index in range(composed.size)] == expected
    assert composed.cosize == max(expected) + 1
    assert (composed.shape, composed.size, composed.rank) == (layout.shape, layout.size, layout.rank)


def test_text():
    layout = Layout((128, 64), (64, 1))
    assert str(Swizzle(3, 3, 3)) == "Sw<3,3,3>"
    assert str(ComposedLayout(Swizzle(3, 3, 3), 0, layout)) == "Sw<3,3,3> o (128, 64):(64, 1)"
    both = ComposedLayout((Swizzle(3, 3, 3), Swizzle(2, 3, 7)), 0, Layout((256, 64), (64, 1)))
    assert str(both) == "Sw<3,3,3> o Sw<2,3,7> o (256, 64):(64, 1)"
    assert str(ComposedLayout(Swizzle(3, 3, 3), 64, layout)) == "Sw<3,3,3> o 64 o (128, 64):(64, 1)"
    assert str(ComposedLayout((), 0, layout)) == "(128, 64):(64, 1)"
    assert ComposedLayout(Swizzle(0, 4, 3), 0, layout) == ComposedLayout((), 0, layout)
    assert str(Swizzle(3, 3, 3).rescale(2)) == "Sw<3,4,3>"


def test_the_northstar_swizzle():
    """Chunk c of row r goes to c ^ r % 8 ^ r / 16 % 4, in rows of 8 chunks of 8 elements."""
    both = ComposedLayout((Swizzle(3, 3, 3), Swizzle(2, 3, 7)), 0, Layout((256, 64), (64, 1)))
    for row in range(256):
        for column in range(64):
            chunk = column // 8 ^ row % 8 ^ row // 16 % 4
            assert both(row, column) == 64 * row + 8 * chunk + column % 8


def test_errors():
    for arguments in ((3, 3, 2), (-1, 0, 3), (1, -1, 3), (3, 3, -2)):
        with pytest.raises(LayoutError):
            Swizzle(*arguments)
    with pytest.raises(CoordinateError):
        Swizzle(3, 3, 3)(-1)
    with pytest.raises(LayoutError):
        Swizzle(3, 3, 3).rescale(3)
    with pytest.raises(LayoutError):
        ComposedLayout(Swizzle(3, 3, 3), 2, Layout(4, -1))
    with pytest.raises(CoordinateError):
        ComposedLayout(Swizzle(3, 3, 3), 0, Layout(4))(4)
