"""Global to shared memory by cp.async: each thread copies chunks of a row, zeros beyond the tensor's end.

Source: PTX ISA, "cp.async".
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.inference.shared import CHUNK_BYTES, SharedLayout
from tilegen.ir.affine import free_vars, interval
from tilegen.ir.build import add, sub
from tilegen.ir.nodes import Copy
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.bounds import inside_grid, kernel_ranges
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.dtypes import type_name
from tilegen.lower.vocabulary.eviction import eviction_hint
from tilegen.lower.vocabulary.scalar import extent_expression, ranges, row_pitch, scalar
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, Operation, Prefix, StaticCast
from tilegen.model.statements import CStmt, Declare, Expression, ForC, IfC, Scope
from tilegen.schedule.plan_multistage import async_bytes
from tilegen.schedule.ranges import may_begin_before
from tilegen.schedule.registers import (
    ADDRESS_REGISTERS,
    fragment_registers,
    operand_registers,
    registers_of_thread,
)

MANY_ROUNDS = 16  # of chunks: beyond them loops spilled beside 48 sums a thread (nvcc 13)
_KEPT = 4  # registers for a chunk's address, place and guard


@dataclass(frozen=True, slots=True)
class AsyncCopy:
    """The loads of one tile: `declarations` say where a thread's first chunk lies in the tile and in the tensor when
    the loop's variable does not count, `body` copies the chunks of an iteration."""

    declarations: tuple[CStmt, ...]
    body: tuple[CStmt, ...]


@dataclass(frozen=True, slots=True)
class _Chunks:
    """How the threads share a tile's chunks: `row`, `column`, `line` and `place` (where row and column in its group are
    stored, swizzled) of a chunk as the loop's body says them, `first` row and column of round 0, `step` rows from one
    round `i` to the next (0: a round moves columns too). Those of a tile with one axis lie in row 0.

    Where a round moves rows by whole periods of the swizzle (`fixed`), `column` and `place` are the same in all rounds,
    and are declared once.
    """

    row: CExpr
    column: CExpr
    line: CExpr
    place: CExpr
    first: tuple[CExpr, CExpr]
    step: int
    rounds: int
    partial: bool  # whether some threads have no chunk in the last round
    fixed: bool
    declarations: tuple[CStmt, ...]  # before the loop, or in its body


def lower_async_copy(context: Context, copy: Copy, variable: str) -> AsyncCopy:
    """The copies of one tile in a loop over `variable`."""
    size = async_bytes(copy, context.decisions)
    layout = context.decisions.layout(copy.target.buffer)
    chunks = _share(context, copy, layout, max(1, size // layout.dtype.bytes))
    name = context.name(f"{copy.target.buffer.name}_source")
    base, source = _addresses(context, copy, chunks, variable, name)
    target = _target(context, copy, layout, chunks)
    inside = c.conjunction(_guards(context, copy, chunks))
    body: list[CStmt] = [_transfer(context, copy, size, target, source, inside)]
    if chunks.partial:
        body = [IfC(_in_tile(context, copy, layout, chunks), tuple(body))]
    if not chunks.fixed:
        body = [*chunks.declarations, *body]
    if chunks.rounds > 1:
        body = [_rounds(context, chunks.rounds, tuple(body))]
    elif not chunks.fixed:
        body = [Scope(tuple(body))]
    element = type_name(copy.source.buffer.dtype, context.target.language)
    pointer = Declare(
        f"const {element}*", name, base, comment="" if chunks.fixed else _first_chunk(copy.target.buffer.name)
    )
    context.note_vector(size, copy.source.buffer)
    declarations = (*chunks.declarations, pointer) if chunks.fixed else (pointer,)
    return AsyncCopy(declarations, (*context.comment(copy.location), *body))


def _rounds(context: Context, count: int, body: tuple[CStmt, ...]) -> ForC:
    """The loop over a thread's chunks: of many beside large fragments, a few at once, for compilers keep address and
    guard of each unrolled one in registers, through the loop around it."""
    kernel, decisions = context.program.kernel, context.decisions
    taken = fragment_registers(kernel, decisions) + operand_registers(kernel, decisions) + ADDRESS_REGISTERS
    if count <= MANY_ROUNDS or count * _KEPT + taken <= registers_of_thread(context.plan, context.target):
        return ForC("i", Literal(0), Literal(count), body, unroll=True)
    why = "more at once would take the fragments' registers"
    return ForC("i", Literal(0), Literal(count), body, unroll=MANY_ROUNDS // 2, comment=why)


def _in_tile(context: Context, copy: Copy, layout: SharedLayout, chunks: _Chunks) -> CExpr:
    buffer = copy.target.buffer
    if buffer.rank > 1:
        ends = shared_tiles.axis_ends(context, buffer, (layout.rows, layout.columns))
        return c.operation("<", chunks.row, ends[0])
    return c.operation("<", chunks.column, shared_tiles.extent_constants(context, buffer)[0])


def _first_chunk(tile: str) -> str:
    return f"this thread's first chunk of {tile}"


def _share(context: Context, copy: Copy, layout: SharedLayout, vector: int) -> _Chunks:
    """Chunks of `vector` elements, dealt to the threads row by row."""
    threads = context.plan.computing
    thread = context.threads.name("thread")
    per_row = layout.columns // vector
    pieces = layout.rows * per_row
    rounds = -(-pieces // threads)
    partial = rounds * threads > pieces
    tile = copy.target.buffer.name
    if copy.target.buffer.rank == 1:
        return _share_row(context, copy, layout, vector, rounds)
    step = threads // per_row if threads % per_row == 0 else 0
    if step and (rounds == 1 or all(step % (x.divisor * x.extent) == 0 for x in layout.xors)):
        row, column = Name(context.name(f"{tile}_row")), Name(context.name(f"{tile}_column"))
        declarations: list[CStmt] = [
            Declare("int", row.name, c.div(thread, per_row), const=True, comment=_first_chunk(tile)),
            Declare("int", column.name, c.mul(vector, c.mod(thread, per_row)), const=True),
        ]
        placed = _placed(context, copy, layout, row, column)
        place = column
        if placed != column:
            place = Name(context.name(f"{tile}_place"))
            said = "where its row holds that column"
            declarations.append(Declare("int", place.name, placed, const=True, comment=said))
        line = _line(layout, row)
        if line != row and rounds > 1:
            line = Name(context.name(f"{tile}_line"))
            said = "where its row is stored"
            declarations.append(Declare("int", line.name, _line(layout, row), const=True, comment=said))
        row_here, line_here = (c.add(one, c.mul(step, "i")) if rounds > 1 else one for one in (row, line))
        start = row, column
        told = tuple(declarations)
        return _Chunks(row_here, column, line_here, place, start, step, rounds, partial, True, told)
    row, column = Name("row"), Name("column")
    piece: CExpr = thread
    if not step and rounds > 1:
        piece = c.add(thread, c.mul(context.constant("kThreads", threads), "i"))
    first = c.div(piece, per_row), c.mul(vector, c.mod(piece, per_row))
    position = c.add(first[0], c.mul(step, "i")) if rounds > 1 else first[0]
    declared = (
        Declare("int", row.name, position, const=True),
        Declare("int", column.name, first[1], const=True),
    )
    swizzled = _placed(context, copy, layout, row, column)
    return _Chunks(row, column, _line(layout, row), swizzled, first, step, rounds, partial, False, declared)


def _share_row(context: Context, copy: Copy, layout: SharedLayout, vector: int, rounds: int) -> _Chunks:
    """Chunks of a tile with one axis, dealt to the threads one after the other."""
    threads = context.plan.computing
    thread: CExpr = context.threads.name("thread")
    partial = rounds * threads * vector > layout.columns
    zero = Literal(0)
    if rounds == 1:
        tile = copy.target.buffer.name
        column = Name(context.name(f"{tile}_column"))
        start = Declare("int", column.name, c.mul(vector, thread), const=True, comment=_first_chunk(tile))
        place = _placed(context, copy, layout, zero, column)
        return _Chunks(zero, column, zero, place, (zero, column), 1, rounds, partial, True, (start,))
    column = Name("column")
    piece = c.add(thread, c.mul(context.constant("kThreads", threads), "i"))
    declared = Declare("int", column.name, c.mul(vector, piece), const=True)
    place = _placed(context, copy, layout, zero, column)
    return _Chunks(zero, column, zero, place, (zero, column), 0, rounds, partial, False, (declared,))


def _transfer(
    context: Context, copy: Copy, size: int, target: CExpr, source: CExpr, inside: CExpr | None
) -> CStmt:
    """One cp.async of `size` bytes; zeros where the chunk is not inside."""
    hint = eviction_hint(context, copy)
    suffix = f"_{hint.upper()}" if hint else ""
    if size == CHUNK_BYTES:
        variant = "cacheglobal" if inside is None else "cacheglobal_zfill"
        context.primitive("cp_async", variant=variant, hint=hint)
        if inside is None:
            return Expression(c.call(f"SM80_CP_ASYNC_CACHEGLOBAL{suffix}::copy", target, source))
        return Expression(c.call(f"SM80_CP_ASYNC_CACHEGLOBAL_ZFILL{suffix}::copy", target, source, inside))
    context.primitive("cp_async", variant="cachealways_zfill", hint=hint)
    name = f"SM80_CP_ASYNC_CACHEALWAYS_ZFILL{suffix}<{size}>::copy"
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
    for axis in range(buffer.rank):
        stride = row_pitch(context, buffer, axis)
        here: list[CExpr] = []
        if variable in free_vars(region.offsets[axis]):
            moving.append(_scaled(scalar(context, region.offsets[axis]), stride))
        else:
            here.append(scalar(context, region.offsets[axis]))
        if axis == last:
            (here if chunks.step else moving).append(chunks.first[1] if chunks.step else chunks.column)
        if axis == row_axis:
            if not chunks.step:
                moving.append(_scaled(chunks.row, stride))
            else:
                here.append(chunks.first[0])
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
    return c.product(StaticCast("i64", position, functional=True), stride)


def _guards(context: Context, copy: Copy, chunks: _Chunks) -> list[CExpr]:
    """What must hold for a chunk to lie inside the tensor, beyond what is known."""
    region, buffer = copy.source, copy.source.buffer
    local = {region.kept[-1]: chunks.column}
    if len(region.kept) > 1:
        local[region.kept[-2]] = chunks.row
    conditions: list[CExpr] = []
    known = kernel_ranges(context)
    for axis in range(buffer.rank):
        if may_begin_before(region.offsets[axis], known):
            begin = scalar(context, region.offsets[axis])
            begin = c.add(begin, local[axis]) if axis in local else begin
            conditions.append(c.operation(">=", begin, 0))
        reach = add(region.offsets[axis], region.shape[axis] - 1)
        _, high = interval(sub(reach, buffer.shape[axis]), ranges(context))
        if (high is not None and high < 0) or inside_grid(
            context, reach, buffer.shape[axis], ranges(context)
        ):
            continue
        position = scalar(context, region.offsets[axis])
        position = c.add(position, local[axis]) if axis in local else position
        conditions.append(c.operation("<", position, extent_expression(context, buffer.shape[axis])))
    return conditions


def _target(context: Context, copy: Copy, layout: SharedLayout, chunks: _Chunks) -> CExpr:
    """The address of the chunk in its swizzled place."""
    base = shared_tiles.tile(context, copy.target.buffer.name)
    if layout.groups > 1:
        base = c.index(base, c.operation("/", chunks.column, _group_columns(context, copy, layout)))
    indices = (chunks.line, chunks.place) if copy.target.buffer.rank > 1 else (chunks.place,)
    return Prefix("&", c.index(base, *indices))


def _placed(context: Context, copy: Copy, layout: SharedLayout, row: CExpr, column: CExpr) -> CExpr:
    """The column in its group, swizzled."""
    if layout.groups > 1:
        column = c.operation("%", column, _group_columns(context, copy, layout))
    mask: CExpr | None = None
    for xor in layout.chunk_xors:
        bits = c.mod(c.div(row, xor.divisor), xor.extent)
        mask = bits if mask is None else Operation("^", mask, bits)
    return column if mask is None else Operation("^", column, c.mul(layout.chunk, mask))


def _line(layout: SharedLayout, row: CExpr) -> CExpr:
    """The row that a row is stored in: swizzles of rows shorter than a line of all banks move them."""
    line = row
    for xor in layout.row_xors:
        line = Operation("^", line, c.mod(c.div(row, xor.divisor), xor.extent))
    return line


def _group_columns(context: Context, copy: Copy, layout: SharedLayout) -> CExpr:
    columns = shared_tiles.extent_constants(context, copy.target.buffer)[-1]
    return shared_tiles.group_columns(context, layout, columns)
