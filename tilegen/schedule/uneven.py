"""Blocks of uneven work: which grid axis decides how much a block does, and the order that starts the longest first.

The last blocks of a grid run alone; started in the order of falling work they are the shortest ones (longest
processing time first: Graham, Bounds on multiprocessing timing anomalies). Blocks that read the same tensors stay
close together, in sections whose data the L2 cache holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tilegen.ir.affine import substitute
from tilegen.ir.expressions import Binary, Cast, Const, Expr, Unary, Var
from tilegen.ir.interval import Range, interval
from tilegen.ir.nodes import Copy, For, Kernel, Let
from tilegen.ir.traversal import free_vars
from tilegen.schedule.analysis import each_statement
from tilegen.target import Target

SECTION = 8  # blocks of the other axes that run side by side, where what they read is not known
L2_SHARE = (
    2 / 3
)  # of the L2 cache, for what a section's blocks read in turn; the rest is for what each reads alone


@dataclass(frozen=True, slots=True)
class LongestFirst:
    """Axis 0 of the grid decides the work, which rises along it when `rising`; the other axes go in sections."""

    rising: bool
    section: int = SECTION


def uneven_axes(kernel: Kernel) -> tuple[str, ...]:
    """The block indices on which the length of a loop depends."""
    blocks = {var.name for var in kernel.block_vars}
    bounds = [name for bound in _bounds(kernel) for name in free_vars(bound)]
    return tuple(name for name in dict.fromkeys(bounds) if name in blocks)


def longest_first(kernel: Kernel, target: Target) -> LongestFirst | None:
    """The order for a kernel whose work rises or falls along its first grid axis; None for others."""
    if len(kernel.grid) < 2 or uneven_axes(kernel) != (kernel.block_vars[0].name,):
        return None
    name = kernel.block_vars[0].name
    trends = [
        trend for bound in _bounds(kernel) if name in free_vars(bound) for trend in (_trend(bound, name),)
    ]
    if not trends or any(trend != trends[0] or trend == 0 for trend in trends):
        return None
    return LongestFirst(trends[0] > 0, _section(kernel, target))


def _section(kernel: Kernel, target: Target) -> int:
    """How many blocks of the outer axes go side by side: a power of two, so that what the longest of them load in their
    loops stays in the L2 cache."""
    ranges: dict[str, Range] = {
        var.name: (0, interval(extent, {})[1])
        for var, extent in zip(kernel.block_vars, kernel.grid, strict=True)
    }
    loops = [s for s in each_statement(kernel.body) if isinstance(s, For)]
    read = 0
    for loop, bound in zip(loops, _bounds(kernel), strict=True):
        most = interval(bound, ranges)[1]
        if most is None:
            return SECTION
        read += most * sum(_tile_bytes(copy) for copy in loop.body if isinstance(copy, Copy))
    if read == 0:
        return SECTION
    fitting = int(target.device.l2_bytes * L2_SHARE) // read
    return 1 << max(0, fitting.bit_length() - 1)


def _tile_bytes(copy: Copy) -> int:
    """What a copy loads from global to shared memory."""
    if copy.source.buffer.scope != "global" or copy.target.buffer.scope != "shared":
        return 0
    return prod(copy.target.tile) * copy.target.buffer.dtype.bytes


def _bounds(kernel: Kernel) -> list[Expr]:
    """The stops of the kernel's loops, with the scalars that they are made of put in."""
    lets = {s.var.name: s.value for s in each_statement(kernel.body) if isinstance(s, Let) and not s.mutable}
    bounds = []
    for statement in each_statement(kernel.body):
        if isinstance(statement, For):
            bound = statement.stop
            while inner := [name for name in free_vars(bound) if name in lets]:
                bound = substitute(bound, {name: lets[name] for name in inner})
            bounds.append(bound)
    return bounds


def _trend(expr: Expr, name: str) -> int:
    """1 when the expression never falls as the variable rises, -1 when it never rises, 0 when that is not known.
    Everything else is taken to be non-negative, as extents and indices are."""
    match expr:
        case Var():
            return 1
        case Const():
            return 1
        case Cast(operand=operand):
            return _trend(operand, name)
        case Unary(op="-", operand=operand):
            return -_trend(operand, name) if name in free_vars(operand) else 1
        case Binary(op="+" | "min" | "max", left=left, right=right):
            return _joined(left, right, name)
        case Binary(op="-", left=left, right=right):
            if name not in free_vars(right):
                return _trend(left, name)
            falling = -_trend(right, name)
            return falling if name not in free_vars(left) or _trend(left, name) == falling else 0
        case Binary(op="*", left=left, right=right):
            return _joined(left, right, name)
        case Binary(op="//", left=left, right=Const()):
            return _trend(left, name)
        case _:
            return 0


def _joined(left: Expr, right: Expr, name: str) -> int:
    trends = [_trend(side, name) for side in (left, right) if name in free_vars(side)]
    return trends[0] if trends and all(trend == trends[0] for trend in trends) else 0 if trends else 1
