"""Compares results with a reference in float64, and moves arrays between host and GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from tilegen.calls.arrays import framework_of
from tilegen.errors import TilegenError


class ComparisonError(TilegenError):
    """A result that cannot be compared: not as many arrays, or other shapes, than the reference."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How far a result is from its reference: the relative Frobenius norm, and the worst element."""

    relative: float
    worst: float
    not_finite: int  # elements that are NaN or infinite where the reference is finite

    def within(self, tolerance: float) -> bool:
        return self.not_finite == 0 and self.relative <= tolerance

    def __str__(self) -> str:
        extra = f", {self.not_finite} elements not finite" if self.not_finite else ""
        return f"‖out − ref‖ / ‖ref‖ = {self.relative:.2e}, worst element off by {self.worst:.2e}{extra}"


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A function's result as a tuple: one array, or several."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def difference(results: Any, expected: Any) -> Difference:
    """The largest differences over all outputs.

    Raises:
        ComparisonError: if the two cannot be compared.
    """
    got, wanted = as_tuple(results), as_tuple(expected)
    if len(got) != len(wanted):
        raise ComparisonError(
            f"the kernel returns {len(got)} arrays, reference(*inputs) returns {len(wanted)}"
        )
    parts = [_difference(*pair) for pair in zip(got, wanted, strict=True)]
    return Difference(
        max(part.relative for part in parts),
        max(part.worst for part in parts),
        sum(part.not_finite for part in parts),
    )


def _difference(result: Any, expected: Any) -> Difference:
    out = host_array(result).astype(numpy.float64)
    ref = host_array(expected).astype(numpy.float64)
    if out.shape != ref.shape:
        raise ComparisonError(f"the kernel returns shape {out.shape}, reference(*inputs) {ref.shape}")
    broken = ~numpy.isfinite(out) & numpy.isfinite(ref)
    same = out == ref  # equal infinities differ by nothing
    error = numpy.where(broken | same, 0.0, out - ref)
    norm = float(numpy.linalg.norm(ref[numpy.isfinite(ref)]))
    distance = float(numpy.linalg.norm(error))
    relative = distance / norm if norm else distance
    return Difference(relative, float(numpy.max(numpy.abs(error), initial=0.0)), int(broken.sum()))


def host_array(value: Any) -> numpy.ndarray[Any, Any]:
    """Any framework's array, or a number, in host memory."""
    if isinstance(value, (numpy.ndarray, numpy.generic, int, float)):
        return numpy.asarray(value)
    return framework_of(value, "result").to_numpy(value)
