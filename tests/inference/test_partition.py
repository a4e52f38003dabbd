"""The coalesced partition covers its tile exactly, keeps warps on rows and takes few registers."""

from __future__ import annotations

from collections import Counter
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from tilegen.inference.fragment import Fragment
from tilegen.inference.partition import coalesced


def _owners(fragment: Fragment) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for thread in range(fragment.thread_count):
        for register in fragment.each_register():
            place = fragment.coordinates(thread, register)
            if all(a < b for a, b in zip(place, fragment.tile, strict=True)):
                found[place] += 1
    return found


@given(
    tile=st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple),
    threads=st.sampled_from([32, 64, 96, 128, 256]),
    vector=st.sampled_from([1, 2, 4, 8]),
    warp=st.sampled_from([32, 64]),
    row=st.sampled_from([None, 1, 8, 16]),
)
def test_each_element_has_as_many_owners_as_replicas(
    tile: tuple[int, ...], threads: int, vector: int, warp: int, row: int | None
) -> None:
    if tile[-1] % vector or threads % warp:
        return
    fragment = coalesced(tile, threads, vector, warp, row)
    assert fragment.thread_count == threads
    owners = _owners(fragment)
    assert len(owners) == prod(tile)
    assert set(owners.values()) == {fragment.replication}


@given(
    rows=st.integers(1, 64),
    columns=st.integers(1, 64),
    threads=st.sampled_from([64, 128]),
    vector=st.sampled_from([1, 4]),
)
def test_neighbouring_lanes_hold_neighbouring_vectors(
    rows: int, columns: int, threads: int, vector: int
) -> None:
    fragment = coalesced((rows, columns * vector), threads, vector, 32)
    lanes = min(32, columns)
    first = [fragment.coordinates(lane, (0,) * len(fragment.registers)) for lane in range(lanes)]
    assert first == [(0, lane * vector) for lane in range(lanes)]
    assert fragment.contiguous_registers(1) >= vector or vector == 1


def test_whole_warps_stay_on_a_row() -> None:
    fragment = coalesced((4, 4096), 128, 8, 32)
    rows = {thread // 32: fragment.coordinates(thread, (0, 0))[0] for thread in range(128)}
    assert rows == {0: 0, 1: 1, 2: 2, 3: 3}
    assert all(fragment.coordinates(thread, (0, 0))[0] == thread // 32 for thread in range(128))


def test_a_single_row_is_shared_by_all_warps() -> None:
    fragment = coalesced((1, 4096), 128, 8, 32)
    assert fragment.register_count == 32
    assert fragment.exact


def test_lanes_beyond_a_cache_line_lie_in_the_next_rows() -> None:
    fragment = coalesced((64, 64), 256, 4, 32, 8)
    places = [fragment.thread_coordinates(lane) for lane in range(32)]
    assert places == [(lane // 8, 4 * (lane % 8)) for lane in range(32)]
    assert fragment.register_count == 64 * 64 // 256
