"""How many neighbouring elements one access to memory may move: contiguity and alignment of global and shared tiles."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from tilegen.inference.fragment import Fragment
from tilegen.inference.index_math import coefficient, mentions
from tilegen.inference.loops import Access
from tilegen.inference.shared import SharedLayout
from tilegen.ir import build
from tilegen.ir.affine import divisor_of
from tilegen.ir.expressions import Expr
from tilegen.ir.nodes import Buffer

ACCESS_BYTES = 16  # the widest access of one thread, on every target; and the unit of TMA's rows


def strides(buffer: Buffer) -> tuple[Expr, ...]:
    """Elements from one position to the next along each axis of a global tensor."""
    if buffer.strides is not None:
        return buffer.strides
    steps: list[Expr] = [build.const(1)]
    for extent in reversed(buffer.shape[1:]):
        steps.append(extent if len(steps) == 1 else build.mul(extent, steps[-1]))
    return tuple(reversed(steps))


def contiguous_axis(access: Access, names: tuple[str, ...], layout: SharedLayout | None = None) -> int | None:
    """The loop axis along which neighbouring iterations touch neighbouring elements; None when there is none."""
    last = len(access.indices) - (2 if layout is not None and layout.transposed else 1)
    for axis, name in enumerate(names):
        if coefficient(access.indices[last], name) != 1:
            continue
        others = [index for position, index in enumerate(access.indices) if position != last]
        if not any(mentions(index, name) for index in others):
            return axis
    return None


def aligned_elements(
    access: Access,
    names: tuple[str, ...],
    axis: int,
    known: Mapping[str, int],
    layout: SharedLayout | None = None,
) -> int:
    """The widest power of two of elements, 16 bytes at most, that one access may move along a contiguous loop axis, if
    the loop variable is a multiple of it. `known` gives divisors of variables and extents."""
    buffer = access.buffer
    if buffer.dtype.bits < 8:
        return 1
    limit = ACCESS_BYTES // buffer.dtype.bytes
    facts = dict(known) | {names[axis]: limit}
    if buffer.scope == "global":
        steps = strides(buffer)
        if divisor_of(build.sub(steps[-1], 1), facts) != 0:
            return 1
        # A vector lies inside the tensor as a whole or not at all, so that one condition guards it.
        width = gcd(limit, divisor_of(buffer.shape[-1], facts))
        for index, step in zip(access.indices, steps, strict=True):
            width = gcd(width, divisor_of(index, facts) * divisor_of(step, facts))
        return _power_of_two(width)
    if buffer.scope == "shared":
        last = len(access.indices) - (2 if layout is not None and layout.transposed else 1)
        width = gcd(limit, divisor_of(access.indices[last], facts))
        row = layout.pitch if layout is not None else int(buffer.extents[-1])
        group = layout.group if layout is not None else row
        return _power_of_two(gcd(gcd(width, row), group))
    return limit


def _power_of_two(width: int) -> int:
    return width & -width


def access_width(
    access: Access,
    names: tuple[str, ...],
    partition: Fragment,
    known: Mapping[str, int],
    layout: SharedLayout | None = None,
) -> tuple[int, int] | None:
    """(loop axis, elements) of one access when the loop runs in this partition; None for element by element."""
    axis = contiguous_axis(access, names, layout)
    if axis is None:
        return None
    width = min(
        _power_of_two(partition.contiguous_registers(axis)),
        aligned_elements(access, names, axis, known, layout),
    )
    while width > 1 and not starts_aligned(partition, axis, width):
        width //= 2
    return (axis, width) if width > 1 else None


def starts_aligned(partition: Fragment, axis: int, width: int) -> bool:
    """Whether the first of `width` registers always has a coordinate that is a multiple of it, and the tile ends at
    one."""
    modes = [*partition.threads, *(mode for dimension in partition.registers for mode in dimension)]
    return partition.tile[axis] % width == 0 and all(
        mode.steps[axis] % width == 0 or mode.steps[axis] < width for mode in modes
    )
