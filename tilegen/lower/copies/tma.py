"""TMA copies: tensor maps, loads by the producer, stores through a shared tile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilegen.inference.shared import SharedLayout
from tilegen.ir.affine import divisor_of
from tilegen.ir.nodes import AtomicTile, Buffer, Copy, For, If, ParallelFor, Persistent, Region
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.eviction import eviction_hint
from tilegen.lower.vocabulary.scalar import extent_expression, scalar
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, Operation
from tilegen.model.kernel import Constant, TensorMap
from tilegen.model.statements import CStmt, Declare, Expression, ForC
from tilegen.schedule.analysis import each_statement, reads, writes

SMALL_BOX, SEVERAL = 4096, 4
"""Bytes of a box, and how many boxes are several: measured on the H200, a dozen loads of 1 to 4 KB a stage took 4 % of
a kernel that lives on memory's bandwidth."""


def tensor_map(
    context: Context,
    buffer: Buffer,
    box: tuple[CExpr, ...],
    values: tuple[int, ...],
    swizzle: int,
    group: CExpr | None = None,
) -> Name:
    """The kernel parameter that describes `buffer` in boxes of `box` elements, fastest axis first; one for each way
    in which a tensor is cut. With `group`, the fastest axis counts that many columns, and an axis behind all others
    counts the groups of columns."""
    for name, known in context.maps.items():
        if known.tensor == buffer.name and known.box_values == values and known.swizzle == swizzle:
            return Name(name)
    first = not any(known.tensor == buffer.name for known in context.maps.values())
    alone = first and not _threads_touch(context, buffer)
    name = buffer.name if alone else context.name(f"{buffer.name}_map")
    extents = tuple(extent_expression(context, extent) for extent in reversed(buffer.shape))
    strides = _strides(context, buffer)
    if group is not None:
        extents = (group, *extents[1:], c.operation("/", extents[0], group))
        strides = (*strides, c.mul(group, buffer.dtype.bytes))
    limits = context.target.tma
    assert limits is not None
    context.maps[name] = TensorMap(
        parameter=name,
        tensor=buffer.name,
        dtype=buffer.dtype,
        extents=extents,
        strides=strides,
        box=box,
        swizzle=swizzle,
        l2_promotion=limits.l2_promotion_bytes,
        box_values=values,
        packed=buffer.strides is None and group is None,
    )
    return Name(name)


def _threads_touch(context: Context, buffer: Buffer) -> bool:
    """Whether any statement reads or writes the tensor other than through the TMA unit."""
    for statement in each_statement(context.program.kernel.body):
        if isinstance(statement, For | If | Persistent | ParallelFor):
            continue
        if isinstance(statement, Copy) and statement in context.plan.tma:
            continue
        if isinstance(statement, Copy | AtomicTile) and statement in context.plan.staging:
            continue
        if buffer in reads(statement) or buffer in writes(statement):
            return True
    return False


def _strides(context: Context, buffer: Buffer) -> tuple[CExpr, ...]:
    """Bytes between neighbours along every axis but the fastest, fastest of them first."""
    size = buffer.dtype.bytes
    if buffer.strides is not None:
        return tuple(
            c.mul(extent_expression(context, stride), size) for stride in reversed(buffer.strides[:-1])
        )
    strides: list[CExpr] = []
    step: CExpr = Literal(size)
    for extent in reversed(buffer.shape[1:]):
        step = c.mul(step, extent_expression(context, extent))
        strides.append(step)
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class Boxes:
    """A region of global memory as boxes of one column group each."""

    map: Name
    coordinates: tuple[CExpr, ...]  # of the first box, fastest axis first


def boxes(
    context: Context,
    region: Region,
    layout: SharedLayout,
    extents: tuple[CExpr, ...],
    rows: tuple[CExpr, int] | None = None,
    first: tuple[CExpr, CExpr] | None = None,
) -> Boxes:
    """The boxes that move `region`, a tile of this layout with extents of these names.

    `rows` narrows the boxes to fewer rows (name, value); `first` adds (rows, columns) to the position.
    """
    columns = shared_tiles.group_columns(context, layout, extents[-1])
    last = region.kept[-1]
    box = _box(region, extents, (columns, layout.group), rows)
    offsets: list[CExpr] = [scalar(context, offset) for offset in region.offsets]
    if first is not None:
        offsets[region.kept[-2]] = c.add(offsets[region.kept[-2]], first[0])
        offsets[last] = c.add(offsets[last], first[1])
    swizzle = layout.hardware_swizzle
    assert swizzle is not None
    names, values = tuple(name for name, _ in box), tuple(value for _, value in box)
    return Boxes(tensor_map(context, region.buffer, names, values, swizzle), tuple(reversed(offsets)))


def _box(
    region: Region,
    extents: tuple[CExpr, ...],
    columns: tuple[CExpr, int],
    rows: tuple[CExpr, int] | None = None,
) -> list[tuple[CExpr, int]]:
    """Names and values of a box's extents, fastest axis first."""
    box: dict[int, tuple[CExpr, int]] = {}
    for position, axis in enumerate(region.kept):
        box[axis] = (extents[position], region.tile[position])
    box[region.kept[-1]] = columns
    if rows is not None:
        box[region.kept[-2]] = rows
    return [box.get(axis, (Literal(1), 1)) for axis in reversed(range(region.buffer.rank))]


def folds_groups(context: Context, region: Region, layout: SharedLayout) -> bool:
    """Whether one box takes all column groups: the tensor's rows are whole groups, so that the groups can be an axis of
    their own, and they are several of so few bytes that issuing their loads costs more."""
    tma = context.target.tma
    assert tma is not None
    columns, offset = region.buffer.shape[-1], region.offsets[-1]
    known = context.decisions.divisors
    return (
        layout.hardware_swizzle is not None
        and layout.rows * layout.group * layout.dtype.bytes <= SMALL_BOX
        and (SEVERAL if layout.rows > 1 else 2) <= layout.groups <= tma.box_extent
        and region.kept[-1] == region.buffer.rank - 1
        and region.buffer.rank < tma.rank
        and divisor_of(columns, known) % layout.group == 0
        and divisor_of(offset, known) % layout.group == 0
    )


def _folded(context: Context, region: Region, layout: SharedLayout, extents: tuple[CExpr, ...]) -> Boxes:
    """The one box that moves a tile with all its column groups, one behind the other as they lie in shared memory."""
    group = shared_tiles.group_columns(context, layout, extents[-1])
    box = _box(region, extents, (group, layout.group))
    box.append((c.operation("/", extents[-1], group), layout.groups))
    offsets = [scalar(context, offset) for offset in region.offsets]
    first = Literal(0) if c.value_of(offsets[-1]) == 0 else c.operation("/", offsets[-1], group)
    swizzle = layout.hardware_swizzle
    assert swizzle is not None
    names, values = tuple(name for name, _ in box), tuple(value for _, value in box)
    parameter = tensor_map(context, region.buffer, names, values, swizzle, group)
    return Boxes(parameter, (Literal(0), *reversed(offsets[:-1]), first))


def _cluster_mask(context: Context, size: Name) -> Name:
    """A constant with a bit for each block of a cluster of this size."""
    mask = Operation("-", Operation("<<", Literal(1), size), Literal(1))
    made = Constant("kClusterMask", mask, "int", "a bit for each block of a cluster")
    return Name(context.constants.setdefault(made.name, made).name)


def lower_load(context: Context, copy: Copy, barrier: CExpr) -> list[CStmt]:
    """One thread's code that starts the loads of a tile; `barrier` gets its bytes. Of a tile that a cluster shares each
    block loads its share, for all."""
    buffer = copy.target.buffer
    layout = context.decisions.layout(buffer)
    extents = shared_tiles.extent_constants(context, buffer)
    shared = context.plan.multicast_of(buffer.name)
    rank = copy.source.buffer.rank
    hint = eviction_hint(context, copy)
    suffix = f"_{hint}" if hint else ""
    if shared is None and folds_groups(context, copy.source, layout):
        context.primitive("tma_load", rank=rank + 1, multicast=False, hint=hint)
        whole = _folded(context, copy.source, layout, extents)
        tile = shared_tiles.tile(context, buffer.name)
        called = f"tma_load_{rank + 1}d{suffix}"
        return [Expression(c.call(called, tile, whole.map, *whole.coordinates, barrier))]
    context.primitive("tma_load", rank=rank, multicast=shared is not None, hint=hint)
    name = f"tma_load_{rank}d{suffix}" + ("_multicast" if shared is not None else "")
    extra: tuple[CExpr, ...] = ()
    tile = shared_tiles.tile(context, buffer.name)
    rows: tuple[CExpr, int] | None = None
    first: tuple[CExpr, CExpr] | None = None
    if shared is not None:
        size = context.constant("kCluster", context.plan.cluster_size, "blocks that share loads")
        extra = (_cluster_mask(context, size),)
        if shared.by == "rows":
            share = c.operation("/", extents[-2], size)
            rows = (share, layout.rows // context.plan.cluster_size)
            first = (c.operation("*", "rank", share), Literal(0))
    found = boxes(context, copy.source, layout, extents, rows, first)

    def load(box: CExpr, coordinates: tuple[CExpr, ...]) -> Expression:
        part = box if first is None else c.index(box, first[0])
        return Expression(c.call(name, part, found.map, *coordinates, barrier, *extra))

    by_groups = shared is not None and shared.by == "groups"
    return each_group(context, layout, extents[-1], tile, found.coordinates, load, by_groups)


def each_group(
    context: Context,
    layout: SharedLayout,
    columns: CExpr,
    tile: CExpr,
    coordinates: tuple[CExpr, ...],
    statement: Callable[[CExpr, tuple[CExpr, ...]], CStmt],
    share: bool = False,
) -> list[CStmt]:
    """A statement for each column group: alone, or in a loop over `group`; `share` takes this block's share of the
    groups of a tile that its cluster loads together."""
    if layout.groups == 1:
        return [statement(tile, coordinates)]
    width = shared_tiles.group_columns(context, layout, columns)
    if share:
        size = context.constant("kCluster", context.plan.cluster_size, "blocks that share loads")
        count = c.operation("/", c.div(columns, width), size)
        group = c.operation("+", c.operation("*", "rank", count), "i")
        first = c.add(coordinates[0], c.operation("*", "group", width))
        body = statement(c.index(tile, "group"), (first, *coordinates[1:]))
        inner = (Declare("int", "group", group, const=True), body)
        return [ForC("i", Literal(0), count, inner)]
    first = c.add(coordinates[0], c.mul("group", width))
    body = statement(c.index(tile, "group"), (first, *coordinates[1:]))
    return [ForC("group", Literal(0), c.div(columns, width), (body,))]
