"""Layouts of shared tiles: what their text says is where their elements lie."""

from __future__ import annotations

import re
from ast import literal_eval
from itertools import product

import pytest

from layout_algebra import ComposedLayout, Layout, Swizzle
from tilegen.inference.shared import SharedLayout, Xor, swizzled
from tilegen.ir.types import float16, float32

LAYOUTS = (  # an XOR of more chunks than a row has moves rows: it comes last, wherever it stands
    swizzled((64, 256), float16),
    swizzled((64, 32), float16),
    swizzled((64, 128), float16, transposed=True),
    SharedLayout((64, 64), float16, 64, (Xor(1, 8), Xor(8, 8))),
    SharedLayout((32, 128), float16, 32, (Xor(1, 4), Xor(8, 8)), transposed=True),
    SharedLayout((32, 128), float16, 32, (Xor(8, 8), Xor(1, 4)), transposed=True),
    SharedLayout((64, 16), float32, 16, (Xor(2, 8),)),
    SharedLayout((16, 40), float16, 40, padding=8),
)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_text_is_the_layout(layout: SharedLayout) -> None:
    text = str(layout)
    chain = [Swizzle(*map(int, found)) for found in re.findall(r"Sw<(\d+),(\d+),(\d+)> o ", text)]
    shape, stride = map(literal_eval, text.rpartition(" o ")[2].split(":"))
    said = ComposedLayout(chain, 0, Layout(shape, stride))
    for coordinates in product(*map(range, layout.shape)):
        assert said(*coordinates) == layout.offset(coordinates)
