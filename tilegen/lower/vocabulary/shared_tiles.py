"""How a shared tile is declared in SharedStorage and addressed: [stages][groups][rows…][columns of a group]."""

from __future__ import annotations

from dataclasses import replace

from tilegen.inference.shared import SharedLayout
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Buffer
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.dtypes import type_name
from tilegen.model import build as c
from tilegen.model.dialect import SHORT_NAMES
from tilegen.model.expressions import CExpr, Literal
from tilegen.model.kernel import SharedMember
from tilegen.schedule.tma import bytes_of_stage, rows_of_stage


def extent_constants(context: Context, buffer: Buffer) -> tuple[CExpr, ...]:
    """The tile's extents, under the names of the parameters they were written as."""
    return tuple(context.literal(e) if isinstance(e, Const) else Literal(0) for e in buffer.shape)


def axis_ends(context: Context, buffer: Buffer, counts: tuple[int, ...]) -> list[CExpr]:
    """These counts along the tile's axes, under its extents' names where they count elements."""
    if len(counts) != buffer.rank:
        return list(map(Literal, counts))
    named = zip(counts, buffer.extents, extent_constants(context, buffer), strict=True)
    return [name if count == extent else Literal(count) for count, extent, name in named]


def group_columns(context: Context, layout: SharedLayout, columns: CExpr) -> CExpr:
    """The columns of one group; the whole row's constant where there is one group."""
    if layout.groups == 1:
        return columns
    if not layout.xors:
        comment = "elements of a row that one TMA box brings"
        return context.constant(f"kBoxColumns{layout.group}", layout.group, comment)
    span = layout.group * layout.dtype.bytes
    name = (
        "kSwizzleColumns"
        if span == 128 and layout.dtype.bytes == 2
        else f"kSwizzle{span}Columns{layout.dtype.bits}"
    )
    dtype = SHORT_NAMES.get(layout.dtype.name, layout.dtype.name)
    comment = f"{dtype} elements in one {span}-byte swizzle row"
    return context.constant(name, layout.group, comment)


def dimensions(context: Context, layout: SharedLayout, extents: tuple[CExpr, ...]) -> tuple[CExpr, ...]:
    """[groups][rows…][columns] of one stage; the group dimension only where there are several."""
    if layout.transposed:
        extents = (*extents[:-2], extents[-1], extents[-2])
    columns = group_columns(context, layout, extents[-1])
    inner = c.add(columns, layout.padding)
    outer = (c.div(extents[-1], columns),) if layout.groups > 1 else ()
    return (*outer, *extents[:-1], inner)


def member(
    context: Context,
    name: str,
    layout: SharedLayout,
    extents: tuple[CExpr, ...],
    stages: tuple[int, CExpr] = (1, Literal(1)),
) -> SharedMember:
    """The member of SharedStorage for a tile, a ring of `stages` (count, name) tiles where count > 1."""
    shape = dimensions(context, layout, extents)
    if stages[0] > 1:
        shape = (stages[1], *shape)
    return SharedMember(
        type_name(layout.dtype, context.target.language),
        name,
        shape,
        layout.bytes * stages[0],
        layout.alignment,
        comment="transposed" if layout.transposed else "",
    )


def buffer_member(context: Context, buffer: Buffer, stages: tuple[int, CExpr]) -> SharedMember:
    layout = context.decisions.layout(buffer)
    made = member(context, buffer.name, layout, extent_constants(context, buffer), stages)
    tma, span = context.target.tma, layout.hardware_swizzle
    if context.plan.hand_over_reading(buffer.name) is None or tma is None or span is None:
        return made
    made = replace(made, alignment=max(made.alignment, tma.swizzle(span).alignment))
    size = bytes_of_stage(layout, context.target)
    if stages[0] == 1 or size == layout.bytes:
        return made
    ring, _, *inner = made.dimensions
    rows = Literal(rows_of_stage(layout, context.target))
    comment = "TMA fills the front of a stage"
    return replace(made, dimensions=(ring, rows, *inner), bytes=size * stages[0], comment=comment)


def tile(context: Context, name: str) -> CExpr:
    """`shared.A_shared`, with the stage of the ring that is open here."""
    element = c.member("shared", name)
    stage = context.ring_stage.get(name)
    return element if stage is None else c.index(element, stage)


def group_size(context: Context, name: str) -> CExpr:
    """`sizeof(shared.B_shared[0][0])`: the bytes of a column group of a tile, which may be a ring's."""
    element = c.member("shared", name)
    indices = (0, 0) if name in context.ring_stage else (0,)
    return c.call("sizeof", c.index(element, *indices))


def row_of_group(context: Context, name: str, layout: SharedLayout, group: CExpr, row: CExpr) -> CExpr:
    """`shared.A_shared[stage][group][row]` of a tile with one row axis; the address of row 0 needs no index."""
    base = tile(context, name)
    if layout.groups > 1:
        if c.value_of(group) == 0 and c.value_of(row) == 0:
            return base
        base = c.index(base, group)
    return base if c.value_of(row) == 0 else c.index(base, row)
