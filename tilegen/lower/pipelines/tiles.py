"""Which tile of the grid a block computes: one each, or one after another in a persistent kernel."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilegen.ir.expressions import Const, Var
from tilegen.ir.nodes import Kernel, Persistent, Stmt
from tilegen.lower.statements import lower_statements
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.scalar import scalar
from tilegen.model import build as c
from tilegen.model.expressions import CallC, CExpr, Lambda, Literal, Member, Name, Operation
from tilegen.model.statements import CStmt, Declare, ForC
from tilegen.model.transform import rewritten_blocks
from tilegen.model.walk import names as mentioned
from tilegen.schedule.analysis import each_statement
from tilegen.schedule.clusters import cluster_axis

AXES = ("x", "y", "z")


@dataclass(frozen=True, slots=True)
class TileLoop:
    """The walk over the grid. `repeats` when a block computes several tiles."""

    repeats: bool
    ordered: bool  # tiles are numbered and walked in panels
    extents: tuple[CExpr, ...]  # of the grid, in clusters along the axis that clusters lie along
    variables: tuple[str, ...]
    cluster: int = 1  # blocks
    axis: int = 0  # along which a cluster lies
    numbered: bool = False  # the launch has one axis, because another would be longer than it may be
    blocks: tuple[CExpr, ...] = ()  # the grid's extents where the launch has one axis

    def body(self, kernel: Kernel) -> tuple[Stmt, ...]:
        """The statements of one tile."""
        return kernel.body

    @property
    def flat(self) -> bool:
        """Whether the launch has one axis, along which blocks are numbered."""
        return self.repeats or self.ordered or self.numbered

    @property
    def count(self) -> CExpr:
        total = self.extents[0]
        for extent in self.extents[1:]:
            total = c.operation("*", total, extent)
        return total

    def wrap(
        self, context: Context, body: list[CStmt], following: Sequence[CStmt] = (), round_name: str = ""
    ) -> list[CStmt]:
        """The body inside the loop over this block's tiles. `following` sets `tile` to the next one, where that is not
        a fixed step away; a variable `round_name` counts the block's tiles."""
        if not self.repeats:
            return body
        head = self.coordinates(context, Name("tile"))
        first, step = c.expr("blockIdx.x"), c.expr("gridDim.x")
        if following:
            inside = (*head, *body, *following)
            return [ForC("tile", first, self.count, inside, step=Literal(0), turns=round_name)]
        if self.cluster > 1:
            size = cluster_constant(context)
            first, step = c.operation("/", first, size), c.operation("/", step, size)
        return [ForC("tile", first, self.count, (*head, *body), step=step, turns=round_name)]

    def coordinates(self, context: Context, tile: CExpr) -> list[CStmt]:
        """Declares the block's coordinates for a tile number; with clusters, for a cluster's number."""
        names = list(self.variables)
        own: list[CStmt] = []
        if self.cluster > 1:
            inner = f"cluster_{names[self.axis]}"
            value = c.operation("+", c.operation("*", inner, cluster_constant(context)), "rank")
            own = [Declare("int", names[self.axis], value, const=True)]
            names[self.axis] = inner
        return [*self._tile_coordinates(context, tile, tuple(names)), *own]

    def _tile_coordinates(self, context: Context, tile: CExpr, names: tuple[str, ...]) -> list[CStmt]:
        if self.ordered:
            found = c.call("tile_coordinates", tile, *self.extents)
            cuda = context.target.language == "cuda"
            fields = AXES if cuda else self.variables
            pick = [
                Declare("int", name, c.member("at", field), const=True)
                for name, field in zip(names, fields, strict=len(fields) == len(names))
            ]
            type_name = f"int{len(names)}" if cuda else "TileCoordinates"
            return [Declare(type_name, "at", found, const=True), *pick]
        out: list[CStmt] = []
        divisor: CExpr = Literal(1)
        for position, (name, extent) in enumerate(zip(names, self.extents, strict=True)):
            value = tile if position == 0 else Operation("/", tile, divisor)
            if position < len(names) - 1:
                value = c.mod(value, extent)
            out.append(Declare("int", name, value, const=True))
            divisor = extent if position == 0 else c.operation("*", divisor, extent)
        return out


def bind_coordinates(body: list[CStmt]) -> list[CStmt]:
    """`const auto [bx, by] = tile_coordinates(…);` where all coordinates are used. A lambda has copies of those that it
    uses: before C++20 it cannot refer to structured bindings."""
    bound: dict[str, None] = {}

    def bind(block: tuple[CStmt, ...]) -> tuple[CStmt, ...]:
        for position, statement in enumerate(block):
            match statement:
                case Declare(value=CallC(Name("tile_coordinates"), (_, *extents)) as found):
                    picked = _picked(block[position + 1 :])
                    if len(picked) == len(extents):
                        bound.update(dict.fromkeys(picked))
                        binding = Declare("auto", "", found, const=True, structured=picked)
                        return (*block[:position], binding, *block[position + 1 + len(picked) :])
                case _:
                    pass
        return block

    def copy(block: tuple[CStmt, ...]) -> tuple[CStmt, ...]:
        return tuple(_with_copies(statement, bound) for statement in block)

    body = rewritten_blocks(body, bind)
    return rewritten_blocks(body, copy) if bound else body


def _with_copies(statement: CStmt, bound: Mapping[str, None]) -> CStmt:
    """The statement; of a lambda, with copies of those of the names that its body mentions."""
    match statement:
        case Declare(value=Lambda(body=inner) as function):
            copies = tuple(name for name in mentioned(inner) if name in bound)
            return replace(statement, value=replace(function, copies=copies))
        case _:
            return statement


def _picked(following: tuple[CStmt, ...]) -> tuple[str, ...]:
    """The names that the next declarations give to coordinates."""
    names: list[str] = []
    for statement in following:
        match statement:
            case Declare(name=name, value=Member(Name("at"), _)):
                names.append(name)
            case _:
                break
    return tuple(names)


def tile_loop(context: Context, kernel: Kernel) -> TileLoop:
    """How this kernel walks its grid; declares what is common to all roles in the context's prologue."""
    plan = context.plan
    if plan.cluster_size > 1:
        context.primitive("cluster_rank")
        rank = c.call("cluster_rank")
        context.prologue.append(
            Declare("int", "rank", rank, const=True, comment="of this block in its cluster")
        )
    sections = plan.longest_first is not None
    ordered = sections or (len(kernel.grid) == 2 and plan.rasterisation is not None)
    names = [context.name(var.name) for var in kernel.block_vars]
    for var, name in zip(kernel.block_vars, names, strict=True):
        context.environment[var.name] = Name(name)
    size, axis = plan.cluster_size, cluster_axis(plan.cluster)
    longest = context.target.limits.grid
    numbered = size == 1 and any(
        isinstance(extent, Const) and extent.value > limit
        for extent, limit in zip(kernel.grid[1:], longest[1:], strict=False)
    )
    loop = TileLoop(plan.persistent, ordered, (), tuple(names), size, axis, numbered)
    if loop.flat:
        blocks = _extents(context, kernel, names)
        extents = list(blocks)
        if size > 1:
            number = cluster_constant(context)
            whole = c.operation("-", c.operation("+", extents[axis], number), 1)
            clusters = context.name(f"{names[axis]}_clusters")
            context.prologue.append(Declare("int", clusters, c.operation("/", whole, number), const=True))
            extents[axis] = Name(clusters)
        loop = replace(loop, extents=tuple(extents), blocks=blocks)
    if sections:
        _sections(context, names)
    elif ordered:
        _panels(context, names)
    if not plan.persistent:
        if loop.flat:
            first = c.expr("blockIdx.x")
            if size > 1:
                first = c.operation("/", first, cluster_constant(context))
            context.prologue += loop.coordinates(context, first)
        else:
            for name, direction in zip(names, AXES, strict=False):
                context.prologue.append(Declare("int", name, c.expr(f"blockIdx.{direction}"), const=True))
    return loop


def cluster_constant(context: Context) -> Name:
    return context.constant("kCluster", context.plan.cluster_size, "blocks that share loads")


def reuses_tiles(context: Context) -> bool:
    """Whether a block computes several tiles, so that what it loads once a tile is loaded again and again."""
    body = context.program.kernel.body
    return context.plan.persistent or any(isinstance(s, Persistent) for s in each_statement(body))


def persistent_tiles(context: Context, loop: Persistent) -> TileLoop:
    """The walk of an explicit `T.Persistent`: the launch's blocks take the tiles in turn."""
    names = [var.name for var in loop.vars]
    for name in names:
        context.environment[name] = Name(name)
        context.ranges[name] = (0, None)
    ordered = len(names) == 2 and context.plan.rasterisation is not None
    if ordered:
        _panels(context, names)
    return TileLoop(True, ordered, tuple(scalar(context, extent) for extent in loop.extents), tuple(names))


def lower_persistent(context: Context, loop: Persistent) -> list[CStmt]:
    """An explicit persistent loop in a kernel whose threads all do the same."""
    tiles = persistent_tiles(context, loop)
    return tiles.wrap(context, lower_statements(context, loop.body))


def _panels(context: Context, names: list[str]) -> None:
    """The helper that walks tiles in panels."""
    rasterisation = context.plan.rasterisation
    assert rasterisation is not None
    context.constant("kRasterGroup", rasterisation.panel, _panel_comment(rasterisation.order))
    context.helper("raster_tiles", first=names[0], second=names[1], order=rasterisation.order)


def _sections(context: Context, names: list[str]) -> None:
    """The helper that starts long tiles first."""
    order = context.plan.longest_first
    assert order is not None
    context.constant("kSection", order.section, "blocks of the outer axes that run side by side")
    inner = [f"{names[0]}_tiles - 1 - local / width" if order.rising else "local / width"]
    divisor = ""
    for position, name in enumerate(names[1:]):
        value = "other" + (f" / {divisor}" if divisor else "")
        inner.append(value if position == len(names) - 2 else f"{value} % {name}_tiles")
        divisor = f"{name}_tiles" if not divisor else f"({divisor} * {name}_tiles)"
    outer = " * ".join(f"{name}_tiles" for name in names[1:])
    context.helper("section_tiles", names=tuple(names), outer=outer, fields=tuple(inner))


def _panel_comment(order: str) -> str:
    what = ("rows", "B") if order == "row" else ("columns", "A")
    return f"tile {what[0]} walked together, so that what they share stays in L2"


def _extents(context: Context, kernel: Kernel, names: list[str]) -> tuple[CExpr, ...]:
    """The grid's extents under a name each."""
    return tuple(grid_extent(context, kernel, axis, name) for axis, name in enumerate(names))


def grid_extent(context: Context, kernel: Kernel, axis: int, name: str) -> CExpr:
    """The name of an extent of the grid, along which the block's index is `name`: a constant, an argument, or what is
    computed from arguments in the kernel's first lines."""
    extent = kernel.grid[axis]
    if isinstance(extent, Const):
        return grid_constant(context, kernel, axis, name)
    if isinstance(extent, Var) and extent.dtype.kind != "uint":  # blocks are counted in int
        return scalar(context, extent)
    value = scalar(context, extent)
    for known in context.prologue:
        if isinstance(known, Declare) and known.value == value and known.const:
            return Name(known.name)
    wanted = context.name(f"{name}_tiles")
    context.prologue.append(Declare("int", wanted, value, const=True))
    return Name(wanted)


def grid_constant(context: Context, kernel: Kernel, axis: int, name: str) -> CExpr:
    """The name of a constant extent of the grid, along which the block's index is `name`."""
    extent = kernel.grid[axis]
    assert isinstance(extent, Const)
    if extent.name:
        return context.literal(extent)
    texts = _grid_texts(kernel)
    comment = texts[axis] if axis < len(texts) else ""
    return context.constant(_tiles_constant(context, name, int(extent.value)), int(extent.value), comment)


def _tiles_constant(context: Context, name: str, value: int) -> str:
    """A name for the grid's constant extent along the axis of a block index, that no other number has."""
    base = f"kTiles{name[0].upper()}{name[1:].rstrip('_')}"
    wanted, count = base, 1
    while wanted in context.constants and context.constants[wanted].value != Literal(value):
        count += 1
        wanted = f"{base}{count}"
    return wanted


def _grid_texts(kernel: Kernel) -> list[str]:
    """The grid's extents as the user wrote them."""
    try:
        tree = ast.parse(kernel.location.text.rstrip().rstrip(":") + ": pass")
    except SyntaxError:
        return []
    statement = tree.body[0] if tree.body else None
    if not isinstance(statement, ast.With) or not isinstance(statement.items[0].context_expr, ast.Call):
        return []
    return [ast.unparse(argument) for argument in statement.items[0].context_expr.args]
