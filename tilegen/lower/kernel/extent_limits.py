"""How long an open axis may be that the kernel walks in tiles: the last one may reach past the axis' end, prefetches go
some tiles further, and `int` must hold all of these coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilegen.diagnostics import ProgramError
from tilegen.ir.affine import free_vars, interval, linear, substitute
from tilegen.ir.expressions import Binary, Const, Expr, Load
from tilegen.ir.named_values import named_values
from tilegen.ir.nodes import AtomicElement, Buffer, For, Kernel, Region, Store
from tilegen.ir.traversal import children
from tilegen.ir.types import int32
from tilegen.ir.walk import each_node, each_statement
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.scalar import extent_expression
from tilegen.model import build as c
from tilegen.model.expression_text import expression_text
from tilegen.model.expressions import CExpr, Literal, Operation
from tilegen.model.kernel import Requirement

_INT = 2**31  # values from 0 on
_LEAST_MARGIN = 2**16  # enough for most kernels, which so have one limit in common
_TILES_BEYOND = 3  # the last tile, one that is loaded ahead, and the last of a cluster


def extent_limits(context: Context, others: Sequence[Requirement]) -> tuple[Requirement, ...]:
    """The requirement that an int holds the coordinates of all tiles, for axes that none of the others keeps short.

    Raises:
        ProgramError: where the kernel is made for an axis that is longer.
    """
    limit = _INT - _margin(context)
    bounded = [_bounded(requirement.condition, limit) for requirement in others]
    extents = [extent_expression(context, extent, named=False) for extent in _tiled_axes(context, limit)]
    open_ones = [extent for extent in dict.fromkeys(extents) if extent not in bounded]
    condition = c.conjunction(c.operation("<=", extent, Literal(limit, "hex")) for extent in open_ones)
    if condition is None:
        return ()
    text = f"{_listing([expression_text(extent) for extent in open_ones])} <= {limit:,}"
    return (Requirement(condition, text, "the last tile may leave int"),)


def _bounded(condition: CExpr, limit: int) -> CExpr | None:
    """What a condition keeps below the limit."""
    match condition:
        case Operation("<=", left, Literal(int() as most)) if most <= limit:
            return left
    return None


def _listing(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _tiled_axes(context: Context, limit: int) -> list[Expr]:
    """The lengths of open axes along which the kernel touches tiles, and what its grid and loops walk in tiles, where
    an int may hold more than the limit.

    Raises:
        ProgramError: for such an axis of a fixed length beyond the limit.
    """
    positions = {var.name: position for position, var in enumerate(context.program.extents)}
    found: dict[Expr, None] = {}
    for buffer, axis, reach in _touched(context.program.kernel):
        extent = buffer.shape[axis]
        most = interval(extent, dict.fromkeys(positions, (0, _INT - 1)))[1]
        if reach == 1 or extent.dtype != int32 or (most is not None and most <= limit):
            continue
        if isinstance(extent, Const):
            raise ProgramError(
                buffer.location,
                f"tiles along an axis of {int(extent.value):,} have coordinates that no int holds ({limit:,} are safe)",
                remedy="give the tensor more axes; their product may be larger",
            )
        found[extent] = None
    for length in _walked(context.program.kernel, frozenset(positions)):
        most = interval(length, dict.fromkeys(positions, (0, _INT - 1)))[1]
        if most is None or most > limit:
            found[length] = None
    return sorted(
        found, key=lambda extent: min(positions.get(name, len(positions)) for name in free_vars(extent))
    )


def _touched(kernel: Kernel) -> Iterator[tuple[Buffer, int, int]]:
    """The axes of tensors that statements touch, each with the length of a tile along it: 1 for an index that is
    nothing but a variable."""
    lets = named_values(each_statement(kernel.body))
    for node in each_node(kernel.body):
        match node:
            case Region(buffer, offsets, shape) if buffer.scope == "global":
                for axis, (offset, length) in enumerate(zip(offsets, shape, strict=True)):
                    yield buffer, axis, max(length, _step(offset, lets))
            case Load(buffer, indices) | Store(buffer, indices) | AtomicElement(_, buffer, indices) if (
                buffer.scope == "global"
            ):
                for axis, index in enumerate(indices):
                    yield buffer, axis, _step(index, lets)


def _walked(kernel: Kernel, extents: frozenset[str]) -> Iterator[Expr]:
    """Products of extents, such as M * N, that the number of blocks or of a loop's turns is computed from: the kernel
    counts up to them. Single extents are axes, which are looked at by themselves."""
    statements = tuple(each_statement(kernel.body))
    lets = named_values(statements)
    stops = (statement.stop for statement in statements if isinstance(statement, For))
    for length in (*kernel.grid, *stops):
        yield from _products(substitute(length, lets), extents)


def _products(expr: Expr, extents: frozenset[str]) -> Iterator[Expr]:
    """The largest products in an expression that are made of extents alone."""
    names = free_vars(expr)
    if (
        isinstance(expr, Binary)
        and expr.op == "*"
        and expr.dtype == int32
        and names
        and extents.issuperset(names)
    ):
        yield expr
        return
    for part in children(expr):
        yield from _products(part, extents)


def _step(index: Expr, lets: Mapping[str, Expr]) -> int:
    """How far an index moves at most with one of its variables."""
    form = linear(substitute(index, lets))
    steps = [abs(coefficient) for coefficient in form.terms.values()]
    return max([len(steps), abs(form.constant) + 1, *steps])


def _margin(context: Context) -> int:
    """The coordinates past the end of an axis that are kept free: a power of two."""
    kernel = context.program.kernel
    tile = max((reach for _, _, reach in _touched(kernel)), default=1)
    parts = max(
        (_part(node) for node in each_node((kernel.grid, kernel.body)) if isinstance(node, Binary)), default=1
    )
    stages = max(context.ring_depths.values(), default=1)
    beyond = max(tile, parts) * (stages + _TILES_BEYOND)
    return max(_LEAST_MARGIN, 1 << (beyond - 1).bit_length())


def _part(expr: Expr) -> int:
    """What a quotient divides by, quotients within it included: ceildiv(ceildiv(K, 64), 4) makes parts of 256."""
    inner = max(map(_part, children(expr)), default=1)
    match expr:
        case Binary("//", _, Const(int() as divisor)) if divisor > 0:
            return inner * divisor
    return inner
