"""Drawings."""

import xml.etree.ElementTree as ElementTree

import pytest

from layout_algebra import ComposedLayout, Fragment, Layout, LayoutError, Swizzle, draw_svg, draw_text

FRAGMENT = Fragment((4, 2), Layout(((4, 2), 2), ((1, 0), 4)))


def test_text():
    assert draw_text(Layout((2, 3), (3, 1))) == ("(2, 3):(3, 1)\n   0  1  2\n0  0  1  2\n1  3  4  5\n")
    assert draw_text(Layout(3, 2)) == "3:2\n   0\n0  0\n1  2\n2  4\n"
    assert draw_text(FRAGMENT).splitlines()[2].split() == [
        "0",
        "T0",
        "V0",
        "T4",
        "V0",
        "T0",
        "V1",
        "T4",
        "V1",
    ]


@pytest.mark.parametrize(
    "drawn", [Layout((4, 8), (8, 1)), ComposedLayout(Swizzle(2, 0, 3), 0, Layout((8, 8), (8, 1))), FRAGMENT]
)
def test_svg(drawn):
    root = ElementTree.fromstring(draw_svg(drawn))
    kinds = [child.tag.rpartition("}")[2] for child in root]
    rows, columns = drawn.shape
    assert kinds.count("rect") == rows * columns
    # a title, the numbers of rows and columns, the cells
    assert kinds.count("text") == 1 + rows + columns + rows * columns
    texts = [child.text for child in root if child.tag.endswith("text")]
    assert texts[0] == str(drawn)


def test_three_modes_cannot_be_drawn():
    with pytest.raises(LayoutError):
        draw_text(Layout((2, 2, 2)))
