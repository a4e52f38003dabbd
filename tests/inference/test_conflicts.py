"""Bank-conflict counting, against layout_algebra's count and a count by hand over every lane."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_algebra import bank_conflicts
from tilegen.inference.conflicts import cycles_lost, loop_cost, offsets
from tilegen.inference.loops import Access
from tilegen.inference.partition import coalesced
from tilegen.inference.shared import SharedLayout, Xor, row_major, swizzled
from tilegen.inference.shared_choice import candidates
from tilegen.ir import build
from tilegen.ir.expressions import Var
from tilegen.ir.nodes import Buffer
from tilegen.ir.types import float16, float32
from tilegen.target import load_target

ROW, COLUMN = Var("i", role="parallel"), Var("j", role="parallel")


@pytest.mark.parametrize("target_name", ["sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("width", [4, 8, 16])
@given(data=st.data())
def test_any_addresses(target_name: str, width: int, data: st.DataObject) -> None:
    target = load_target(target_name)
    lanes = target.limits.warp_size
    one = st.one_of(st.integers(0, 255).map(lambda n: n * width), st.none())
    addresses = data.draw(st.lists(one, min_size=lanes, max_size=lanes))
    phases = target.shared_phases("load", width)
    array = np.array([[-1 if address is None else address for address in addresses]])
    assert cycles_lost(array, width, phases, target) == bank_conflicts(
        addresses, width, target.limits.banks, phases
    )


LAYOUTS = [
    row_major((64, 64), float16),
    row_major((64, 64), float16, 8),
    swizzled((64, 64), float16),
    swizzled((32, 256), float16),
    swizzled((64, 32), float32, transposed=True),
    SharedLayout((64, 64), float16, 64, (Xor(8, 8),)),
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_offsets_of_arrays_are_those_of_coordinates(layout: SharedLayout) -> None:
    rows, columns = np.meshgrid(*(np.arange(extent) for extent in layout.shape), indexing="ij")
    found = offsets(layout, [rows, columns])
    expected = [[layout.offset((i, j)) for j in range(layout.shape[1])] for i in range(layout.shape[0])]
    assert np.array_equal(found, expected)
    assert len(np.unique(found)) == found.size


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout.shape == (64, 64)])
@pytest.mark.parametrize("transposed", [False, True])
def test_loops_are_counted_like_a_simulation_of_their_lanes(layout: SharedLayout, transposed: bool) -> None:
    target = load_target("sm_90a")
    partition = coalesced((64, 64), 128, 8, 32)
    buffer = Buffer("s", (build.const(64), build.const(64)), float16, "shared")
    access = Access("load", buffer, (COLUMN, ROW) if transposed else (ROW, COLUMN))
    cost = loop_cost(access, ("i", "j"), partition, layout, {}, target)
    width = 1 if transposed else 8
    lost = 0
    for register in partition.each_register():
        if register[-1] % width:
            continue
        for warp in range(4):
            places = [partition.coordinates(32 * warp + lane, register) for lane in range(32)]
            places = [(j, i) if transposed else (i, j) for i, j in places]
            addresses = [2 * layout.offset(place) for place in places]
            if width == 1:  # a lane that reads 2 bytes wants the word that they lie in
                addresses = [address // 4 * 4 for address in addresses]
            phases = target.shared_phases("load", max(4, 2 * width))
            lost += bank_conflicts(addresses, max(4, 2 * width), 32, phases)
    assert cost.lost == lost


@pytest.mark.parametrize("shape", [(64, 64), (32, 128), (16, 24), (5, 7), (96,), (4, 8, 32)])
@pytest.mark.parametrize("dtype", [float16, float32])
def test_candidates_place_every_element_apart(shape: tuple[int, ...], dtype: object) -> None:
    for layout in candidates(shape, dtype):  # type: ignore[arg-type]
        grids = np.meshgrid(*(np.arange(extent) for extent in shape), indexing="ij")
        found = offsets(layout, list(grids))
        assert len(np.unique(found)) == found.size
        assert found.max() < layout.elements
