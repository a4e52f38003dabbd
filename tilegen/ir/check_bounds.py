"""Indices and regions that provably leave their buffers.

Global accesses are guarded at the ragged edge, so that only those are errors that never lie inside. Tiles have fixed
shapes: there an index that any iteration takes outside is an error. What stands under a condition is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.diagnostics import ProgramError
from tilegen.ir.check_operations import declared
from tilegen.ir.effects import expressions_of, regions_read, regions_written
from tilegen.ir.expressions import Const, Expr, Load
from tilegen.ir.interval import interval
from tilegen.ir.known_ranges import Known, each_evaluated, each_with_known
from tilegen.ir.nodes import AtomicElement, Buffer, Program, Region, Stmt, Store
from tilegen.ir.printer import expression_text
from tilegen.ir.traversal import substitute
from tilegen.location import Location


def check_bounds(program: Program) -> None:
    """Checks all indices and regions.

    Raises:
        ProgramError: at the access.
    """
    for statement, known in each_with_known(program):
        if not known.guarded:
            _check_statement(statement, known)


def _check_statement(statement: Stmt, known: Known) -> None:
    for region in (*regions_read(statement), *regions_written(statement)):
        _check_region(region, statement.location, known)
    if isinstance(statement, Store | AtomicElement):
        _check_element(statement.buffer, statement.indices, statement.location, known)
    for expr in expressions_of(statement):
        for load in each_evaluated(expr):
            if not isinstance(load, Load):
                continue
            location = load.location if load.location.line else statement.location
            _check_element(load.buffer, load.indices, location, known)


def _check_element(buffer: Buffer, indices: Sequence[Expr], location: Location, known: Known) -> None:
    for axis, (index, extent) in enumerate(zip(indices, buffer.shape, strict=True)):
        _check_axis(buffer, axis, (index, 1), extent, location, known)


def _check_region(region: Region, location: Location, known: Known) -> None:
    for axis, (offset, length) in enumerate(zip(region.offsets, region.shape, strict=True)):
        _check_axis(region.buffer, axis, (offset, length), region.buffer.shape[axis], location, known)


def _check_axis(
    buffer: Buffer, axis: int, span: tuple[Expr, int], extent: Expr, location: Location, known: Known
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
    if not known.attains_bounds_of(offset):
        return
    if lowest is not None and lowest < 0:
        _refuse(buffer, axis, (offset, length), lowest, size, location)
    if highest is not None and highest + length > size:
        _refuse(buffer, axis, (offset, length), highest + length - 1, size, location)


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
