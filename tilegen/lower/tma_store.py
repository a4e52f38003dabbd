"""Stores and additions through the TMA unit: registers to a swizzled shared tile, then boxes to global memory.

Each consumer warpgroup stores the rows and columns that it computed, so that it waits for nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.matrices import matrices
from tilegen.inference.warpgroup_part import WARPGROUP, warpgroup_part
from tilegen.ir.build import const
from tilegen.ir.nodes import AtomicTile, Buffer, Copy, Region
from tilegen.lower import shared_tiles
from tilegen.lower.context import Context
from tilegen.lower.conversion import packed_pair, pair_type
from tilegen.lower.element_names import owner_conditions
from tilegen.lower.statements import lower_statement
from tilegen.lower.threads import register_part, thread_part
from tilegen.lower.tma import Boxes, boxes, each_group
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Index, Literal, Name, Operation, Prefix, Reinterpret
from tilegen.model.statements import AssignC, CStmt, Declare, Expression, ForC, IfC
from tilegen.schedule.analysis import stands_in_loop
from tilegen.schedule.plan import Staging


@dataclass(frozen=True, slots=True)
class _Part:
    """What one warpgroup stores: its first row and column in the tile, and how many rows."""

    row: CExpr
    column: CExpr
    rows: int
    columns: int


def lower_staged_store(context: Context, copy: Copy | AtomicTile) -> list[CStmt]:
    """A fragment to global memory, or added to what is there, by way of shared memory."""
    staging = context.plan.staging[copy]
    fragment = context.decisions.fragment(copy.source.buffer)
    extents = shared_tiles.extent_constants(context, copy.source.buffer)
    context.members.append(shared_tiles.member(context, staging.name, staging.layout, extents))
    for name in ("tma_store_wait_read", "tma_store_commit", "fence_proxy_async"):
        context.primitive(name)
    part = _own_part(context, fragment)
    elected = c.operation("==", context.threads.name("thread"), 0)
    out: list[CStmt] = []
    if context.plan.persistent or stands_in_loop(context.program.kernel.body, copy):
        out.append(
            IfC(
                elected,
                (Expression(c.call("tma_store_wait_read")),),
                comment=f"{staging.name} of the previous tile has been read",
            )
        )
        out += warpgroup_sync(context)
    out += _to_shared(context, copy, fragment, staging)
    out.append(Expression(c.call("fence_proxy_async")))
    out += warpgroup_sync(context)
    rank = copy.target.buffer.rank
    primitive = "tma_store" if isinstance(copy, Copy) else "tma_reduce_add"
    context.primitive(primitive, rank=rank)
    rows = (_rows_name(context, fragment, part, extents), part.rows)
    found = boxes(context, copy.target, staging.layout, extents, rows, (part.row, part.column))
    store = _stores(context, staging, extents, part, found, f"{primitive}_{rank}d")
    # Of warpgroups that hold copies one stores.
    stores = c.conjunction((*owner_conditions(context, fragment), elected))
    assert stores is not None
    out.append(IfC(stores, (*store, Expression(c.call("tma_store_commit")))))
    context.pending_stores = True
    return out


def warpgroup_sync(context: Context, comment: str = "") -> list[CStmt]:
    """A barrier of one consumer warpgroup."""
    context.primitive("named_barrier_sync")
    said = "of the first consumer warpgroup; 0 is __syncthreads, 1 of all consumers"
    base = context.constant("kWarpgroupBarrier", 2, said)
    identifier = base if context.plan.consumers == 1 else c.add(base, context.threads.name("consumer"))
    size = context.constant("kWarpgroup", 128, "threads")
    return [Expression(c.call("named_barrier_sync", identifier, size), comment=comment)]


def _own_part(context: Context, fragment: Fragment) -> _Part:
    """The rectangle of a warpgroup, from the thread modes beyond 128 threads."""
    size = warpgroup_part(fragment)
    assert size is not None  # else nothing is staged
    divisor = 1
    row: list[CExpr] = []
    column: list[CExpr] = []
    for mode in fragment.threads:
        if divisor >= WARPGROUP and not mode.replicates:
            digit = context.threads.digit(divisor, mode.extent)
            if mode.steps[0]:
                row.append(context.threads.scaled(mode.steps[0], digit))
            if mode.steps[1]:
                column.append(context.threads.scaled(mode.steps[1], digit))
        divisor *= mode.extent
    return _Part(c.add(*row), c.add(*column), *size)


def _rows_name(context: Context, fragment: Fragment, part: _Part, extents: tuple[CExpr, ...]) -> CExpr:
    """The rows of a warpgroup's part by name."""
    if part.rows == fragment.tile[0]:
        return extents[0]
    return context.threads.shares.get(part.rows, Literal(part.rows))


def _stores(
    context: Context,
    staging: Staging,
    extents: tuple[CExpr, ...],
    part: _Part,
    found: Boxes,
    instruction: str,
) -> list[CStmt]:
    layout, coordinates = staging.layout, found.coordinates

    def store(box: CExpr, at: tuple[CExpr, ...]) -> Expression:
        base = box if c.value_of(part.row) == 0 else c.index(box, part.row)
        return Expression(c.call(instruction, found.map, base, *at))

    tile = c.member("shared", staging.name)
    if part.columns == layout.columns:
        return each_group(context, layout, extents[-1], tile, coordinates, store)
    width = shared_tiles.group_columns(context, layout, extents[-1])
    first = c.operation("/", part.column, width)
    own = context.threads.shares.get(part.columns)
    count = Literal(part.columns // layout.group) if own is None else c.operation("/", own, width)
    body = store(
        c.index(tile, c.add(first, "group")), (c.add(coordinates[0], c.mul("group", width)), *coordinates[1:])
    )
    return [ForC("group", Literal(0), count, (body,))]


def _to_shared(
    context: Context, copy: Copy | AtomicTile, fragment: Fragment, staging: Staging
) -> list[CStmt]:
    """Registers to the swizzled tile."""
    kind = matrices(fragment) if context.target.has("stmatrix") else None
    if kind is not None:
        by = _by_stmatrix if kind == "rows" else _by_turned_stmatrix
        code = by(context, copy, fragment, staging)
        owner = c.conjunction(owner_conditions(context, fragment))
        return code if owner is None else [IfC(owner, tuple(code))]
    return _by_loop(context, copy, staging)


def _by_stmatrix(
    context: Context, copy: Copy | AtomicTile, fragment: Fragment, staging: Staging
) -> list[CStmt]:
    context.primitive("stmatrix", count=4, transpose=False)
    layout = staging.layout
    name = copy.source.buffer.name
    outer = fragment.registers[:-1]
    mi = Name("mi") if outer else None
    source = c.index(name, mi) if mi is not None else Name(name)
    threads = context.threads
    # Row and first column that a lane points stmatrix at: lanes 0-15 the left matrices, lanes 16-31 the right ones.
    beyond = Fragment(fragment.tile, (Mode(32, (0, 0)), *fragment.threads[2:]), ((Mode(1, (0, 0)),),))
    row: CExpr = c.add(thread_part(beyond, 0, threads), c.mod(threads.name("lane"), 16))
    first_column = thread_part(beyond, 1, threads)
    own_row = Name(context.name("row"))
    out: list[CStmt] = [Declare("int", own_row.name, row, const=True)]
    row_index: CExpr = own_row
    if mi is not None:
        row_index = c.add(row_index, register_part(Fragment(fragment.tile, (), outer), 0, (mi,)))
    j = Name("j")
    left = c.add(c.mul(2, j), c.div(threads.name("lane"), 16))  # chunk of 8 columns, in the warpgroup's part
    if c.value_of(first_column) is None:
        left = c.add(c.div(first_column, 8), left)
    if layout.groups > 1:
        per_group = layout.group // 8
        if c.value_of(first_column) is None:
            group: CExpr = c.div(left, per_group)
            chunk = c.mod(left, per_group)
        else:
            group = c.div(j, per_group // 2)
            chunk = c.add(c.mul(2, c.mod(j, per_group // 2)), c.div(threads.name("lane"), 16))
        base = c.index(c.member("shared", staging.name), group)
    else:
        chunk = left
        base = c.member("shared", staging.name)
    swizzled = chunk
    for xor in layout.xors:
        swizzled = Operation("^", swizzled, c.mod(c.div(own_row, xor.divisor), xor.extent))
    pair = pair_type(copy.target.buffer.dtype)
    first = c.add(c.mul(8, j), c.mul(2, "q"))  # of 8 accumulators, which become 4 registers of 2 elements
    packed = packed_pair(context, copy, c.index(source, first), c.index(source, c.add(first, 1)))
    target = Index(c.index(base, row_index), c.mul(8, "chunk"))
    swizzle = f"8-column chunk under the {layout.hardware_swizzle}-byte swizzle"
    body: tuple[CStmt, ...] = (
        Declare(pair, "fragment", dimensions=(Literal(4),)),
        ForC("q", Literal(0), Literal(4), (AssignC(c.index("fragment", "q"), packed),), unroll=True),
        Declare("int", "chunk", swizzled, const=True, comment=swizzle),
        Expression(
            c.call(
                "stmatrix_x4",
                Prefix("&", target),
                Reinterpret("const u32(&)[4]", Name("fragment"), dereference=False),
            )
        ),
    )
    columns = 8 * fragment.registers[-1][2].extent
    extents = shared_tiles.extent_constants(context, copy.source.buffer)
    steps = c.div(extents[1], 16) if columns == fragment.tile[1] else Literal(columns // 16)
    loop: CStmt = ForC(
        "j", Literal(0), steps, body, unroll=True, comment="one stmatrix writes 16 rows x 16 columns"
    )
    if mi is not None:
        loop = ForC("mi", Literal(0), Literal(fragment.register_shape[0]), (loop,), unroll=True)
    return [*out, loop]


def _by_turned_stmatrix(
    context: Context, copy: Copy | AtomicTile, fragment: Fragment, staging: Staging
) -> list[CStmt]:
    """For registers whose neighbours lie in a column: the instruction turns each matrix as it stores it."""
    context.primitive("stmatrix", count=4, transpose=True)
    layout, threads = staging.layout, context.threads
    outer = fragment.registers[:-1]
    mi = (Name("mi"),) if outer else ()
    lane = threads.name("lane")
    beyond = Fragment(fragment.tile, (Mode(32, (0, 0)), *fragment.threads[2:]), ((Mode(1, (0, 0)),),))
    # Lanes 0-7 and 8-15 point at rows of the two left matrices of 8 rows, 16-31 at those of the 8 rows below.
    row, column, chunk = (Name(context.name(name)) for name in ("row", "column", "chunk"))
    own_row = c.add(thread_part(beyond, 0, threads), c.mul(8, c.div(lane, 16)), c.mod(lane, 8))
    own_column = c.add(thread_part(beyond, 1, threads), c.mul(8, c.mod(c.div(lane, 8), 2)))
    swizzled: CExpr = c.div(column, 8)
    if layout.groups > 1:
        swizzled = c.mod(swizzled, layout.group // 8)
    for xor in layout.xors:
        swizzled = Operation("^", swizzled, c.mod(c.div(row, xor.divisor), xor.extent))
    base = c.member("shared", staging.name)
    if layout.groups > 1:
        width = shared_tiles.group_columns(context, layout, Literal(layout.columns))
        repeat = register_part(Fragment(fragment.tile, (), outer), 1, mi) if outer else Literal(0)
        base = c.index(base, c.operation("/", c.add(column, repeat), width))
    source = c.index(copy.source.buffer.name, *mi)
    first = c.add(c.mul(8, "j"), c.mul(2, "q"))  # of 8 accumulators, which become 4 registers of 2 elements
    packed = packed_pair(context, copy, c.index(source, first), c.index(source, c.add(first, 1)))
    target = Index(c.index(base, c.add(row, c.mul(16, "j"))), c.mul(8, chunk))
    registers = Reinterpret("const u32(&)[4]", Name("fragment"), dereference=False)
    body: tuple[CStmt, ...] = (
        Declare(pair_type(copy.target.buffer.dtype), "fragment", dimensions=(Literal(4),)),
        ForC("q", Literal(0), Literal(4), (AssignC(c.index("fragment", "q"), packed),), unroll=True),
        Expression(c.call("stmatrix_x4_trans", Prefix("&", target), registers)),
    )
    rows = 8 * fragment.registers[-1][2].extent
    extents = shared_tiles.extent_constants(context, copy.source.buffer)
    steps = c.div(extents[0], 16) if rows == fragment.tile[0] else Literal(rows // 16)
    told = "one stmatrix turns and writes 16 rows x 16 columns"
    loop: CStmt = ForC("j", Literal(0), steps, body, unroll=True, comment=told)
    if outer:
        loop = ForC("mi", Literal(0), Literal(fragment.register_shape[0]), (loop,), unroll=True)
    swizzle = f"8-column chunk under the {layout.hardware_swizzle}-byte swizzle"
    return [
        Declare("int", row.name, own_row, const=True),
        Declare("int", column.name, own_column, const=True),
        Declare("int", chunk.name, swizzled, const=True, comment=swizzle),
        loop,
    ]


def _by_loop(context: Context, copy: Copy | AtomicTile, staging: Staging) -> list[CStmt]:
    """As any other copy to shared memory, for fragments that no 8 x 8 matrices make up."""
    shape = tuple(const(extent) for extent in staging.layout.shape)
    buffer = Buffer(staging.name, shape, staging.layout.dtype, "shared", location=copy.location)
    zero = const(0)
    target = Region(buffer, (zero,) * len(shape), staging.layout.shape, (), copy.location)
    inner = Copy(copy.source, target, copy.location)
    context.decisions.shared[staging.name] = staging.layout
    context.decisions.loops[inner] = context.decisions.fragment(copy.source.buffer)
    return lower_statement(context, inner)


def finish_stores(context: Context, body: list[CStmt]) -> list[CStmt]:
    """The body with a wait behind it: the block may end only when its shared tiles have been read."""
    if not context.pending_stores:
        return body
    elected = c.operation("==", context.threads.name("thread"), 0)
    wait = Expression(c.call("tma_store_wait_read"))
    match body:
        case [*others, IfC(condition, then, ()) as last] if condition == elected:
            return [*others, replace(last, then=(*then, wait))]
        case _:
            return [*body, IfC(elected, (wait,))]
