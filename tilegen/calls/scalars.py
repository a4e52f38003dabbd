"""The numbers of a call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from tilegen.calls.arrays import numpy_dtype
from tilegen.errors import ArgumentError

Scalar = int | float | bool


def as_number(name: str, value: object) -> Scalar:
    """A call's value for a scalar parameter as a Python number.

    Raises:
        ArgumentError: if it is none.
    """
    if isinstance(value, numpy.generic):
        value = value.item()
    if not isinstance(value, int | float):
        raise ArgumentError(name, "a number", repr(value), "pass a Python number, such as array.item()")
    return value


def check_scalar(name: str, dtype: str, value: Scalar) -> None:
    """Raises ArgumentError for a number that an argument's element type cannot hold."""
    kind = numpy_dtype(dtype)
    if kind.kind in "iu":
        if not isinstance(value, int):
            raise ArgumentError(name, f"an integer ({dtype})", repr(value), "round it yourself")
        limits = numpy.iinfo(kind)
        if not limits.min <= value <= limits.max:
            raise ArgumentError(
                name, f"an integer that {dtype} holds", f"{value:,}", "declare the argument with a wider type"
            )
    elif isinstance(value, int):
        try:
            float(value)
        except OverflowError:
            raise ArgumentError(
                name, f"a number ({dtype})", "an integer beyond all floats", "pass a float"
            ) from None


def whole_numbers(scalars: Sequence[Scalar]) -> tuple[int | None, ...]:
    """What of a call's scalars may decide its launch: integers, each at its place."""
    return tuple(scalar if isinstance(scalar, int) else None for scalar in scalars)
