"""Fragments: the thread-value maps of real MMA atoms, and every operation against the definition."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from layout_algebra import (
    ComposedLayout,
    CoordinateError,
    Fragment,
    IncompleteFragment,
    IndexMap,
    Layout,
    LayoutError,
    NotRepresentable,
    ProfileError,
    Swizzle,
)


def mma_m16n8k16_a(lane, value):
    """PTX ISA, "Matrix fragments for mma.m16n8k16": A is 16 x 16."""
    return lane // 4 + 8 * (value // 2 % 2), 2 * (lane % 4) + value % 2 + 8 * (value // 4)


def mma_m16n8k16_b(lane, value):
    """Likewise: B is 16 x 8 (k, n)."""
    return 2 * (lane % 4) + value % 2 + 8 * (value // 2), lane // 4


def mma_m16n8k16_c(lane, value):
    """Likewise: C is 16 x 8."""
    return lane // 4 + 8 * (value // 2), 2 * (lane % 4) + value % 2


def wgmma_d(thread, value):
    """PTX ISA, "Register fragments for wgmma.mma_async": D is 64 x N."""
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (value // 2 % 2)
    return row, 2 * (thread % 4) + value % 2 + 8 * (value // 4)


def mfma_32x32_d(lane, value):
    """CDNA3 ISA, "Matrix arithmetic instructions": D is 32 x 32."""
    return 8 * (value // 4) + 4 * (lane // 32) + value % 4, lane % 32


def mfma_32x32x8_a(lane, value):
    """Likewise: A is 32 x 8, 4 values of k a lane."""
    return lane % 32, 4 * (lane // 32) + value


ATOMS = [
    ((16, 16), 32, 8, mma_m16n8k16_a, Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128)))),
    ((16, 8), 32, 4, mma_m16n8k16_b, Layout(((4, 8), (2, 2)), ((2, 16), (1, 8)))),
    ((16, 8), 32, 4, mma_m16n8k16_c, Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))),
    ((64, 8), 128, 4, wgmma_d, Layout(((4, 8, 4), (2, 2)), ((128, 1, 16), (64, 8)))),
    ((64, 256), 128, 128, wgmma_d, Layout(((4, 8, 4), (2, 2, 32)), ((128, 1, 16), (64, 8, 512)))),
    ((32, 32), 64, 16, mfma_32x32_d, Layout(((32, 2), (4, 4)), ((32, 4), (1, 8)))),
    ((32, 8), 64, 4, mfma_32x32x8_a, Layout(((32, 2), 4), ((1, 128), 32))),
]


@pytest.mark.parametrize(("shape", "threads", "values", "function", "layout"), ATOMS)
def test_atoms(shape, threads, values, function, layout):
    from_layout = Fragment(shape, layout)
    from_function = Fragment.from_function(shape, threads, values, function)
    assert from_layout == from_function and hash(from_layout) == hash(from_function)
    assert (from_layout.threads, from_layout.values) == (threads, values)
    assert from_layout.size == threads * values and from_layout.replication == 1
    for thread in range(threads):
        for value in range(values):
            coordinate = function(thread, value)
            assert from_layout(thread, value) == coordinate
            assert from_layout.owners(*coordinate) == ((thread, value),)
    owner = {function(thread, value): (thread, value) for thread in range(threads) for value in range(values)}
    from_owners = Fragment.from_owners(shape, threads, lambda *c: owner[c][0], lambda *c: owner[c][1])
    assert from_owners == from_layout


@st.composite
def fragments(draw):
    """Maps with strides, with replication, and shuffled ones that no strides say."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3).map(tuple))
    size = int(np.prod(shape))
    threads = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
    table = list(range(size))
    if draw(st.booleans()):
        table = draw(st.permutations(table))
    fragment = Fragment.from_table(shape, threads, size // threads, table)
    copies = draw(st.sampled_from([1, 1, 2, 3]))
    return fragment.replicate(copies) if copies > 1 else fragment


def cells(fragment):
    """(thread, value) → coordinate, from the public call only."""
    return {
        (thread, value): fragment(thread, value)
        for thread in range(fragment.threads)
        for value in range(fragment.values)
    }


@given(fragments())
def test_inverse_lists_every_owner(fragment):
    held = cells(fragment)
    coordinates = set(np.ndindex(*fragment.shape))
    assert set(held.values()) == coordinates
    for coordinate in coordinates:
        owners = [owner for owner, where in held.items() if where == coordinate]
        assert list(fragment.owners(*coordinate)) == sorted(owners)
        assert len(owners) == fragment.replication
    assert fragment == Fragment.from_function(
        fragment.shape, fragment.threads, fragment.values, lambda thread, value: held[thread, value]
    )


@settings(max_examples=150)
@given(fragments(), st.data())
def test_repeat(fragment, data):
    dimensions = len(fragment.shape)
    repeats = data.draw(st.lists(st.integers(1, 3), min_size=dimensions, max_size=dimensions))
    order = data.draw(st.permutations(range(dimensions)))
    copies = int(np.prod(repeats))
    more_values = fragment.repeat(repeats, order)
    more_threads = fragment.repeat_on_thread(repeats, order)
    assert more_values.threads == fragment.threads and more_threads.values == fragment.values
    for number in range(copies):
        block = [0] * dimensions
        rest = number
        for dimension in order:
            rest, block[dimension] = divmod(rest, repeats[dimension])
        for (thread, value), coordinate in cells(fragment).items():
            moved = tuple(
                at + which * extent
                for at, which, extent in zip(coordinate, block, fragment.shape, strict=True)
            )
            assert more_values(thread, value + fragment.values * number) == moved
            assert more_threads(thread + fragment.threads * number, value) == moved
    assert more_values.size == more_threads.size == fragment.size * copies
    assert fragment.repeat(repeats) == fragment.repeat(repeats, range(dimensions))


@given(fragments(), st.integers(1, 3))
def test_replicate(fragment, copies):
    replicated = fragment.replicate(copies)
    assert replicated.threads == fragment.threads * copies
    assert replicated.replication == fragment.replication * copies
    for (thread, value), coordinate in cells(replicated).items():
        assert coordinate == fragment(thread % fragment.threads, value)


@given(fragments(), st.data())
def test_permute(fragment, data):
    order = data.draw(st.permutations(range(len(fragment.shape))))
    permuted = fragment.permute(order)
    for (thread, value), coordinate in cells(fragment).items():
        assert permuted(thread, value) == tuple(coordinate[dimension] for dimension in order)


@settings(max_examples=200)
@given(fragments(), st.data())
def test_reduce(fragment, data):
    assume(len(fragment.shape) > 1)
    dimension = data.draw(st.integers(0, len(fragment.shape) - 1))
    held = cells(fragment)
    expected = []
    for thread in range(fragment.threads):
        left = [held[thread, value] for value in range(fragment.values)]
        expected.append(list(dict.fromkeys(c[:dimension] + c[dimension + 1 :] for c in left)))
    if len({len(each) for each in expected}) > 1:
        with pytest.raises(IncompleteFragment):
            fragment.reduce(dimension)
        return
    reduced = fragment.reduce(dimension)
    assert [
        [reduced(thread, value) for value in range(reduced.values)] for thread in range(reduced.threads)
    ] == expected


def test_reduce_of_a_wgmma_accumulator():
    row = Fragment((64, 128), Layout(((4, 8, 4), (2, 2, 16)), ((128, 1, 16), (64, 8, 512)))).reduce(1)
    assert row == Fragment((64,), Layout(((4, 8, 4), 2), ((0, 1, 16), 8)))
    assert row.replication == 4
    assert row.owners(9) == ((4, 1), (5, 1), (6, 1), (7, 1))


def test_offsets_in_memory():
    fragment = Fragment((16, 8), Layout(((4, 8), (2, 2)), ((32, 1), (16, 8))))
    padded = Layout((16, 8), (12, 1))
    swizzled = ComposedLayout(Swizzle(2, 1, 3), 0, Layout((16, 8), (8, 1)))
    symbolic = IndexMap.from_function((16, 8), lambda i, j: 12 * i + j)
    for memory in (padded, swizzled, symbolic):
        offsets = fragment.offsets_in(memory)
        for (thread, value), coordinate in cells(fragment).items():
            assert offsets[thread + 32 * value] == memory(*coordinate)
    with pytest.raises(ProfileError):
        fragment.offsets_in(Layout((8, 16)))


def test_table_fragments():
    table = [0, 3, 1, 2]
    fragment = Fragment.from_table((4,), 2, 2, table)
    assert fragment.layout is None and fragment.indices() == tuple(table)
    assert str(fragment) == "table of 2 threads x 2 values -> (4,)"
    with pytest.raises(NotRepresentable):
        fragment.thread_value_layout()
    strided = Fragment((2, 2), Layout((2, 2)))
    assert strided.thread_value_layout() == Layout((2, 2))
    assert str(strided) == "(2, 2):(1, 2) -> (2, 2)" and repr(strided) == f"Fragment({strided})"
    assert fragment != strided


def test_replicating_owners():
    fragment = Fragment.from_owners((4, 2), 8, lambda i, j, copy: i + 4 * copy, lambda i, j: j, replicate=2)
    assert fragment == Fragment((4, 2), Layout(((4, 2), 2), ((1, 0), 4)))
    assert fragment.owners(1, 1) == ((1, 1), (5, 1))


def test_errors():
    with pytest.raises(ProfileError):
        Fragment((16, 8), Layout(128))
    with pytest.raises(ProfileError):
        Fragment((4, 4), Layout((2, 2, 4)))
    for shape in (((4, 4),), (4, 0), 16):
        with pytest.raises(ProfileError):
            Fragment(shape, Layout((4, 4)))
    for layout in (Layout((4, 2)), Layout((4, 8)), Layout((4, 4), (1, 1)), Layout((4, 4), (1, -4))):
        with pytest.raises(IncompleteFragment):
            Fragment((4, 4), layout)
    with pytest.raises(IncompleteFragment):
        Fragment.from_table((4,), 2, 2, [0, 3, 1, 1])
    with pytest.raises(IncompleteFragment):
        Fragment.from_table((4,), 2, 2, [4, 3, 1, 2])
    with pytest.raises(ProfileError):
        Fragment.from_table((4,), 2, 2, [0, 1, 2])
    with pytest.raises(CoordinateError):
        Fragment.from_function((4, 4), 4, 4, lambda thread, value: (thread, value + 1))
    with pytest.raises(CoordinateError):
        Fragment.from_owners((4,), 2, lambda i: i, lambda i: 0)
    with pytest.raises(IncompleteFragment, match="holds both"):
        Fragment.from_owners((4,), 2, lambda i: i % 2, lambda i: 0)
    with pytest.raises(IncompleteFragment, match="hold nothing"):
        Fragment.from_owners((3,), 2, lambda i: i % 2, lambda i: i // 2)
    with pytest.raises(IncompleteFragment):
        Fragment.from_owners((2,), 1, lambda i: 0, lambda i: i - 1)
    fragment = Fragment((4, 4), Layout((4, 4)))
    for arguments in ((4, 0), (0, 4), (-1, 0)):
        with pytest.raises(CoordinateError):
            fragment(*arguments)
    with pytest.raises(CoordinateError):
        fragment.owners(4, 0)
    with pytest.raises(CoordinateError):
        fragment.reduce(2)
    with pytest.raises(ProfileError):
        fragment.repeat((2,))
    with pytest.raises(ProfileError):
        fragment.repeat((2, 2), (0, 0))
    with pytest.raises(ProfileError):
        fragment.permute((0, 0))
    uneven = Fragment.from_table((3,), 2, 2, [0, 1, 2, 2])
    with pytest.raises(LayoutError):
        uneven.replication  # noqa: B018
