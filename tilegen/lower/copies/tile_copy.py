"""Tiles from global memory to LDS through registers: windows on tensors, buffer loads, wide LDS stores."""

from __future__ import annotations

from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.vector_access import ACCESS_BYTES
from tilegen.ir.nodes import Buffer, Copy, Region
from tilegen.lower.copies import lds_tile
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.addresses import as_vector, global_element, vector_type
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.dtypes import type_name
from tilegen.lower.vocabulary.scalar import extent_expression, ranges, row_pitch, scalar
from tilegen.lower.vocabulary.threads import coordinate
from tilegen.model import build as c
from tilegen.model.expressions import Braces, CExpr, Literal, Name, Prefix, Ternary
from tilegen.model.statements import AssignC, CStmt, Declare, Expression, ForC, IfC, Scope
from tilegen.schedule.tile_copy import TileCopy, tile_copy

TILES_AHEAD = 2  # of a pipelined loop: one in LDS, one in registers


def lower_tile_copy(context: Context, copy: Copy) -> list[CStmt] | None:
    """A copy that is not part of a pipeline, at once; None when buffer loads cannot do it."""
    found = tile_copy(copy, context.program, context.decisions, context.target, ranges(context))
    if isinstance(found, str):
        return None
    registers = context.name(f"{found.name}_loaded")
    body = (
        declare_registers(context, found, registers),
        *load(context, found, registers),
        *store(context, found, registers),
    )
    context.taken.pop(registers, None)
    return [Scope(body)]


def declare_registers(context: Context, tile: TileCopy, registers: str) -> CStmt:
    """`fp16x8 A_next[8];`, or [blocks][rows] of a tile that is transposed on its way."""
    transfer = tile.transfer
    shape = [count for count in (transfer.blocks, transfer.rows) if count > 1]
    return Declare(
        vector_type(tile.copy.source.buffer.dtype, transfer.piece, "hip"),
        registers,
        dimensions=tuple(map(Literal, shape)),
    )


def _register(tile: TileCopy, registers: str, block: CExpr, row: CExpr) -> CExpr:
    """One register vector of the tile."""
    transfer = tile.transfer
    indices = [(transfer.blocks, block), (transfer.rows, row)]
    return c.index(registers, *(index for count, index in indices if count > 1))


# ------------------------------------------------------------------------------------------- global memory


def window(
    context: Context,
    region: Region,
    name: str,
    tile_rows: CExpr,
    within: CExpr | None = None,
    size: int = ACCESS_BYTES,
) -> list[CStmt]:
    """Declares the window on a region of a tensor and its resource, which covers `tile_rows` rows and is accessed
    `size` bytes at a time; `within` empties the window where it is false."""
    context.primitive("make_buffer_resource")
    window_helper(context)
    buffer = region.buffer
    element = type_name(buffer.dtype, "hip")
    offsets = [scalar(context, offset) for offset in region.offsets]
    columns_axis = region.kept[-1]
    columns = c.sub(extent_expression(context, buffer.shape[columns_axis]), offsets[columns_axis])
    rows: CExpr = Literal(1)
    pitch: CExpr = Literal(0)
    if len(region.kept) == 2:
        rows = c.sub(extent_expression(context, buffer.shape[region.kept[0]]), offsets[region.kept[0]])
        pitch = row_pitch(context, buffer, region.kept[0])
        key = buffer.name, region.kept[0]
        context.window_rows[key] = max(context.window_rows.get(key, 0), region.tile[0])
    if within is not None:
        # No rows are no bytes where rows do not overlap; one row has no pitch, rows of a strided tensor may have any.
        if len(region.kept) == 2:
            rows = Ternary(within, rows, Literal(0))
        if len(region.kept) < 2 or buffer.strides is not None:
            columns = Ternary(within, columns, Literal(0))
    context.note_vector(size, buffer)
    # The last iterations load tiles that are not there.
    beyond = [TILES_AHEAD * extent for extent in region.shape]
    origin = global_element(context, buffer, offsets, beyond)
    value = Braces((Prefix("&", origin), rows, columns, pitch))
    return [
        Declare(f"TileWindow<{element}>", name, value, const=True),
        Declare(
            "BufferResource",
            f"{name}_resource",
            c.call(c.member(name, "resource"), template=(tile_rows,)),
            const=True,
        ),
    ]


def window_helper(context: Context, load_bytes: int = ACCESS_BYTES, store_bytes: int = ACCESS_BYTES) -> None:
    """Notes that the text has windows, and functions for narrow accesses."""
    known = dict(context.helpers.get("tile_window", ()))
    values: dict[str, tuple[int, ...]] = {}
    for key, size in (("load_bytes", load_bytes), ("store_bytes", store_bytes)):
        before = known.get(key, ())
        assert isinstance(before, tuple)
        values[key] = tuple(dict.fromkeys((*before, *((size,) if size < ACCESS_BYTES else ()))))
    context.helper("tile_window", **values)


def rows_name(context: Context, buffer: Buffer) -> CExpr:
    """The rows of a tile, under the name of the program's parameter."""
    return shared_tiles.extent_constants(context, buffer)[0] if buffer.rank > 1 else Literal(1)


def load(context: Context, tile: TileCopy, registers: str, within: CExpr | None = None) -> list[CStmt]:
    """Global memory to registers; the copy's loop variables mean what the context's environment says."""
    source, transfer = tile.copy.source, tile.transfer
    name = "window"
    rows = rows_name(context, tile.copy.target.buffer)
    out = window(context, source, name, rows, within, tile.access_bytes)
    blocks: CExpr = Name("i") if transfer.blocks > 1 else Literal(0)
    run: CExpr = Name("r") if transfer.rows > 1 else Literal(0)
    position = (blocks, run, Literal(0)) if transfer.transposes else (blocks, Literal(0))
    coordinates = [coordinate(transfer.fragment, axis, position, context.threads) for axis in (0, 1)]
    (row_declared, row), (column_declared, column) = map(_declared, ("row", "column"), coordinates)
    target = _register(tile, registers, blocks, run)
    vector = vector_type(source.buffer.dtype, transfer.piece, "hip")
    context.primitive("buffer_load", bytes=tile.access_bytes)
    bits = 8 * tile.access_bytes
    if tile.access_bytes == ACCESS_BYTES:
        offset = c.call(c.member(name, "offset"), row, column)
        value = c.call(f"buffer_load_b{bits}", f"{name}_resource", offset, template=(vector,))
    else:
        window_helper(context, load_bytes=tile.access_bytes)
        value = c.call(f"load_row_b{bits}", name, f"{name}_resource", row, column, template=(vector,))
    body: list[CStmt] = [*row_declared, *column_declared, AssignC(target, value)]
    if transfer.rows > 1:
        body = [ForC("r", Literal(0), Literal(transfer.rows), tuple(body), unroll=True)]
    if transfer.blocks > 1:
        body = [ForC("i", Literal(0), Literal(transfer.blocks), tuple(body), unroll=True)]
    return [*out, *body]


def _declared(name: str, value: CExpr) -> tuple[list[CStmt], CExpr]:
    """A coordinate under a name, with its declaration; a number needs neither."""
    if isinstance(value, Literal):
        return [], value
    return [Declare("int", name, value, const=True)], Name(name)


def load_to_lds(context: Context, tile: TileCopy, within: CExpr | None = None) -> list[CStmt]:
    """Global memory to the LDS tile (of the open ring stage) without registers: a wave fills 64 chunks in a row."""
    source, buffer = tile.copy.source, tile.copy.target.buffer
    layout = context.decisions.layout(buffer)
    lanes = context.target.limits.warp_size
    chunks = layout.columns // layout.chunk
    waves = context.plan.threads // lanes
    loads = layout.rows // (lanes // chunks) // waves
    name = "window"
    i: CExpr = Name("i") if loads > 1 else Literal(0)
    own_rows = lanes // chunks
    wave_rows = c.add(
        c.mul(own_rows, context.threads.name("wave")) if waves > 1 else 0, c.mul(own_rows * waves, i)
    )
    lane = context.threads.name("lane")
    chunk = lds_tile.swizzled_chunk(layout, Name("row"), c.mod(lane, chunks))
    target = shared_tiles.tile(context, buffer.name)
    first = (
        c.index(target, "first_row", 0)
        if buffer.rank > 1
        else c.index(target, c.mul(layout.chunk * lanes, i))
    )
    context.primitive("buffer_load_lds", bytes=ACCESS_BYTES)
    offset = c.call(c.member(name, "offset"), "row", c.mul(layout.chunk, chunk))
    body = (
        Declare("int", "first_row", wave_rows, const=True, comment="of the wave"),
        Declare("int", "row", c.add("first_row", c.div(lane, chunks)), const=True),
        Expression(
            c.call(f"buffer_load_lds_b{8 * ACCESS_BYTES}", Prefix("&", first), f"{name}_resource", offset)
        ),
    )
    out = window(context, source, name, rows_name(context, buffer), within)
    return [*out, _loop("i", loads, list(body))]


# ------------------------------------------------------------------------------------------- LDS


def store(context: Context, tile: TileCopy, registers: str) -> list[CStmt]:
    """Registers to the LDS tile (of the open ring stage)."""
    if tile.transfer.transposes:
        return [_store_transposed(context, tile, registers)]
    return [_store_rows(context, tile, registers)]


def _store_rows(context: Context, tile: TileCopy, registers: str) -> CStmt:
    """Each piece as it was loaded."""
    buffer, transfer = tile.copy.target.buffer, tile.transfer
    layout = context.decisions.layout(buffer)
    blocks: CExpr = Name("i") if transfer.blocks > 1 else Literal(0)
    units = scaled(transfer.fragment, 1, transfer.piece)
    position = (blocks, Literal(0))
    row = coordinate(units, 0, position, context.threads)
    chunk = coordinate(units, 1, position, context.threads)
    target = shared_tiles.tile(context, buffer.name)
    body: list[CStmt] = []
    if buffer.rank == 1:
        element = c.index(target, c.mul(transfer.piece, chunk))
    else:
        declared, row = _declared("row", row)
        body += declared
        element = lds_tile.place(target, layout, row, chunk)
    store_value = AssignC(
        as_vector(element, buffer.dtype, transfer.piece, "hip"),
        _register(tile, registers, blocks, Literal(0)),
    )
    body.append(_inside(context, tile, (row, chunk), units, store_value))
    return _loop("i", transfer.blocks, body)


def _store_transposed(context: Context, tile: TileCopy, registers: str) -> CStmt:
    """Each column of a block as one run along k."""
    buffer, transfer = tile.copy.target.buffer, tile.transfer
    layout = context.decisions.layout(buffer)
    blocks: CExpr = Name("i") if transfer.blocks > 1 else Literal(0)
    run = transfer.rows
    fragment = transfer.fragment
    n = context.local("n", "e", "element")
    position = (blocks, Literal(0), Name(n))
    row = coordinate(fragment, 1, position, context.threads)
    first = coordinate(fragment, 0, position, context.threads)
    chunk = c.div("first", layout.chunk)
    rest = c.mod("first", layout.chunk) if run < layout.chunk else None
    element = lds_tile.place(shared_tiles.tile(context, buffer.name), layout, Name("row"), chunk, rest)
    vector = vector_type(buffer.dtype, run, "hip")
    values = Braces(tuple(c.index(_register(tile, registers, blocks, Literal(r)), n) for r in range(run)))
    store_value = AssignC(as_vector(element, buffer.dtype, run, "hip"), Name("elements"))
    body = [
        Declare("int", "row", row, const=True),
        Declare("int", "first", first, const=True, comment=f"of {run} elements of the row"),
        Declare(vector, "elements", values, const=True),
        _inside(context, tile, (Name("first"), Name("row")), fragment, store_value),
    ]
    inner = ForC(n, Literal(0), Literal(transfer.piece), tuple(body), unroll=True)
    return _loop("i", transfer.blocks, [inner])


def scaled(fragment: Fragment, axis: int, unit: int) -> Fragment:
    """The fragment with an axis counted in units; register dimensions below a unit stand still."""

    def one(mode: Mode) -> Mode:
        steps = tuple(s // unit if a == axis else s for a, s in enumerate(mode.steps))
        return Mode(mode.extent, steps)

    return Fragment(
        tuple(-(-extent // unit) if a == axis else extent for a, extent in enumerate(fragment.tile)),
        tuple(map(one, fragment.threads)),
        tuple(tuple(map(one, modes)) for modes in fragment.registers),
    )


def _inside(
    context: Context, tile: TileCopy, place: tuple[CExpr, CExpr], units: Fragment, statement: CStmt
) -> CStmt:
    """The statement, guarded where the threads do not divide the tile."""
    fragment = tile.transfer.fragment
    ends = shared_tiles.axis_ends(context, tile.copy.target.buffer, units.tile)
    conditions = [
        c.operation("<", position, ends[axis])
        for axis, position in enumerate(place)
        if fragment.padded[axis] > fragment.tile[axis]
    ]
    condition = c.conjunction(conditions)
    return statement if condition is None else IfC(condition, (statement,))


def _loop(variable: str, count: int, body: list[CStmt]) -> CStmt:
    if count > 1:
        return ForC(variable, Literal(0), Literal(count), tuple(body), unroll=True)
    return body[0] if len(body) == 1 else Scope(tuple(body))
