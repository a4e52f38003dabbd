"""Assignments to buffers: elements, and whole slices."""

from __future__ import annotations

import ast

from tilegen.frontend.context import Context
from tilegen.frontend.indexing import region_of, shape_text, squeeze
from tilegen.frontend.values import BufferSlice
from tilegen.ir import build
from tilegen.ir.expressions import Load
from tilegen.ir.nodes import Buffer, Copy, Fill, Store
from tilegen.location import Location


def require_kernel(context: Context, location: Location, node: ast.expr | ast.stmt, what: str) -> None:
    """Refuses what has no meaning before the kernel opens or after it closed."""
    if not context.inside_kernel:
        context.fail(node, f"{what} stands outside the kernel", "move it into the with T.Kernel(…) block")


def store(
    context: Context, place: Load | BufferSlice, value: object, node: ast.stmt, target: ast.Subscript
) -> None:
    """`place = value`: an element store, a fill with a scalar, or a copy of a tile.

    Raises:
        ProgramError: outside the kernel, and for shapes that differ.
    """
    location = context.location(node)
    require_kernel(context, location, node, f"an assignment to {place.buffer.name}")
    written = getattr(node, "value", None)
    at = written if isinstance(written, ast.expr) else target
    if isinstance(place, Load):
        scalar = context.expression(value, at)
        converted = build.cast(scalar, place.buffer.dtype, scalar.location)
        context.emit(Store(place.buffer, place.indices, converted, location))
        return
    region = region_of(context, place, target, "copy")
    assert region is not None
    if isinstance(value, Buffer | BufferSlice):
        source = region_of(context, value, target, "copy")
        assert source is not None
        source, region = squeeze(source, region.tile), squeeze(region, source.tile)
        if source.tile != region.tile:
            context.fail(
                target,
                f"a tile of shape {shape_text(source.tile)} is assigned to a slice of shape {shape_text(region.tile)}",
                "both sides of the assignment have the same shape",
            )
        context.emit(Copy(source, region, location))
        return
    scalar = context.expression(value, at)
    context.emit(Fill(region, build.cast(scalar, place.buffer.dtype), location))
