"""Indexing buffers: elements, slices, and the regions that tile operations work on."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tilegen.frontend.values import BufferSlice, Span, is_tile_value
from tilegen.ir import build
from tilegen.ir.affine import difference
from tilegen.ir.expressions import Const, Expr, Load
from tilegen.ir.nodes import Buffer, Region
from tilegen.ir.printer import expression_text
from tilegen.location import Location

if TYPE_CHECKING:
    from tilegen.frontend.context import Context


def index_buffer(context: Context, buffer: Buffer, node: ast.Subscript) -> Load | BufferSlice:
    """`buffer[…]`: an element where every axis has a scalar index, else a slice; axes that are left out are whole.

    Raises:
        ProgramError: for too many indices, floating ones, steps, and slices whose size is not known.
    """
    nodes = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    ellipses = [
        i for i, item in enumerate(nodes) if isinstance(item, ast.Constant) and item.value is Ellipsis
    ]
    if ellipses:
        whole: list[ast.expr] = [ast.copy_location(ast.Slice(), nodes[ellipses[0]])]
        nodes[ellipses[0] : ellipses[0] + 1] = whole * (buffer.rank - len(nodes) + 1)
    if len(nodes) > buffer.rank:
        context.fail(
            node,
            f"{buffer.name} has {buffer.rank} axes but is indexed with {len(nodes)}",
            f"its shape is {shape_text(buffer.shape)}",
            [(buffer.location, f"{buffer.name} is declared here")] if buffer.location.line else [],
        )
    items = [_item(context, buffer, axis, item) for axis, item in enumerate(nodes)]
    missing = range(len(items), buffer.rank)
    items += [Span(build.const(0), _constant(buffer.shape[axis])) for axis in missing]
    location = context.location(node)
    scalars = [item for item in items if not isinstance(item, Span)]
    if len(scalars) == len(items):
        return Load(buffer, tuple(scalars), location)
    return BufferSlice(buffer, tuple(items), location)


def _item(context: Context, buffer: Buffer, axis: int, node: ast.expr) -> Expr | Span:
    if isinstance(node, ast.Slice):
        return _span(context, buffer, axis, node)
    value = context.evaluate(node)
    if isinstance(value, slice):
        context.fail(node, "a Python slice object cannot index a buffer", "write the slice in the brackets")
    index = context.expression(value, node)
    if index.dtype.is_float:
        context.fail(node, f"an index is an integer, not {index.dtype}", "T.cast(…, T.int32) truncates")
    if isinstance(index, Const) and index.value < 0:
        context.fail(
            node,
            f"index {index.value} lies outside axis {axis} of {buffer.name}",
            "indices count from 0; negative ones do not wrap around",
        )
    return index


def _span(context: Context, buffer: Buffer, axis: int, node: ast.Slice) -> Span:
    if node.step is not None and context.evaluate(node.step) != 1:
        context.fail(
            node.step, "a slice of a buffer has step 1", "read strided elements in a T.Parallel loop"
        )
    start = _bound(context, node.lower) if node.lower else build.const(0)
    if node.upper is None and isinstance(start, Const) and start.value == 0:
        return Span(start, _constant(buffer.shape[axis]))
    stop = _bound(context, node.upper) if node.upper else buffer.shape[axis]
    extent = difference(stop, start)
    if extent is None:
        context.fail(
            node,
            f"the size of this slice of {buffer.name} is not a constant",
            "a tile's shape is fixed at generation time; write start : start + size",
        )
    if extent <= 0:
        context.fail(
            node, f"this slice of {buffer.name} holds {extent} elements", "write start : start + size"
        )
    return Span(start, extent)


def _bound(context: Context, node: ast.expr) -> Expr:
    value = context.evaluate(node)
    bound = context.expression(value, node)
    if bound.dtype.is_float:
        context.fail(node, f"a slice's bounds are integers, not {bound.dtype}", "cast it: T.cast(x, T.int32)")
    if isinstance(bound, Const) and bound.value < 0:
        context.fail(
            node,
            "a slice's bounds count from 0; negative ones do not wrap around",
            "count from the extent: x[n - 8 : n]",
        )
    return bound


def _constant(extent: Expr) -> int | None:
    return int(extent.value) if isinstance(extent, Const) else None


def shape_text(shape: tuple[object, ...]) -> str:
    """A shape as users write it."""
    parts = [expression_text(item) if is_tile_value(item) else str(item) for item in shape]  # type: ignore[arg-type]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


# --------------------------------------------------------------------------------------------- regions


def region_of(context: Context, value: object, node: ast.expr, word: str) -> Region | None:
    """The region that a buffer or slice names; None for a single element, which has no shape of its own.

    Raises:
        ProgramError: for other values, and for an extent that is only known at launch.
    """
    location = context.location(node)
    match value:
        case Buffer():
            zeros: list[Expr] = [build.const(0)] * value.rank
            extents = [_constant(extent) for extent in value.shape]
            return Region(value, tuple(zeros), _known(context, value, extents, node), (), location)
        case BufferSlice(buffer=buffer, items=items):
            offsets = tuple(item.start if isinstance(item, Span) else item for item in items)
            extents = [item.extent if isinstance(item, Span) else 1 for item in items]
            dropped = tuple(axis for axis, item in enumerate(items) if not isinstance(item, Span))
            return Region(buffer, offsets, _known(context, buffer, extents, node), dropped, location)
        case Load():
            return None
    context.fail(node, f"T.{word} works on buffers, slices of them and elements of them", "pass a tile here")


def _known(context: Context, buffer: Buffer, extents: list[int | None], node: ast.expr) -> tuple[int, ...]:
    known = [extent for extent in extents if extent is not None]
    if len(known) < len(extents):
        axis = extents.index(None)
        context.fail(
            node,
            f"axis {axis} of {buffer.name} is only known at launch, but a tile's shape is fixed at generation time",
            "slice it: start : start + size",
        )
    return tuple(known)


def corner_region(
    context: Context, corner: Load, tile: tuple[int, ...], location: Location, node: ast.expr
) -> Region:
    """The region of shape `tile` whose first element is `corner`; the tile's axes are the buffer's last ones.

    Raises:
        ProgramError: when the tile has more axes than the buffer, or plainly does not fit its last axes.
    """
    rank = corner.buffer.rank
    while len(tile) > rank and tile[0] == 1:
        tile = tile[1:]
    if len(tile) > rank:
        context.fail(
            node,
            f"{corner.buffer.name} has {rank} axes, but the tile of the other side has {len(tile)}: {tile}",
            "slice the tile, so that both sides have the same shape",
        )
    leading = rank - len(tile)
    shape = (1,) * leading + tile
    _check_fit(context, corner.buffer, shape, leading, node)
    return Region(corner.buffer, corner.indices, shape, tuple(range(leading)), location)


def _check_fit(
    context: Context, buffer: Buffer, shape: tuple[int, ...], leading: int, node: ast.expr
) -> None:
    """Refuses a tile that outgrows its axis while a leading axis would hold it: the user means other axes."""
    for axis in range(leading, buffer.rank):
        extent = _constant(buffer.shape[axis])
        if extent is None or shape[axis] <= extent:
            continue
        for other in range(leading):
            room = _constant(buffer.shape[other])
            if room is None or room >= shape[axis]:
                context.fail(
                    node,
                    f"the tile {shape[leading:]} lies along the last axes of {buffer.name}, but axis {axis} has only "
                    f"{extent} elements",
                    "say which axes the tile covers with slices: write start : start + size on them and an index on "
                    "the others",
                )


def squeeze(region: Region, tile: tuple[int, ...]) -> Region:
    """The region with axes of extent 1 dropped, where that gives it the shape `tile`; else unchanged."""
    if region.tile == tile or len(region.tile) <= len(tile):
        return region
    wanted = list(tile)
    dropped = list(region.dropped)
    for axis in reversed(region.kept):
        if wanted and region.shape[axis] == wanted[-1] and axis >= len(wanted) - 1:
            wanted.pop()
        elif region.shape[axis] == 1:
            dropped.append(axis)
        else:
            return region
    if wanted:
        return region
    return Region(region.buffer, region.offsets, region.shape, tuple(sorted(dropped)), region.location)
