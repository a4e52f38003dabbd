"""Copies of CDNA's plan: tiles by buffer loads, accumulators to global memory through LDS; others element by element.

Each wave turns its own part of the accumulator over in its own strip of LDS, one block of rows after another.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.mfma_operands import WAVE
from tilegen.inference.shared import SharedLayout
from tilegen.inference.tile_transfer import PIECE_BYTES, straight_transfer
from tilegen.ir.nodes import Copy, Stmt
from tilegen.lower import lds_tile, shared_tiles
from tilegen.lower.addresses import as_vector, vector_type
from tilegen.lower.context import Context
from tilegen.lower.dtypes import type_name
from tilegen.lower.element_names import owner_conditions
from tilegen.lower.gemm_mfma import hold_row
from tilegen.lower.parallel import lower_parallel
from tilegen.lower.threads import coordinate
from tilegen.lower.tile_copy import lower_tile_copy, rows_name, scaled, window, window_helper
from tilegen.lower.words import listed
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, StaticCast
from tilegen.model.kernel import SharedMember
from tilegen.model.statements import AssignC, CStmt, Declare, Expression, ForC, IfC, Scope
from tilegen.schedule.staged_store import accumulator_of, wave_part
from tilegen.schedule.tile_copy import access_bytes

UNION = "tiles"  # of SharedStorage: the pipelines' tiles, or what is staged after them


def lower_copy(context: Context, copy: Stmt) -> list[CStmt]:
    """The code of a copy."""
    assert isinstance(copy, Copy)
    if copy in context.plan.staging:
        return lower_staged_store(context, copy)
    return lower_tile_copy(context, copy) or lower_parallel(context, copy)


def lower_staged_store(context: Context, copy: Copy) -> list[CStmt]:
    """An accumulator to a tensor: strips of a wave's rows through LDS, then 16-byte stores of whole rows."""
    staging = context.plan.staging[copy]
    decision = accumulator_of(copy, context.decisions)
    assert decision is not None
    layout = staging.layout
    columns = layout.shape[-1]
    share_storage(context, staging.name, layout, staging.over)
    context.primitive("block_sync_lds")
    context.primitive("wave_sync_lds")
    elements = PIECE_BYTES // layout.dtype.bytes
    part = wave_part(decision, columns, elements)
    wave_columns = decision.c.tile[1] // decision.warps[1]
    strips = wave_columns // columns
    strip: CExpr = Name("strip") if strips > 1 else Literal(0)
    mi: CExpr = Name("mi") if decision.repeats[0] > 1 else Literal(0)
    window_name = context.name(f"{copy.target.buffer.name}_window")
    body: list[CStmt] = []
    if decision.c.register_count >= context.target.limits.accumulation_registers_per_thread:
        body.append(hold_row(context, decision, copy.source.buffer.name))
    body += [
        _write_strip(context, copy, part, layout, staging.name, mi, strip),
        Expression(c.call("wave_sync_lds")),
        _store_strip(context, copy, decision.c, layout, staging.name, window_name, mi, c.mul(columns, strip)),
    ]
    repeats = strips * decision.repeats[0]
    if repeats > 1:
        body.append(Expression(c.call("wave_sync_lds"), comment="the strip has been read"))
    statements = tuple(body)
    if strips > 1:
        statements = (ForC("strip", Literal(0), Literal(strips), statements, unroll=True),)
    if decision.repeats[0] > 1:
        statements = (ForC("mi", Literal(0), Literal(decision.repeats[0]), statements, unroll=True),)
    owner = c.conjunction(owner_conditions(context, decision.c))
    if owner is not None:  # other waves hold copies
        statements = (IfC(owner, statements),)
    out: list[CStmt] = []
    if staging.over or _repeats(context, copy):
        out.append(Expression(c.call("block_sync_lds"), comment=_why_sync(staging.name, staging.over)))
    return [
        *out,
        *window(context, copy.target, window_name, rows_name(context, copy.source.buffer)),
        *statements,
    ]


def _why_sync(name: str, over: tuple[str, ...]) -> str:
    return f"{name} lies over {listed(over)}" if over else f"{name} has been read"


def _repeats(context: Context, copy: Copy) -> bool:
    """Whether the copy may run more than once in a block."""
    return context.plan.persistent or not any(statement is copy for statement in context.program.kernel.body)


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
    known = [member.name for member in context.members]
    context.members += [  # else they would be declared behind it
        shared_tiles.buffer_member(context, buffer, (1, Literal(1)))
        for buffer in context.program.kernel.allocations
        if buffer.name in over and buffer.name not in known
    ]
    united: list[SharedMember] = []
    others: list[SharedMember] = []
    for member in context.members:
        shared = member.union == UNION or member.name in over
        (united if shared else others).append(replace(member, union=UNION) if shared else member)
    united.append(replace(added, union=UNION, alternative=max(alternatives, default=0) + 1))
    context.members[:] = [*united, *others]


def _strip_tile(context: Context, name: str) -> CExpr:
    """The wave's own strip."""
    return c.index(shared_tiles.tile(context, name), context.threads.name("wave"))


def _write_strip(
    context: Context, copy: Copy, part: Fragment, layout: SharedLayout, name: str, mi: CExpr, strip: CExpr
) -> CStmt:
    """Registers to LDS, converted, 16 bytes a lane at a time."""
    dtype = copy.target.buffer.dtype
    elements = part.register_shape[-1]
    vectors = part.register_shape[0]
    each, e = context.local("v", "vector"), context.local("e", "element")
    v: CExpr = Name(each) if vectors > 1 else Literal(0)
    units = scaled(part, 1, elements)
    row = coordinate(units, 0, (v, Literal(0)), context.threads)
    chunk = coordinate(units, 1, (v, Literal(0)), context.threads)
    vector = vector_type(dtype, elements, "hip")
    flat = SharedLayout(layout.shape[1:], layout.dtype, layout.group, layout.xors, layout.padding)
    element = lds_tile.place(_strip_tile(context, name), flat, Name("row"), chunk)
    index = c.add(c.mul(elements, c.add(c.mul(vectors, strip), v)), Name(e))
    value = _register(context, copy, mi, index)
    if copy.source.buffer.dtype != dtype:
        value = StaticCast(type_name(dtype, "hip"), value)
    body: tuple[CStmt, ...] = (
        Declare("int", "row", row, const=True),
        Declare(vector, "columns"),
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


def _store_strip(
    context: Context,
    copy: Copy,
    accumulator: Fragment,
    layout: SharedLayout,
    name: str,
    window_name: str,
    mi: CExpr,
    first_column: CExpr,
) -> CStmt:
    """LDS to global memory, whole rows."""
    dtype = copy.target.buffer.dtype
    _, rows, columns = layout.shape
    fragment = straight_transfer((rows, columns), WAVE, dtype.bytes).fragment
    count, elements = fragment.register_shape
    i: CExpr = Name("i") if count > 1 else Literal(0)
    units = scaled(fragment, 1, elements)
    row = coordinate(units, 0, (i, Literal(0)), context.threads)
    chunk = coordinate(units, 1, (i, Literal(0)), context.threads)
    flat = SharedLayout(layout.shape[1:], layout.dtype, layout.group, layout.xors, layout.padding)
    element = lds_tile.place(_strip_tile(context, name), flat, Name("row"), chunk)
    vector = vector_type(dtype, elements, "hip")
    origin = _wave_origin(context, accumulator, mi)
    place = (c.add(origin[0], "row"), c.add(origin[1], first_column, c.mul(elements, chunk)))
    resource = f"{window_name}_resource"
    size = access_bytes(copy, 1, context.decisions)
    context.primitive("buffer_store", bytes=size)
    if size == PIECE_BYTES:
        offset = c.call(c.member(window_name, "offset"), *place)
        call = c.call(f"buffer_store_b{8 * size}", "columns", resource, offset)
    else:
        window_helper(context, store_bytes=size)
        call = c.call(f"store_row_b{8 * size}", "columns", window_name, resource, *place)
    body: tuple[CStmt, ...] = (
        Declare("int", "row", row, const=True),
        Declare(vector, "columns", as_vector(element, dtype, elements, "hip", const=True), const=True),
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
