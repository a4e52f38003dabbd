"""fit: from tables back to Shape:Stride."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_strategies import is_layout_function, layouts, table_by_definition

from layout_algebra import (
    Layout,
    NotRepresentable,
    ProfileError,
    coalesce,
    fit,
    offset_and_fit,
    same_function,
    try_fit,
)


@settings(max_examples=200)
@given(layouts(size=256))
def test_tables_of_layouts_fit(layout):
    table = table_by_definition(layout)
    assert fit(table) == coalesce(layout)
    fitted = fit(table, layout.shape)
    assert same_function(fitted, layout)
    by_mode = np.array(table).reshape([mode.size for mode in layout], order="F")
    assert same_function(fit(by_mode), layout)
    assert offset_and_fit([value + 7 for value in table], layout.shape) == (7, fitted)


@settings(max_examples=500)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_any_table(values):
    table = [value - values[0] for value in values]
    result = try_fit(table)
    assert (result is not None) == is_layout_function(table, len(table))
    if result is not None:
        assert table_by_definition(result) == table


@settings(max_examples=200)
@given(layouts(size=64), st.data())
def test_one_wrong_entry_is_found(layout, data):
    table = table_by_definition(layout)
    position = data.draw(st.integers(0, len(table) - 1))
    table[position] += data.draw(st.sampled_from([-1, 1, 64]))
    result = try_fit(table, layout.shape)
    if result is not None:
        assert table_by_definition(result) == table


def test_examples():
    assert fit([0, 2, 4, 1, 3, 5]) == Layout((3, 2), (2, 1))
    assert fit([0, 1, 8, 9], (4,)) == Layout(((2, 2),), ((1, 8),))
    assert fit(np.arange(12).reshape(3, 4)) == Layout((3, 4), (4, 1))
    assert fit([0]) == Layout(1, 0)
    for table in ([1, 2], [0, 1, 3], [0, 1, 2, 4]):
        with pytest.raises(NotRepresentable):
            fit(table)
    with pytest.raises(ProfileError):
        fit([0, 1, 2], (2, 2))
    with pytest.raises(ProfileError):
        fit([])
    with pytest.raises(ProfileError):
        offset_and_fit([])
    # each axis fits, their sum does not
    assert try_fit([0, 1, 2, 4], (2, 2)) is None
