"""Which tile of the grid a block computes: one each, or one after another in a persistent kernel."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Kernel, Stmt
from tilegen.lower.context import Context
from tilegen.lower.scalar import scalar
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, Operation
from tilegen.model.statements import CStmt, Declare, ForC

AXES = ("x", "y", "z")


@dataclass(frozen=True, slots=True)
class TileLoop:
    """The walk over the grid. `repeats` when a block computes several tiles."""

    repeats: bool
    ordered: bool  # tiles are numbered and walked in panels
    extents: tuple[CExpr, ...]
    variables: tuple[str, ...]

    def body(self, kernel: Kernel) -> tuple[Stmt, ...]:
        """The statements of one tile."""
        return kernel.body

    @property
    def count(self) -> CExpr:
        total = self.extents[0]
        for extent in self.extents[1:]:
            total = c.operation("*", total, extent)
        return total

    def wrap(self, context: Context, body: list[CStmt]) -> list[CStmt]:
        """The body inside the loop over this block's tiles."""
        if not self.repeats:
            return body
        head = self.coordinates(context, Name("tile"))
        return [
            ForC(
                "tile",
                c.expr("blockIdx.x"),
                self.count,
                (*head, *body),
                step=c.expr("gridDim.x"),
            )
        ]

    def coordinates(self, context: Context, tile: CExpr) -> list[CStmt]:
        """Declares the block's coordinates for a tile number."""
        if self.ordered:
            first, second = self.variables
            return [
                Declare(
                    "auto",
                    "",
                    c.call("tile_coordinates", tile, *self.extents),
                    const=True,
                    structured=(first, second),
                )
            ]
        out: list[CStmt] = []
        divisor: CExpr = Literal(1)
        for position, (name, extent) in enumerate(zip(self.variables, self.extents, strict=True)):
            value = tile if position == 0 else Operation("/", tile, divisor)
            if position < len(self.variables) - 1:
                value = c.mod(value, extent)
            out.append(Declare("int", name, value, const=True))
            divisor = extent if position == 0 else c.operation("*", divisor, extent)
        return out


def tile_loop(context: Context, kernel: Kernel) -> TileLoop:
    """How this kernel walks its grid; declares what is common to all roles in the context's prologue."""
    plan = context.plan
    ordered = len(kernel.grid) == 2 and plan.rasterisation is not None
    names = [context.name(var.name) for var in kernel.block_vars]
    for var, name in zip(kernel.block_vars, names, strict=True):
        context.environment[var.name] = Name(name)
    loop = TileLoop(plan.persistent, ordered, (), tuple(names))
    if plan.persistent or ordered:
        loop = TileLoop(plan.persistent, ordered, _extents(context, kernel, names), tuple(names))
    if ordered:
        assert plan.rasterisation is not None
        context.constant("kRasterGroup", plan.rasterisation.panel, _panel_comment(plan.rasterisation.order))
        context.helper(
            "raster_tiles",
            first=names[0],
            second=names[1],
            order=plan.rasterisation.order,
        )
    if not plan.persistent:
        if ordered:
            context.prologue += loop.coordinates(context, c.expr("blockIdx.x"))
        else:
            for name, axis in zip(names, AXES, strict=False):
                context.prologue.append(Declare("int", name, c.expr(f"blockIdx.{axis}"), const=True))
    return loop


def _panel_comment(order: str) -> str:
    what = ("rows", "B") if order == "row" else ("columns", "A")
    return f"tile {what[0]} walked together, so that what they share stays in L2"


def _extents(context: Context, kernel: Kernel, names: list[str]) -> tuple[CExpr, ...]:
    """The grid's extents under a name each."""
    texts = _grid_texts(kernel)
    extents: list[CExpr] = []
    for position, (extent, name) in enumerate(zip(kernel.grid, names, strict=True)):
        comment = texts[position] if position < len(texts) else ""
        if isinstance(extent, Const):
            wanted = "kTiles" + name[0].upper() + name[1:]
            extents.append(context.constant(wanted, int(extent.value), comment))
        else:
            wanted = context.name(f"{name}_tiles")
            context.prologue.append(Declare("int", wanted, scalar(context, extent), const=True))
            extents.append(Name(wanted))
    return tuple(extents)


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


