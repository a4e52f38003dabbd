"""Global to shared memory by cp.async: each thread copies chunks of a row, zeros beyond the tensor's end.

Source: PTX ISA, "cp.async".
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.inference.shared import CHUNK_BYTES, SharedLayout
from tilegen.inference.vector_access import strides
from tilegen.ir.affine import free_vars, interval
from tilegen.ir.build import add, sub
from tilegen.ir.nodes import Copy
from tilegen.lower import shared_tiles
from tilegen.lower.bounds import inside_grid
from tilegen.lower.context import Context
from tilegen.lower.dtypes import type_name
from tilegen.lower.scalar import extent_expression, ranges, scalar
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, Operation, Prefix, StaticCast
from tilegen.model.statements import CStmt, Declare, Expression, ForC, IfC, Scope
from tilegen.schedule.plan_multistage import async_bytes


@dataclass(frozen=True, slots=True)
class AsyncCopy:
    """The loads of one tile: `pointer` declares where a thread's first chunk lies when the loop's variable does not
    count, `body` copies the chunks of an iteration."""

    pointer: CStmt
    body: tuple[CStmt, ...]


@dataclass(frozen=True, slots=True)
class _Chunks:
    """How the threads share a tile's chunks: `row` and `column` of a chunk, `first` the row in round 0, `step` rows
    from one round `i` to the next."""

    row: CExpr
    column: CExpr
    first: CExpr
    step: int
    rounds: int
    partial: bool  # whether some threads have no chunk in the last round


def lower_async_copy(context: Context, copy: Copy, variable: str) -> AsyncCopy:
    """The copies of one tile in a loop over `variable`."""
    size = async_bytes(copy, context.decisions)
    layout = context.decisions.layout(copy.target.buffer)
    chunks = _share(context, layout, max(1, size // layout.dtype.bytes))
    name = context.name(f"{copy.target.buffer.name}_source")
    base, source = _addresses(context, copy, chunks, variable, name)
    target = _target(context, copy, layout)
    inside = c.conjunction(_guards(context, copy))
    context.guarded = context.guarded or inside is not None
    body: list[CStmt] = [
        Declare("int", "row", chunks.row, const=True),
        Declare("int", "column", chunks.column, const=True),
        _transfer(context, size, target, source, inside),
    ]
    if chunks.partial:
        body = [*body[:2], IfC(c.operation("<", "row", layout.rows), (body[2],))]
    if chunks.rounds > 1:
        code: CStmt = ForC("i", Literal(0), Literal(chunks.rounds), tuple(body), unroll=True)
    else:
        code = Scope(tuple(body))
    element = type_name(copy.source.buffer.dtype, context.target.language)
    pointer = Declare(
        f"const {element}*", name, base, comment=f"of this thread's first chunk of {copy.target.buffer.name}"
    )
    context.note_vector(size, copy.source.buffer)
    return AsyncCopy(pointer, (*context.comment(copy.location), code))


def _share(context: Context, layout: SharedLayout, vector: int) -> _Chunks:
    """Chunks of `vector` elements, dealt to the threads row by row."""
    threads = context.plan.computing
    thread = context.threads.name("thread")
    per_row = layout.columns // vector
    pieces = layout.rows * per_row
    rounds = -(-pieces // threads)
    partial = rounds * threads > pieces
    if threads % per_row == 0:
        first, step = c.div(thread, per_row), threads // per_row
        row = c.add(first, c.mul(step, "i")) if rounds > 1 else first
        return _Chunks(row, c.mul(vector, c.mod(thread, per_row)), first, step, rounds, partial)
    piece = c.add(thread, c.mul(context.constant("kThreads", threads), "i")) if rounds > 1 else thread
    column = c.mul(vector, c.mod(piece, per_row))
    return _Chunks(c.div(piece, per_row), column, Literal(0), 0, rounds, partial)


def _transfer(context: Context, size: int, target: CExpr, source: CExpr, inside: CExpr | None) -> CStmt:
    """One cp.async of `size` bytes; zeros where the chunk is not inside."""
    if size == CHUNK_BYTES:
        variant = "cacheglobal" if inside is None else "cacheglobal_zfill"
        context.primitive("cp_async", variant=variant)
        if inside is None:
            return Expression(c.call("SM80_CP_ASYNC_CACHEGLOBAL::copy", target, source))
        return Expression(c.call("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL::copy", target, source, inside))
    context.primitive("cp_async", variant="cachealways_zfill")
    name = f"SM80_CP_ASYNC_CACHEALWAYS_ZFILL<{size}>::copy"
    return Expression(c.call(name, target, source, inside if inside is not None else Literal(True, "bool")))


def _addresses(
    context: Context, copy: Copy, chunks: _Chunks, variable: str, name: str
) -> tuple[CExpr, CExpr]:
    """The address that stays the same through the loop, and a chunk's, which adds what the iteration and the round move
    it by."""
    region, buffer = copy.source, copy.source.buffer
    last = region.kept[-1]
    row_axis = region.kept[-2] if len(region.kept) > 1 else None
    fixed: list[CExpr] = []
    moving: list[CExpr] = []
    for axis, step in enumerate(strides(buffer)):
        stride = scalar(context, step)
        here: list[CExpr] = []
        if variable in free_vars(region.offsets[axis]):
            moving.append(_scaled(scalar(context, region.offsets[axis]), stride))
        else:
            here.append(scalar(context, region.offsets[axis]))
        if axis == last:
            (here if chunks.step else moving).append(chunks.column if chunks.step else Name("column"))
        if axis == row_axis:
            if not chunks.step:
                moving.append(_scaled(Name("row"), stride))
            else:
                here.append(chunks.first)
                if chunks.rounds > 1:
                    moving.append(_scaled(c.mul(chunks.step, "i"), stride))
        if c.value_of(total := c.add(*here)) != 0:
            fixed.append(_scaled(total, stride))
    base: CExpr = Name(buffer.name)
    if fixed:
        base = Prefix("&", c.index(buffer.name, c.add(*fixed)))
    return base, Prefix("&", c.index(name, c.add(*moving)))


def _scaled(position: CExpr, stride: CExpr) -> CExpr:
    """position * stride in 64 bits."""
    if c.value_of(stride) == 1:
        return position
    return c.operation("*", StaticCast("i64", position, functional=True), stride)


def _guards(context: Context, copy: Copy) -> list[CExpr]:
    """What must hold for a chunk to lie inside the tensor, beyond what is known."""
    region, buffer = copy.source, copy.source.buffer
    local = {region.kept[-1]: Name("column")}
    if len(region.kept) > 1:
        local[region.kept[-2]] = Name("row")
    conditions: list[CExpr] = []
    for axis in range(buffer.rank):
        reach = add(region.offsets[axis], region.shape[axis] - 1)
        _, high = interval(sub(reach, buffer.shape[axis]), ranges(context))
        if (high is not None and high < 0) or inside_grid(context, reach, buffer.shape[axis]):
            continue
        position = scalar(context, region.offsets[axis])
        position = c.add(position, local[axis]) if axis in local else position
        conditions.append(c.operation("<", position, extent_expression(context, buffer.shape[axis])))
    return conditions


def _target(context: Context, copy: Copy, layout: SharedLayout) -> CExpr:
    """The address of the chunk in its swizzled place."""
    base = shared_tiles.tile(context, copy.target.buffer.name)
    column: CExpr = Name("column")
    if layout.groups > 1:
        base = c.index(base, c.div(column, layout.group))
        column = c.mod(column, layout.group)
    if layout.xors:
        mask: CExpr | None = None
        for xor in layout.xors:
            bits = c.mod(c.div("row", xor.divisor), xor.extent)
            mask = bits if mask is None else Operation("^", mask, bits)
        assert mask is not None
        column = Operation("^", column, c.mul(layout.chunk, mask))
    return Prefix("&", c.index(base, "row", column))
