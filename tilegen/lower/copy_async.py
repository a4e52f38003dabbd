"""Global to shared memory by cp.async: each thread copies chunks of a row, zeros beyond the tensor's end.

Source: PTX ISA, "cp.async".
"""

from __future__ import annotations

from tilegen.inference.shared import CHUNK_BYTES, SharedLayout
from tilegen.ir.affine import interval, substitute
from tilegen.ir.build import add, sub
from tilegen.ir.expressions import Expr, Var
from tilegen.ir.nodes import Copy
from tilegen.lower import shared_tiles
from tilegen.lower.context import Context
from tilegen.lower.scalar import extent_expression, ranges, scalar
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, Operation, Prefix, StaticCast
from tilegen.model.statements import CStmt, Declare, Expression, ForC, IfC, Scope
from tilegen.schedule.plan_multistage import async_bytes


def lower_async_copy(context: Context, copy: Copy, variable: Var, iteration: Expr) -> list[CStmt]:
    """The copies of one tile, with the loop's variable at `iteration`."""
    size = async_bytes(copy, context.decisions)
    layout = context.decisions.layout(copy.target.buffer)
    vector = max(1, size // layout.dtype.bytes)
    threads = context.plan.computing
    per_row = layout.columns // vector
    pieces = layout.rows * per_row
    rounds = -(-pieces // threads)
    thread = context.threads.name("thread")
    piece: CExpr = c.add(thread, c.mul(context.constant("kThreads", threads), "i")) if rounds > 1 else thread
    out: list[CStmt] = [*context.comment(copy.location)]
    body: list[CStmt] = []
    if per_row > 1 and threads % per_row == 0:
        # The column of a thread is the same in every round.
        row: CExpr = (
            c.add(c.div(thread, per_row), c.mul(threads // per_row, "i"))
            if rounds > 1
            else c.div(thread, per_row)
        )
        column = c.mul(vector, c.mod(thread, per_row))
    else:
        row, column = c.div(piece, per_row), c.mul(vector, c.mod(piece, per_row))
    body += [Declare("int", "row", row, const=True), Declare("int", "column", column, const=True)]
    offsets = [substitute(offset, {variable.name: iteration}) for offset in copy.source.offsets]
    body.append(_transfer(context, copy, layout, offsets, size))
    if rounds * threads > pieces:
        body = [*body[:2], IfC(c.operation("<", "row", layout.rows), tuple(body[2:]))]
    if rounds > 1:
        out.append(ForC("i", Literal(0), Literal(rounds), tuple(body), unroll=True))
    else:
        out.append(Scope(tuple(body)))
    return out


def _transfer(context: Context, copy: Copy, layout: SharedLayout, offsets: list[Expr], size: int) -> CStmt:
    source, inside = _source(context, copy, offsets)
    target = _target(context, copy, layout)
    if size == CHUNK_BYTES:
        variant = "cacheglobal" if inside is None else "cacheglobal_zfill"
        context.primitive("cp_async", variant=variant)
        if inside is None:
            return Expression(c.call("SM80_CP_ASYNC_CACHEGLOBAL::copy", target, source))
        return Expression(c.call("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL::copy", target, source, inside))
    context.primitive("cp_async", variant="cachealways_zfill")
    name = f"SM80_CP_ASYNC_CACHEALWAYS_ZFILL<{size}>::copy"
    return Expression(c.call(name, target, source, inside if inside is not None else Literal(True, "bool")))


def _source(context: Context, copy: Copy, offsets: list[Expr]) -> tuple[CExpr, CExpr | None]:
    """The address of a chunk in global memory, and whether it is inside the tensor (None: always)."""
    region = copy.source
    buffer = region.buffer
    rows = list(region.kept[:-1])
    local = {region.kept[-1]: Name("column")} | ({rows[0]: Name("row")} if rows else {})
    tile = {region.kept[-1]: region.shape[region.kept[-1]]} | (
        {rows[0]: region.shape[rows[0]]} if rows else {}
    )
    index: CExpr | None = None
    conditions: list[CExpr] = []
    for axis in range(buffer.rank):
        position = scalar(context, offsets[axis])
        if axis in local:
            position = c.add(position, local[axis])
        reach = add(offsets[axis], tile.get(axis, 1) - 1)
        _low, high = interval(sub(reach, buffer.shape[axis]), ranges(context))
        if not (high is not None and high < 0):
            conditions.append(c.operation("<", position, extent_expression(context, buffer.shape[axis])))
        if index is None:
            first = position if buffer.rank == 1 else StaticCast("i64", position, functional=True)
            index = first if buffer.strides is None else c.mul(first, scalar(context, buffer.strides[axis]))
        elif buffer.strides is None:
            index = c.add(c.mul(index, extent_expression(context, buffer.shape[axis])), position)
        else:
            index = c.add(index, c.mul(position, scalar(context, buffer.strides[axis])))
    assert index is not None
    context.note_vector(buffer)
    return Prefix("&", c.index(buffer.name, index)), c.conjunction(conditions)


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
