"""Nested tuples of integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layout_algebra import (
    CoordinateError,
    LayoutError,
    ProfileError,
    ceil_div,
    column_major_strides,
    compatible,
    congruent,
    crd2crd,
    crd2idx,
    depth,
    flatten,
    idx2crd,
    inner_product,
    product,
    product_each,
    rank,
    row_major_strides,
    unflatten,
    weakly_congruent,
)
from layout_algebra.int_tuple import normalize

SHAPES = st.recursive(
    st.integers(1, 4), lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=4
)


@given(SHAPES)
def test_indices_and_coordinates_are_inverse(shape):
    seen = [idx2crd(index, shape) for index in range(product(shape))]
    assert len(set(seen)) == len(seen)
    assert all(congruent(coordinate, shape) for coordinate in seen)
    assert [crd2idx(coordinate, shape) for coordinate in seen] == list(range(product(shape)))
    # first mode fastest
    assert [flatten(coordinate)[::-1] for coordinate in seen] == sorted(flatten(c)[::-1] for c in seen)


@given(SHAPES)
def test_flatten_and_unflatten(shape):
    assert unflatten(flatten(shape), shape) == shape
    assert product(flatten(shape)) == product(shape)
    assert product(product_each(shape)) == product(shape)
    assert rank(product_each(shape)) == rank(shape)
    assert congruent(column_major_strides(shape), shape)
    assert congruent(row_major_strides(shape), shape)
    with pytest.raises(ProfileError):
        unflatten((*flatten(shape), 1), shape)


def test_examples():
    assert flatten((2, (3, (4,)))) == (2, 3, 4)
    assert depth(3) == 0 and depth((3, (4, (5,)))) == 3
    assert column_major_strides((4, (2, 3))) == (1, (4, 8))
    assert row_major_strides((4, (2, 3))) == (6, (3, 1))
    assert inner_product((1, (2, 3)), (4, (5, 6))) == 32
    assert [ceil_div(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert crd2idx((1, 5), (2, (3, 4)), (100, (10, 1))) == 121
    assert crd2crd((1, 2), (4, 6), (8, 3)) == (1, 1)
    assert crd2idx(np.int64(3), 4) == 3
    assert normalize([2, [np.int32(3)]]) == (2, (3,))


def test_congruence():
    assert congruent((1, (2, 3)), (9, (9, 9))) and not congruent((1, 2), (1, (2,)))
    assert not congruent(1, (1,))
    assert weakly_congruent((1, 2), (1, (2, 3))) and not weakly_congruent((1, (2, 3)), (1, 2))
    assert compatible((4, 6), (4, (2, 3))) and not compatible((4, 6), (4, (2, 2)))
    assert compatible(24, (4, (2, 3))) and not compatible((24,), 24)


def test_errors():
    with pytest.raises(CoordinateError):
        crd2idx(6, (2, 3))
    with pytest.raises(CoordinateError):
        crd2idx((0, 3), (2, 3))
    with pytest.raises(CoordinateError):
        crd2idx(-1, 4)
    with pytest.raises(ProfileError):
        crd2idx((0, 1, 0), (2, 3))
    with pytest.raises(ProfileError):
        crd2idx((0, (1, 0)), (2, 3))
    with pytest.raises(CoordinateError):
        idx2crd(6, (2, 3))
    with pytest.raises(ProfileError):
        crd2crd(0, 4, 5)
    with pytest.raises(ProfileError):
        inner_product((1, 2), (1, (2,)))
    with pytest.raises(LayoutError):
        normalize(1.5)
    with pytest.raises(LayoutError):
        normalize("4")
