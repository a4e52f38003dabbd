"""Nested tuples of integers (CuTe's IntTuple): shapes, strides and coordinates.

Flat indices run colexicographically: the first mode is the fastest.
"""

from collections.abc import Iterator, Sequence
from math import prod
from operator import index as as_integer
from typing import TypeAlias

from layout_algebra.errors import CoordinateError, LayoutError, ProfileError

IntTuple: TypeAlias = int | tuple["IntTuple", ...]
IntTupleLike: TypeAlias = int | Sequence["IntTupleLike"]


def normalize(value: IntTupleLike) -> IntTuple:
    """Lists become tuples and integer-like scalars (NumPy's too) become `int`.

    Raises LayoutError on anything that is neither.
    """
    if type(value) is int:
        return value
    if isinstance(value, (tuple, list)):
        return tuple([normalize(item) for item in value])
    try:
        return as_integer(value)  # type: ignore[arg-type]
    except TypeError:
        raise LayoutError(f"expected an integer or a tuple of integers, got {value!r}") from None


def leaves(value: IntTuple) -> Iterator[int]:
    """Yield the integers of `value` from left to right."""
    if isinstance(value, int):
        yield value
    else:
        for item in value:
            yield from leaves(item)


def flatten(value: IntTuple) -> tuple[int, ...]:
    """`flatten((2, (3, 4)))` is `(2, 3, 4)`; an integer becomes a tuple of one."""
    return tuple(leaves(value))


def unflatten(values: Sequence[int], profile: IntTuple) -> IntTuple:
    """Nest `values` as `profile` is nested. Raises ProfileError if the counts differ."""
    remaining = iter(values)
    if len(values) != len(flatten(profile)):
        raise ProfileError(f"{len(values)} values do not fill the profile {profile}")

    def fill(part: IntTuple) -> IntTuple:
        return next(remaining) if isinstance(part, int) else tuple([fill(item) for item in part])

    return fill(profile)


def product(value: IntTuple) -> int:
    """Product of all leaves; the size of a shape."""
    return value if isinstance(value, int) else prod(leaves(value))


def product_each(shape: IntTuple) -> tuple[int, ...]:
    """Size of each top-level mode."""
    return (shape,) if isinstance(shape, int) else tuple([product(mode) for mode in shape])


def rank(value: IntTuple) -> int:
    """Number of top-level modes; 1 for an integer."""
    return 1 if isinstance(value, int) else len(value)


def depth(value: IntTuple) -> int:
    """Levels of nesting: 0 for an integer, 1 for a flat tuple."""
    return 0 if isinstance(value, int) else 1 + max((depth(item) for item in value), default=0)


def congruent(first: IntTuple, second: IntTuple) -> bool:
    """Same nesting, whatever the integers."""
    if isinstance(first, int) or isinstance(second, int):
        return isinstance(first, int) and isinstance(second, int)
    return len(first) == len(second) and all(map(congruent, first, second))


def weakly_congruent(coarse: IntTuple, fine: IntTuple) -> bool:
    """`fine` is nested as `coarse`, or deeper: an integer in `coarse` stands for any mode of `fine`."""
    if isinstance(coarse, int):
        return True
    if isinstance(fine, int):
        return False
    return len(coarse) == len(fine) and all(map(weakly_congruent, coarse, fine))


def compatible(coarse: IntTuple, fine: IntTuple) -> bool:
    """Every coordinate of the shape `coarse` is one of the shape `fine`: sizes agree wherever `fine` is
    nested deeper.
    """
    if isinstance(coarse, int):
        return coarse == product(fine)
    if isinstance(fine, int):
        return False
    return len(coarse) == len(fine) and all(map(compatible, coarse, fine))


def ceil_div(dividend: int, divisor: int) -> int:
    """Quotient rounded up, for a positive divisor."""
    return -(-dividend // divisor)


def column_major_strides(shape: IntTuple, start: int = 1) -> IntTuple:
    """Compact strides, first mode fastest: `(4, 8)` gives `(1, 4)`."""
    strides = []
    step = start
    for extent in leaves(shape):
        strides.append(step)
        step *= extent
    return unflatten(strides, shape)


def row_major_strides(shape: IntTuple, start: int = 1) -> IntTuple:
    """Compact strides, last mode fastest: `(4, 8)` gives `(8, 1)`."""
    strides = []
    step = start
    for extent in reversed(flatten(shape)):
        strides.append(step)
        step *= extent
    return unflatten(strides[::-1], shape)


def inner_product(first: IntTuple, second: IntTuple) -> int:
    """Sum of the products of the leaves. Raises ProfileError unless the two are congruent."""
    if not congruent(first, second):
        raise ProfileError(f"{first} and {second} are not nested alike")
    return sum(a * b for a, b in zip(leaves(first), leaves(second), strict=True))


def crd2idx(coordinate: IntTupleLike, shape: IntTuple, stride: IntTuple | None = None) -> int:
    """Offset of a coordinate: of a natural one, of a flat index into `shape`, or of any mixture.

    Without `stride` the offset is the flat (colexicographic) index. Raises CoordinateError where the
    coordinate lies outside `shape` and ProfileError where it is not nested as `shape`.
    """
    if stride is None:
        stride = column_major_strides(shape)
    if isinstance(coordinate, (tuple, list)):
        if isinstance(shape, int) or isinstance(stride, int) or len(coordinate) != len(shape):
            raise ProfileError(f"coordinate {coordinate} does not fit the shape {shape}")
        return sum(map(crd2idx, coordinate, shape, stride))
    if type(coordinate) is not int:
        coordinate = int(as_integer(coordinate))  # type: ignore[arg-type]
    size = product(shape)
    if not 0 <= coordinate < size:
        raise CoordinateError(f"coordinate {coordinate} is outside the shape {shape} of size {size}")
    if isinstance(shape, int) and isinstance(stride, int):
        return coordinate * stride
    offset = 0
    remaining = coordinate
    for extent, step in zip(leaves(shape), leaves(stride), strict=True):
        remaining, digit = divmod(remaining, extent)
        offset += digit * step
    return offset


def idx2crd(index: int, shape: IntTuple) -> IntTuple:
    """Natural coordinate of a flat (colexicographic) index. Raises CoordinateError outside the shape."""
    size = product(shape)
    if not 0 <= index < size:
        raise CoordinateError(f"index {index} is outside the shape {shape} of size {size}")
    if isinstance(shape, int):
        return index
    digits = []
    for extent in leaves(shape):
        index, digit = divmod(index, extent)
        digits.append(digit)
    return unflatten(digits, shape)


def crd2crd(coordinate: IntTupleLike, source: IntTuple, destination: IntTuple) -> IntTuple:
    """The coordinate of `destination` with the same flat index. Raises ProfileError if the sizes differ."""
    if product(source) != product(destination):
        raise ProfileError(f"the shapes {source} and {destination} differ in size")
    return idx2crd(crd2idx(coordinate, source), destination)
