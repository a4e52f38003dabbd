"""Indices and regions that provably leave their buffers.

Global accesses are guarded at the ragged edge, so that only those are errors that never lie inside. Tiles have fixed
shapes: there an index that any iteration takes outside is an error. What stands under a condition is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tilegen.diagnostics import ProgramError
from tilegen.ir.check_operations import declared
from tilegen.ir.effects import blocks_of, expressions_of, regions_read, regions_written
from tilegen.ir.expressions import Binary, Const, Expr, Load, Select, Var
from tilegen.ir.interval import Range, interval
from tilegen.ir.linear import affine
from tilegen.ir.nodes import (
    AtomicElement,
    Buffer,
    For,
    If,
    Let,
    ParallelFor,
    Persistent,
    Program,
    Region,
    Stmt,
    Store,
)
from tilegen.ir.printer import expression_text
from tilegen.ir.traversal import children, substitute
from tilegen.location import Location


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of the variables in scope: ranges, which of them take every value of their range, and the
    values of immutable definitions."""

    ranges: dict[str, Range] = field(default_factory=dict)
    attained: frozenset[str] = frozenset()
    lets: dict[str, Expr] = field(default_factory=dict)
    guarded: bool = False

    def with_var(self, var: Var, bounds: Range, attained: bool) -> _Known:
        names = self.attained | {var.name} if attained else self.attained
        return replace(self, ranges={**self.ranges, var.name: bounds}, attained=names)


def check_bounds(program: Program) -> None:
    """Checks all indices and regions.

    Raises:
        ProgramError: at the access.
    """
    known = _Known()
    for var, extent in zip(program.kernel.block_vars, program.kernel.grid, strict=True):
        known = _counting(known, var, extent)
    _block(program.kernel.body, known)


def _counting(known: _Known, var: Var, extent: Expr) -> _Known:
    """A variable that counts 0 … extent - 1."""
    highest = interval(extent, known.ranges)[1]
    return known.with_var(var, (0, None if highest is None else highest - 1), isinstance(extent, Const))


def _block(statements: Sequence[Stmt], known: _Known) -> None:
    for statement in statements:
        if not known.guarded:
            _check_statement(statement, known)
        inner = known
        match statement:
            case Let(var=var, value=value, mutable=mutable):
                if not mutable:
                    known = replace(known, lets={**known.lets, var.name: substitute(value, known.lets)})
            case For():
                inner = _loop(known, statement)
            case ParallelFor() | Persistent():
                for var, extent in zip(statement.vars, statement.extents, strict=True):
                    inner = _counting(inner, var, extent)
            case If():
                inner = replace(known, guarded=True)
            case _:
                pass
        for block in blocks_of(statement):
            _block(block, inner)


def _loop(known: _Known, loop: For) -> _Known:
    start, stop, step = (substitute(bound, known.lets) for bound in (loop.start, loop.stop, loop.step))
    lowest, highest = interval(start, known.ranges)[0], interval(stop, known.ranges)[1]
    if isinstance(start, Const) and isinstance(stop, Const) and isinstance(step, Const):
        values = range(int(start.value), int(stop.value), int(step.value))
        if not values:
            return replace(known, guarded=True)
        return known.with_var(loop.var, (values[0], values[-1]), True)
    return known.with_var(loop.var, (lowest, None if highest is None else highest - 1), False)


def _check_statement(statement: Stmt, known: _Known) -> None:
    for region in (*regions_read(statement), *regions_written(statement)):
        _check_region(region, statement.location, known)
    if isinstance(statement, Store | AtomicElement):
        _check_element(statement.buffer, statement.indices, statement.location, known)
    for expr in expressions_of(statement):
        for load in _unguarded_loads(expr):
            location = load.location if load.location.line else statement.location
            _check_element(load.buffer, load.indices, location, known)


def _unguarded_loads(expr: Expr) -> Iterator[Load]:
    """The loads that every evaluation makes."""
    if isinstance(expr, Load):
        yield expr
    parts = children(expr)
    if isinstance(expr, Select) or (isinstance(expr, Binary) and expr.op in ("and", "or")):
        parts = parts[:1]
    for part in parts:
        yield from _unguarded_loads(part)


def _check_element(buffer: Buffer, indices: Sequence[Expr], location: Location, known: _Known) -> None:
    for axis, (index, extent) in enumerate(zip(indices, buffer.shape, strict=True)):
        _check_axis(buffer, axis, (index, 1), extent, location, known)


def _check_region(region: Region, location: Location, known: _Known) -> None:
    for axis, (offset, length) in enumerate(zip(region.offsets, region.shape, strict=True)):
        _check_axis(region.buffer, axis, (offset, length), region.buffer.shape[axis], location, known)


def _check_axis(
    buffer: Buffer, axis: int, span: tuple[Expr, int], extent: Expr, location: Location, known: _Known
) -> None:
    """Checks `length` elements from `offset` on one axis."""
    if not isinstance(extent, Const):
        return
    size = int(extent.value)
    offset, length = substitute(span[0], known.lets), span[1]
    lowest, highest = interval(offset, known.ranges)
    if buffer.scope == "global":
        below = highest is not None and highest + length <= 0
        above = lowest is not None and lowest >= size
        if below or above:
            _refuse(buffer, axis, (offset, length), lowest if above else highest, size, location)
        return
    if not _attains_its_bounds(offset, known):
        return
    if lowest is not None and lowest < 0:
        _refuse(buffer, axis, (offset, length), lowest, size, location)
    if highest is not None and highest + length > size:
        _refuse(buffer, axis, (offset, length), highest + length - 1, size, location)


def _attains_its_bounds(offset: Expr, known: _Known) -> bool:
    form = affine(offset)
    return form is not None and all(name in known.attained for name in form.coefficients)


def _refuse(
    buffer: Buffer, axis: int, span: tuple[Expr, int], reached: int | None, size: int, location: Location
) -> None:
    offset, length = span
    text = expression_text(offset)
    what = f"index {text}" if length == 1 else f"the tile {text} : {text} + {length}"
    if isinstance(offset, Const) and length == 1:
        problem = f"index {text} lies outside axis {axis} of {buffer.name}, which has {size} elements"
    else:
        problem = f"{what} reaches {reached} on axis {axis} of {buffer.name}, which has {size} elements"
    raise ProgramError(
        location,
        problem,
        remedy=f"valid indices are 0 … {size - 1}; shrink the loop or the tile, or guard the access with an if",
        related=declared(buffer),
    )
