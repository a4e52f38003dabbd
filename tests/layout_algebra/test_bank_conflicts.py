"""Bank conflicts, counted against a simulation of the banks and on the known layouts of GEMM kernels."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout_algebra import (
    ComposedLayout,
    Fragment,
    Layout,
    LayoutError,
    MisalignedAccess,
    ProfileError,
    Swizzle,
    bank_conflicts,
    consecutive_phases,
    default_phases,
    fragment_conflicts,
    matrix_conflicts,
    phase_cycles,
)

# CDNA's 16-byte reads of LDS
CDNA_READ_PHASES = tuple(
    tuple(start + lane for lane in (*range(first, first + 4), *range(second, second + 4)))
    for start in (0, 32)
    for first, second in ((0, 20), (4, 16), (8, 28), (12, 24))
)


def simulated_conflicts(addresses, access_bytes, banks, phases):
    """Serve each phase cycle by cycle: every cycle each bank opens one word for all lanes that wait for it."""
    lost = 0
    for phase in phases:
        waiting = {
            (addresses[lane] + byte) // 4
            for lane in phase
            if addresses[lane] is not None
            for byte in range(access_bytes)
        }
        cycles = 0
        while waiting:
            opened = {}
            for word in sorted(waiting):
                opened.setdefault(word % banks, word)
            waiting -= set(opened.values())
            cycles += 1
        lost += max(cycles - 1, 0)
    return lost


@settings(max_examples=200)
@given(st.data())
def test_against_simulation(data):
    width = data.draw(st.sampled_from([1, 2, 4, 8, 16]))
    lanes = data.draw(st.sampled_from([8, 32, 64]))
    banks = data.draw(st.sampled_from([16, 32, 64]))
    position = st.one_of(st.none(), st.integers(0, 200)) if data.draw(st.booleans()) else st.integers(0, 40)
    positions = data.draw(st.lists(position, min_size=lanes, max_size=lanes))
    addresses = [None if position is None else position * width for position in positions]
    if data.draw(st.booleans()):
        order = data.draw(st.permutations(range(lanes)))
        phases = [order[start : start + 8] for start in range(0, lanes, 8)]
        assert bank_conflicts(addresses, width, banks, phases) == simulated_conflicts(
            addresses, width, banks, phases
        )
    else:
        per_phase = min(lanes, banks * 4 // max(width, 4))
        phases = [range(start, start + per_phase) for start in range(0, lanes, per_phase)]
        assert bank_conflicts(addresses, width, banks) == simulated_conflicts(addresses, width, banks, phases)


@pytest.mark.parametrize(
    ("addresses", "width", "lost"),
    [
        ([4 * lane for lane in range(32)], 4, 0),
        ([0] * 32, 4, 0),  # broadcast
        ([128 * lane for lane in range(32)], 4, 31),
        ([8 * lane for lane in range(32)], 4, 1),
        ([2 * lane for lane in range(32)], 2, 0),  # two lanes a word
        ([8 * lane for lane in range(32)], 8, 0),  # two half-warps, no conflict in either
        ([128 * (lane % 16) + 8 * (lane // 16) for lane in range(32)], 8, 30),
        ([16 * lane for lane in range(32)], 16, 0),
        ([128 * lane for lane in range(32)], 16, 28),  # 4 phases of 8 rows
        ([128 * (lane // 8) for lane in range(32)], 16, 0),  # broadcast of 16 bytes
        ([None] * 32, 16, 0),
    ],
)
def test_known_patterns(addresses, width, lost):
    assert bank_conflicts(addresses, width) == lost


def test_default_phases():
    assert default_phases(32, 4) == default_phases(32, 2) == (tuple(range(32)),)
    assert default_phases(32, 8) == (tuple(range(16)), tuple(range(16, 32)))
    assert default_phases(32, 16) == consecutive_phases(32, 8)
    assert phase_cycles([128 * (lane % 8) for lane in range(32)], 16) == (8, 8, 8, 8)


@pytest.mark.parametrize("columns", [64, 128])
def test_ldmatrix_wants_the_swizzle(columns):
    """Rows 0-15 of a tile with 128-byte (or longer) rows, 8 columns a matrix."""
    plain = Layout((128, columns), (columns, 1))
    swizzle = Swizzle(3, 3, 3 + columns // 128)
    swizzled = ComposedLayout(swizzle, 0, plain)
    for column in range(0, columns, 16):
        rows = [(lane % 16, column + 8 * (lane // 16)) for lane in range(32)]
        assert matrix_conflicts([2 * swizzled(row, at) for row, at in rows]) == 0
        assert matrix_conflicts([2 * plain(row, at) for row, at in rows]) == 4 * 7
    padded = Layout((128, columns), (columns + 8, 1))
    assert matrix_conflicts([2 * padded(lane % 16, 8 * (lane // 16)) for lane in range(32)]) == 0


def test_cdna_layouts_of_the_reference_gemm():
    """gfx942, 256 x 128 x 64: reads of both operands and both kinds of writes are free of conflicts."""
    swizzles = (Swizzle(3, 3, 3), Swizzle(2, 3, 7))
    a_shared = ComposedLayout(swizzles, 0, Layout((256, 64), (64, 1)))
    b_shared = ComposedLayout(swizzles, 0, Layout((64, (4, 2, 2, 8)), (1, (64, 512, 256, 1024))))
    for step in range(4):
        reads = [2 * a_shared(lane % 32, 8 * (2 * step + lane // 32)) for lane in range(64)]
        assert bank_conflicts(reads, 16, phases=CDNA_READ_PHASES) == 0
    writes = [2 * a_shared(lane // 8, 8 * (lane % 8)) for lane in range(64)]
    assert bank_conflicts(writes, 16) == 0
    # one XOR alone sends 4 of the 8 rows that B writes at once to the same banks, in each of 4 phases
    for memory, lost in ((b_shared, 0), (ComposedLayout(swizzles[0], 0, b_shared.layout), 12)):
        for column in range(8):
            writes = []
            for thread in range(64):
                k = 4 * (thread // 8 % 2 + thread // 32 * 2)
                n = 8 * (thread % 8 + thread // 16 % 2 * 8) + column
                writes.append(2 * memory(k, n))
            assert bank_conflicts(writes, 8) == lost


def test_fragment_conflicts():
    copy = Fragment.from_function((64, 64), 128, 32, lambda t, v: (t // 8 + 16 * (v // 8), t % 8 * 8 + v % 8))
    plain = Layout((64, 64), (64, 1))
    assert fragment_conflicts(copy, plain, 2, 8) == 0
    accumulator = Fragment((64, 64), Layout(((4, 8, 4), (2, 2, 8)), ((128, 1, 16), (64, 8, 512))))
    # 8 rows of 128 bytes: all in the same 4 banks, 8 cycles instead of 1
    assert fragment_conflicts(accumulator, plain, 2, 2) == 7 * 4 * 16
    assert fragment_conflicts(accumulator, ComposedLayout(Swizzle(3, 3, 3), 0, plain), 2, 2) == 0
    by_hand = 0
    for value in range(0, 32, 2):
        for warp in range(0, 128, 32):
            rows = [accumulator(thread, value) for thread in range(warp, warp + 32)]
            by_hand += bank_conflicts([2 * plain(*row) for row in rows], 4)
    assert by_hand == 7 * 4 * 16
    with pytest.raises(LayoutError):
        fragment_conflicts(accumulator, plain, 2, 4)
    with pytest.raises(LayoutError):
        fragment_conflicts(accumulator, plain, 2, 2, warp_size=48)
    with pytest.raises(ProfileError):
        fragment_conflicts(accumulator, Layout((32, 128)), 2, 2)


def test_errors():
    with pytest.raises(MisalignedAccess):
        bank_conflicts([0, 4, 8, 12], 8)
    with pytest.raises(MisalignedAccess):
        matrix_conflicts([8 * row for row in range(8)])
    with pytest.raises(LayoutError):
        bank_conflicts([0] * 32, 12)
    with pytest.raises(LayoutError):
        consecutive_phases(32, 5)
    with pytest.raises(LayoutError):
        matrix_conflicts([0] * 12)
    for phases in ([[0, 1, 2]], [[0, 1], [1, 2, 3]], [[0, 1, 2, 4]]):
        with pytest.raises(ProfileError):
            bank_conflicts([0] * 4, 4, phases=phases)
