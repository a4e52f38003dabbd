"""Where the lanes of a warp point ldmatrix at in the operands' shared tiles.

Each lane has a row and a chunk of 8 columns for the whole kernel. Loops over atoms and steps of k move both by numbers
known at compile time: rows by whole periods of the swizzle, chunks in bits of their own, so that a move commutes with
the swizzle's XOR, and nothing but a stage's base is left to be added per load.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.inference.decisions import GemmDecision
from tilegen.inference.gemm_mma_sync import DEPTH
from tilegen.inference.operand_parts import is_part
from tilegen.inference.shared import SharedLayout
from tilegen.ir.build import binary, const
from tilegen.ir.nodes import Region
from tilegen.lower.gemms.own_k import own_part
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.scalar import scalar
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Index, Literal, Name, Operation, Prefix
from tilegen.model.statements import CStmt, Declare, Expression

WARP = 32  # threads
NAMES = ("a_row", "a_chunk", "b_row", "b_chunk")  # what a lane's places are called
CHUNK = 8  # 16-bit elements of one row of an 8 x 8 matrix


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane's row and chunk where it starts, and what the loops over atoms and steps of k add to both.

    `apart`: the chunk's moves use bits that its start leaves alone, and the swizzle is applied to the start already;
    `group` is then the column group, moves included. Else chunks count through all groups, and the swizzle is still
    to be applied.
    """

    row: CExpr
    chunk: CExpr
    row_moves: CExpr
    chunk_moves: CExpr
    transposed: bool
    apart: bool
    group: CExpr


@dataclass(frozen=True, slots=True)
class _Columns:
    """How chunks of an operand's rows are reached: a warp starts at `digit * span` chunks (at 0 where digit is None), a
    lane `bit` chunks behind it, and a loop moves `stride` chunks for each step of `turn`, `reach` chunks in all."""

    span: int
    digit: CExpr | None
    bit: CExpr
    stride: int
    turn: CExpr
    reach: int


def counter(name: str, count: int) -> CExpr:
    """The variable of a loop, 0 where there is one turn and so no loop."""
    return Name(name) if count > 1 else Literal(0)


def lane_a(context: Context, region: Region, decision: GemmDecision, step: CExpr) -> Lane:
    """16 rows x 16 k an ldmatrix.x4: registers are rows 0-7, rows 8-15, then the same for the next 8 k."""
    lane = context.threads.name("lane")
    along_m, _ = decision.warps
    repeats = decision.repeats[0]
    mi = counter("mi", repeats)
    warp = context.threads.digit(32, along_m) if along_m > 1 else None
    if decision.a_major == "MN":
        row = c.add(c.mod(lane, 8), c.mul(8, c.div(lane, 16)))
        row = c.add(_first_k(context, decision), row)
        columns = _Columns(2 * repeats, warp, c.mod(c.div(lane, 8), 2), 2, mi, 2 * repeats)
        return _lane(context, region, row, c.mul(DEPTH, step), columns, transposed=True)
    row = c.add(_start(DEPTH * repeats, warp), c.mod(lane, 16))
    columns = _along_k(context, decision, c.div(lane, 16), step)
    return _lane(context, region, row, c.mul(16, mi), columns, transposed=False)


def lane_b(
    context: Context, region: Region, decision: GemmDecision, step: CExpr, turn: CExpr | None = None
) -> Lane:
    """16 k x 16 columns an ldmatrix.x4: two registers for each of two neighbouring tiles of 8 columns. The first half
    of the lanes points at the first of the two: an ldmatrix.x2 of the last of an odd number of them asks no others.
    `turn` is the first tile's number, the counter of a loop where it is None."""
    lane = context.threads.name("lane")
    along_m, along_n = decision.warps
    repeats = decision.repeats[1]
    ni = counter("ni", repeats // 2) if turn is None else turn
    warp = context.threads.digit(32 * along_m, along_n) if along_n > 1 else None
    if decision.b_major == "MN":
        columns = _Columns(repeats, warp, c.div(lane, 16), 1, ni, repeats)
        row = c.add(_first_k(context, decision), c.mod(lane, 16))
        return _lane(context, region, row, c.mul(DEPTH, step), columns, transposed=True)
    row = c.add(_start(CHUNK * repeats, warp), c.mod(lane, 8), c.mul(8, c.div(lane, 16)))
    columns = _along_k(context, decision, c.mod(c.div(lane, 8), 2), step)
    return _lane(context, region, row, c.mul(8, ni), columns, transposed=False)


def _first_k(context: Context, decision: GemmDecision) -> CExpr:
    """The first k of the warp's own part."""
    return c.mul(decision.k_extent, own_part(context, decision, WARP))


def _along_k(context: Context, decision: GemmDecision, bit: CExpr, step: CExpr) -> _Columns:
    """The chunks of an operand whose rows run along k."""
    chunks = 2 * decision.steps
    if decision.k_parts == 1:
        return _Columns(0, None, bit, 2, step, chunks)
    return _Columns(chunks, own_part(context, decision, WARP), bit, 2, step, chunks)


def _start(span: int, warp: CExpr | None) -> CExpr:
    return Literal(0) if warp is None else c.mul(span, warp)


def _lane(
    context: Context, region: Region, row: CExpr, row_moves: CExpr, columns: _Columns, transposed: bool
) -> Lane:
    layout = context.decisions.layout(region.buffer)
    start = _start(columns.span, columns.digit)
    if is_part(region) or not _moves_apart(layout, columns):
        chunk = c.add(start, columns.bit)
        moves = c.add(c.mul(columns.stride, columns.turn), _first_chunk(context, region))
        return Lane(
            row, chunk, c.add(row_moves, _first_row(context, region)), moves, transposed, False, Literal(0)
        )
    chunks = layout.group // CHUNK
    group: CExpr = Literal(0)
    if columns.digit is not None and columns.span >= chunks:
        group, start = c.mul(columns.span // chunks, columns.digit), Literal(0)
    elif columns.digit is not None and layout.groups > 1:
        warps = chunks // columns.span
        group, start = c.div(columns.digit, warps), c.mul(columns.span, c.mod(columns.digit, warps))
    turn = columns.turn
    if columns.reach > chunks:
        turns = chunks // columns.stride  # in a group
        group, turn = c.add(group, c.div(turn, turns)), c.mod(turn, turns)
    moves = c.mul(columns.stride, turn)
    return Lane(row, c.add(start, columns.bit), row_moves, moves, transposed, True, group)


def _first_row(context: Context, region: Region) -> CExpr:
    """The row that a part of a tile begins in; axes before the matrix count as rows."""
    total: CExpr = Literal(0)
    for extent, offset in zip(region.buffer.extents[:-1], region.offsets[:-1], strict=True):
        total = c.add(c.mul(total, extent), scalar(context, offset))
    return total


def _first_chunk(context: Context, region: Region) -> CExpr:
    """The chunk of columns that a part of a tile begins with."""
    return scalar(context, binary("//", region.offsets[-1], const(CHUNK)))


def _moves_apart(layout: SharedLayout, columns: _Columns) -> bool:
    """Whether the moves of a lane's chunk and of its row leave alone what the swizzle makes of its start."""
    chunks = layout.group // CHUNK
    powers = all(n & (n - 1) == 0 for n in (chunks, columns.span if columns.digit is not None else 1))
    periods = all(16 % (xor.divisor * xor.extent) == 0 and xor.extent <= chunks for xor in layout.xors)
    return bool(layout.xors) and powers and periods and not layout.padding


def declare_lane(which: str, lane: Lane, layout: SharedLayout) -> list[CStmt]:
    """`const int a_row = …;  const int a_chunk = …;`"""
    row, chunk, columns = Name(f"{which}_row"), lane.chunk, f"and chunk of {CHUNK} columns"
    if lane.apart:
        chunk, columns = swizzled(chunk, row, layout), f"{columns}, swizzled"
    rows = f"row of {which.upper()} that the lane points ldmatrix at"
    return [
        Declare("int", row.name, lane.row, const=True, comment=rows),
        Declare("int", f"{which}_chunk", chunk, const=True, comment=columns),
    ]


def swizzled(chunk: CExpr, row: CExpr, layout: SharedLayout) -> CExpr:
    """The chunk's place in the row."""
    for xor in layout.xors:
        chunk = Operation("^", chunk, c.mod(c.div(row, xor.divisor), xor.extent))
    return chunk


def lane_load(
    context: Context, region: Region, target: CExpr, which: str, lane: Lane, matrices: int = 4
) -> CStmt:
    """One ldmatrix from `&shared.A_shared[stage][group][row][8 * chunk]`."""
    context.primitive("ldmatrix", count=matrices, transpose=lane.transposed)
    layout = context.decisions.layout(region.buffer)
    base = shared_tiles.tile(context, region.buffer.name)
    leading = [Literal(0)] * (region.buffer.rank - 2)  # their rows are counted on
    row, chunk = c.add(f"{which}_row", lane.row_moves), Name(f"{which}_chunk")
    if lane.apart:
        base = c.index(base, lane.group) if layout.groups > 1 else base
        still = c.value_of(lane.chunk_moves) == 0
        place: CExpr = chunk if still else Operation("^", chunk, lane.chunk_moves)
    else:
        place = c.add(lane.chunk_moves, chunk)
        per_group = layout.group // CHUNK
        if layout.groups > 1:
            base = c.index(base, c.div(place, per_group))
            place = c.mod(place, per_group)
        place = swizzled(place, row, layout)
    address = Prefix("&", Index(c.index(base, *leading, row), c.mul(CHUNK, place)))
    return Expression(c.call(f"ldmatrix_x{matrices}{'_trans' if lane.transposed else ''}", target, address))
