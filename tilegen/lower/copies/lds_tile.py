"""Places in a swizzled LDS tile, 16-byte chunks at a time."""

from __future__ import annotations

from tilegen.inference.shared import SharedLayout, Xor
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Operation


def place(tile: CExpr, layout: SharedLayout, row: CExpr, chunk: CExpr, rest: CExpr | None = None) -> CExpr:
    """The element `rest` of a chunk of a stored row: `shared.A_shared[stage][row][8 * (chunk ^ row % 8)]`.

    `row` counts through the axes before the last, as the layout does; pass a name, it is repeated.
    """
    if layout.groups > 1:
        per_group = layout.group // layout.chunk
        tile = c.index(tile, c.div(chunk, per_group))
        chunk = c.mod(chunk, per_group)
    column = c.mul(layout.chunk, _exclusive_or(chunk, row, layout.chunk_xors))
    stored = _exclusive_or(row, row, layout.row_xors)
    return c.index(tile, stored, column if rest is None else c.add(column, rest))


def swizzled_chunk(layout: SharedLayout, row: CExpr, chunk: CExpr) -> CExpr:
    """The chunk of a row that is stored where `chunk` would be without a swizzle: XORs undo themselves."""
    return _exclusive_or(chunk, row, layout.chunk_xors)


def _exclusive_or(value: CExpr, row: CExpr, xors: tuple[Xor, ...]) -> CExpr:
    for xor in xors:
        bits = c.mod(c.div(row, xor.divisor), xor.extent)
        value = bits if value == Literal(0) else Operation("^", value, bits)
    return value
