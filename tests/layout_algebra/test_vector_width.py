"""Vectorisation width against the definition."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layout_algebra import (
    ComposedLayout,
    Fragment,
    IndexMap,
    Layout,
    LayoutError,
    ProfileError,
    Swizzle,
    contiguous_run,
    vector_width,
)


def width_by_definition(rows, maximum):
    """Widest power of two such that every row is cut into aligned runs."""
    best = 1
    width = 2
    while width <= maximum:
        if all(len(row) % width == 0 for row in rows) and all(
            row[start] % width == 0 and row[start + step] == row[start] + step
            for row in rows
            for start in range(0, len(row), width)
            for step in range(width)
        ):
            best = width
        width *= 2
    return best


@settings(max_examples=200)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=4), st.sampled_from([1, 2, 4, 8]))
def test_contiguous_run(starts, run):
    offsets = [start * run // 2 + step for start in starts for step in range(run)]
    assert contiguous_run(offsets) == width_by_definition([offsets], len(offsets))
    assert contiguous_run(offsets, 2) == width_by_definition([offsets], 2)


@settings(max_examples=200)
@given(st.data())
def test_vector_width(data):
    rows, columns = data.draw(st.sampled_from([8, 16])), data.draw(st.sampled_from([8, 16, 24]))
    threads = data.draw(st.sampled_from([4, 8]))
    run = data.draw(st.sampled_from([1, 2, 4, 8]))
    order = data.draw(st.sampled_from([(columns, 1), (1, rows)]))

    def coordinate(thread, value):
        index = value % run + run * (thread + threads * (value // run))
        major, minor = divmod(index, min(order) and (columns if order[1] == 1 else rows))
        return (major, minor) if order[1] == 1 else (minor, major)

    fragment = Fragment.from_function((rows, columns), threads, rows * columns // threads, coordinate)
    strides = data.draw(
        st.sampled_from(
            [(columns, 1), (1, rows), (columns + 4, 1), (columns + 2, 1), (columns + 1, 1), (2, 2 * rows)]
        )
    )
    memory = Layout((rows, columns), strides)
    if data.draw(st.booleans()):
        base = data.draw(st.integers(0, 3))
        memory = ComposedLayout(Swizzle(2, base, 3), data.draw(st.sampled_from([0, 2, 8])), memory)
    maximum = data.draw(st.sampled_from([1, 2, 4, 8, 16]))
    per_thread = [
        [memory(*fragment(thread, value)) for value in range(fragment.values)] for thread in range(threads)
    ]
    assert vector_width(fragment, memory, maximum) == width_by_definition(per_thread, maximum)


def test_examples():
    copy = Fragment.from_function((64, 64), 128, 32, lambda t, v: (t // 8 + 16 * (v // 8), t % 8 * 8 + v % 8))
    row_major = Layout((64, 64), (64, 1))
    assert vector_width(copy, row_major, 8) == 8
    assert vector_width(copy, row_major, 4) == 4
    assert vector_width(copy, ComposedLayout(Swizzle(3, 3, 3), 0, row_major), 8) == 8
    assert vector_width(copy, ComposedLayout(Swizzle(3, 2, 4), 0, row_major), 8) == 4
    assert vector_width(copy, Layout((64, 64), (68, 1)), 8) == 4
    assert vector_width(copy, Layout((64, 64)), 8) == 1
    assert vector_width(copy, IndexMap.from_function((64, 64), lambda i, j: 72 * i + j), 8) == 8
    shuffled = Fragment.from_table((8,), 1, 8, [4, 5, 6, 7, 2, 3, 0, 1])
    assert vector_width(shuffled, Layout((8,), (1,)), 8) == 2


def test_errors():
    with pytest.raises(LayoutError):
        contiguous_run([])
    with pytest.raises(ProfileError):
        vector_width(Fragment((4, 4), Layout((4, 4))), Layout((2, 8)), 4)
