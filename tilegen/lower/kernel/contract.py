"""What the text may assume of dynamic extents, and the launcher checks: rows are whole 16-byte units."""

from __future__ import annotations

from math import lcm

from tilegen.inference.vector_access import ACCESS_BYTES
from tilegen.ir.expressions import Var
from tilegen.ir.nodes import Program


def row_divisors(program: Program) -> dict[str, int]:
    """For each dynamic extent that is the length of a tensor's rows, what it is a multiple of."""
    divisors: dict[str, int] = {}
    for tensor in program.tensors:
        last = tensor.shape[-1]
        if (
            tensor.rank < 2
            or tensor.strides is not None
            or tensor.dtype.bits < 8
            or not isinstance(last, Var)
        ):
            continue
        elements = ACCESS_BYTES // tensor.dtype.bytes
        if elements > 1:
            divisors[last.name] = lcm(divisors.get(last.name, 1), elements)
    return divisors
