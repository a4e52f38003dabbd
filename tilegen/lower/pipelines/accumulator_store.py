"""Copies of CDNA's plan: tiles by buffer loads, accumulators to global memory through LDS; others element by element.

Each wave turns its own part of the accumulator over in its own strip of LDS, one block of rows after another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.mfma_operands import WAVE
from tilegen.inference.shared import SharedLayout
from tilegen.inference.tile_transfer import straight_transfer
from tilegen.inference.vector_access import ACCESS_BYTES
from tilegen.ir.nodes import Copy, Stmt
from tilegen.ir.types import DType
from tilegen.lower.copies import lds_tile
from tilegen.lower.copies.tile_copy import lower_tile_copy, rows_name, scaled, window, window_helper
from tilegen.lower.elements.parallel import lower_parallel
from tilegen.lower.gemms.mfma import hold_row
from tilegen.lower.pipelines.lds_tiles import declare_tile
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.addresses import as_vector, vector_type
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.dtypes import type_name
from tilegen.lower.vocabulary.element_names import owner_conditions
from tilegen.lower.vocabulary.threads import coordinate
from tilegen.lower.vocabulary.words import listed
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, StaticCast
from tilegen.model.kernel import SharedMember
from tilegen.model.statements import AssignC, CStmt, Declare, Expression, ForC, IfC, Scope
from tilegen.schedule.analysis import stands_in_loop
from tilegen.schedule.staged_store import accumulator_of, wave_part
from tilegen.schedule.tile_copy import access_bytes

UNION = "tiles"  # of SharedStorage: the pipelines' tiles, or what is staged after them


def lower_copy(context: Context, copy: Stmt) -> list[CStmt]:
    """The code of a copy."""
    assert isinstance(copy, Copy)
    if copy in context.plan.staging:
        return lower_staged_store(context, copy)
    return lower_tile_copy(context, copy) or lower_parallel(context, copy)


@dataclass(frozen=True, slots=True)
class _Strip:
    """A strip of LDS that a wave turns a part of its rows over in: `mi` counts the blocks of rows, `number` the strips
    of a block."""

    context: Context
    copy: Copy
    layout: SharedLayout
    name: str
    mi: CExpr
    number: CExpr

    @property
    def dtype(self) -> DType:
        """The tensor's element type."""
        return self.copy.target.buffer.dtype

    def place(self, fragment: Fragment, register: CExpr) -> tuple[CExpr, CExpr, CExpr]:
        """Row and chunk of columns of a lane's vector, and its first element in LDS, in the row called so."""
        elements = fragment.register_shape[-1]
        units = scaled(fragment, 1, elements)
        row, chunk = (
            coordinate(units, axis, (register, Literal(0)), self.context.threads) for axis in (0, 1)
        )
        own = c.index(shared_tiles.tile(self.context, self.name), self.context.threads.name("wave"))
        layout = self.layout
        flat = SharedLayout(layout.shape[1:], layout.dtype, layout.group, layout.xors, layout.padding)
        return row, chunk, lds_tile.place(own, flat, Name("row"), chunk)


def lower_staged_store(context: Context, copy: Copy) -> list[CStmt]:
    """An accumulator to a tensor: strips of a wave's rows through LDS, then 16-byte stores of whole rows."""
    staging = context.plan.staging[copy]
    decision = accumulator_of(copy, context.decisions)
    assert decision is not None
    columns = staging.layout.shape[-1]
    share_storage(context, staging.name, staging.layout, staging.over)
    context.primitive("block_sync_lds")
    context.primitive("wave_sync_lds")
    strips, blocks = decision.c.tile[1] // decision.warps[1] // columns, decision.repeats[0]
    number: CExpr = Name("strip") if strips > 1 else Literal(0)
    mi: CExpr = Name("mi") if blocks > 1 else Literal(0)
    strip = _Strip(context, copy, staging.layout, staging.name, mi, number)
    window_name = context.name(f"{copy.target.buffer.name}_window")
    body: list[CStmt] = []
    if decision.c.register_count >= context.target.limits.accumulation_registers_per_thread:
        body.append(hold_row(context, decision, copy.source.buffer.name))
    body += [
        _write_strip(strip, wave_part(decision, columns, ACCESS_BYTES // staging.layout.dtype.bytes)),
        Expression(c.call("wave_sync_lds")),
        _store_strip(strip, decision.c, window_name),
    ]
    if strips * blocks > 1:
        body.append(Expression(c.call("wave_sync_lds"), comment="the strip has been read"))
    statements = tuple(body)
    if strips > 1:
        statements = (ForC("strip", Literal(0), Literal(strips), statements, unroll=True),)
    if blocks > 1:
        statements = (ForC("mi", Literal(0), Literal(blocks), statements, unroll=True),)
    owner = c.conjunction(owner_conditions(context, decision.c))
    if owner is not None:  # other waves hold copies
        statements = (IfC(owner, statements),)
    size = access_bytes(copy, 1, context.decisions)
    out: list[CStmt] = []
    if _repeats(context, copy) or not all(context.left.get(name) for name in staging.over):
        out.append(Expression(c.call("block_sync_lds"), comment=_why_sync(staging.name, staging.over)))
    return [
        *out,
        *window(context, copy.target, window_name, rows_name(context, copy.source.buffer), size=size),
        *statements,
    ]


def _why_sync(name: str, over: tuple[str, ...]) -> str:
    return f"{name} lies over {listed(over)}" if over else f"{name} has been read"


def _repeats(context: Context, copy: Copy) -> bool:
    """Whether the copy may run more than once in a block."""
    return context.plan.persistent or stands_in_loop(context.program.kernel.body, copy)


def share_storage(context: Context, name: str, layout: SharedLayout, over: tuple[str, ...]) -> None:
    """Adds a member to SharedStorage that takes the place of others."""
    if any(member.name == name for member in context.members):
        return
    waves, rows, columns = layout.shape
    extents = (context.constant("kWaves", waves), Literal(rows), Literal(columns))
    added = shared_tiles.member(context, name, layout, extents)
    alternatives = [member.alternative for member in context.members if member.union == UNION]
    if not over:
        context.members.append(added)
        return
    for buffer in context.program.kernel.allocations:
        if buffer.name in over:  # else it would be declared behind the one that takes its place
            declare_tile(context, buffer)
    united: list[SharedMember] = []
    others: list[SharedMember] = []
    for member in context.members:
        shared = member.union == UNION or member.name in over
        (united if shared else others).append(replace(member, union=UNION) if shared else member)
    united.append(replace(added, union=UNION, alternative=max(alternatives, default=0) + 1))
    context.members[:] = [*united, *others]


def _write_strip(strip: _Strip, part: Fragment) -> CStmt:
    """Registers to LDS, converted, 16 bytes a lane at a time; `part` is what a wave holds of a strip."""
    context, copy, dtype = strip.context, strip.copy, strip.dtype
    vectors, elements = part.register_shape[0], part.register_shape[-1]
    each, e = context.local("v", "vector"), context.local("e", "element")
    v: CExpr = Name(each) if vectors > 1 else Literal(0)
    row, _, element = strip.place(part, v)
    index = c.add(c.mul(elements, c.add(c.mul(vectors, strip.number), v)), Name(e))
    value = _register(context, copy, strip.mi, index)
    if copy.source.buffer.dtype != dtype:
        value = StaticCast(type_name(dtype, "hip"), value)
    body: tuple[CStmt, ...] = (
        Declare("int", "row", row, const=True),
        Declare(vector_type(dtype, elements, "hip"), "columns"),
        ForC(e, Literal(0), Literal(elements), (AssignC(c.index("columns", e), value),), unroll=True),
        AssignC(as_vector(element, dtype, elements, "hip"), Name("columns")),
    )
    if vectors == 1:
        return Scope(body)
    return ForC(each, Literal(0), Literal(vectors), body, unroll=True)


def _register(context: Context, copy: Copy, mi: CExpr, index: CExpr) -> CExpr:
    """Register `index` of a wave's row block, counted through all dimensions but the first."""
    fragment = context.decisions.fragment(copy.source.buffer)
    shape = fragment.register_shape
    inner = shape[-1]
    middle = fragment.register_count // inner // shape[0]
    if len(shape) == 3:
        indices = [c.div(index, inner), c.mod(index, inner)] if middle > 1 else [Literal(0), index]
    else:
        indices = [index]
    return c.index(copy.source.buffer.name, mi, *indices)


def _store_strip(strip: _Strip, accumulator: Fragment, window_name: str) -> CStmt:
    """LDS to global memory, whole rows."""
    context, dtype = strip.context, strip.dtype
    _, rows, columns = strip.layout.shape
    fragment = straight_transfer((rows, columns), WAVE, dtype.bytes).fragment
    count, elements = fragment.register_shape
    row, chunk, element = strip.place(fragment, Name("i") if count > 1 else Literal(0))
    origin = _wave_origin(context, accumulator, strip.mi)
    first_column = c.mul(columns, strip.number)
    place = (c.add(origin[0], "row"), c.add(origin[1], first_column, c.mul(elements, chunk)))
    resource = f"{window_name}_resource"
    size = access_bytes(strip.copy, 1, context.decisions)
    context.primitive("buffer_store", bytes=size)
    if size == ACCESS_BYTES:
        offset = c.call(c.member(window_name, "offset"), *place)
        call = c.call(f"buffer_store_b{8 * size}", "columns", resource, offset)
    else:
        window_helper(context, store_bytes=size)
        call = c.call(f"store_row_b{8 * size}", "columns", window_name, resource, *place)
    loaded = as_vector(element, dtype, elements, "hip", const=True)
    body: tuple[CStmt, ...] = (
        Declare("int", "row", row, const=True),
        Declare(vector_type(dtype, elements, "hip"), "columns", loaded, const=True),
        Expression(call),
    )
    return ForC("i", Literal(0), Literal(count), body, unroll=True)


def _wave_origin(context: Context, accumulator: Fragment, mi: CExpr) -> tuple[CExpr, CExpr]:
    """The tile coordinates of the first element of a wave's block of rows."""
    modes: list[Mode] = []
    threads = 1
    for mode in accumulator.threads:
        modes.append(Mode(mode.extent, (0, 0)) if threads < WAVE else mode)
        threads *= mode.extent
    registers = (accumulator.registers[0], *((Mode(1, (0, 0)),) for _ in accumulator.registers[1:]))
    origin = Fragment(accumulator.tile, tuple(modes), registers)
    position = (mi, *(Literal(0) for _ in registers[1:]))
    row, column = (coordinate(origin, axis, position, context.threads) for axis in (0, 1))
    return row, column
