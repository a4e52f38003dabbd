"""Stores and additions through the TMA unit: registers to a swizzled shared tile, then boxes to global memory.

Each consumer warpgroup stores the rows and columns that it computed, so that it waits for nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilegen.inference.fragment import Fragment
from tilegen.inference.matrices import matrices
from tilegen.inference.warpgroup_part import warpgroup_part
from tilegen.ir.build import const
from tilegen.ir.nodes import AtomicTile, Buffer, Copy, Region
from tilegen.lower.copies.staged_matrices import store_matrices
from tilegen.lower.copies.tma import Boxes, boxes, each_group
from tilegen.lower.statements import lower_statement
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.element_names import owner_conditions
from tilegen.lower.vocabulary.eviction import eviction_hint
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal
from tilegen.model.statements import CStmt, Expression, ForC, IfC
from tilegen.model.walk import names
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
    hint = eviction_hint(context, copy) if isinstance(copy, Copy) else ""
    if isinstance(copy, Copy):
        context.primitive(primitive, rank=rank, hint=hint)
    else:
        context.primitive(primitive, rank=rank)
    rows = (_rows_name(context, fragment, part, extents), part.rows)
    found = boxes(context, copy.target, staging.layout, extents, rows, (part.row, part.column))
    store = _stores(
        context, staging, extents, part, found, f"{primitive}_{rank}d" + (f"_{hint}" if hint else "")
    )
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
    size = context.warpgroup()
    return [Expression(c.call("named_barrier_sync", identifier, size), comment=comment)]


def _own_part(context: Context, fragment: Fragment) -> _Part:
    """The rectangle of a warpgroup, from the thread modes beyond its threads."""
    warpgroup = context.target.limits.warpgroup_size
    size = warpgroup_part(fragment, warpgroup)
    assert size is not None  # else nothing is staged
    divisor = 1
    row: list[CExpr] = []
    column: list[CExpr] = []
    for mode in fragment.threads:
        if divisor >= warpgroup and not mode.replicates:
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
        code = store_matrices(context, copy, fragment, staging, turned=kind != "rows")
        owner = c.conjunction(owner_conditions(context, fragment))
        return code if owner is None else [IfC(owner, tuple(code))]
    return _by_loop(context, copy, staging)


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
    return _with_wait(body, c.operation("==", context.threads.name("thread"), 0))


def _with_wait(body: list[CStmt], elected: CExpr) -> list[CStmt]:
    """The wait is the elected thread's, in the branch that stores where that is the last thing to do."""
    wait = Expression(c.call("tma_store_wait_read"))
    match body:
        case [*others, IfC(condition, then, ()) as last] if condition == elected:
            return [*others, replace(last, then=(*then, wait))]
        case [*others, IfC(_, then, ()) as last] if "tma_store_commit" not in names(others):
            return [*others, replace(last, then=tuple(_with_wait(list(then), elected)))]
        case _:
            return [*body, IfC(elected, (wait,))]
