"""The launch: grid formula, block, shared memory, registers, and how the header says them."""

from __future__ import annotations

from tilegen.diagnostics import ProgramError
from tilegen.ir.affine import Linear, from_linear, linear
from tilegen.ir.build import ceildiv, const
from tilegen.ir.expressions import Binary, Const, Expr
from tilegen.ir.printer import expression_text
from tilegen.lower.kernel.storage import total_bytes
from tilegen.lower.pipelines.tiles import TileLoop, cluster_constant, grid_constant
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.scalar import extent_expression
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.kernel import Launch, SharedMember
from tilegen.model.walk import names
from tilegen.schedule.clusters import cluster_axis


def launch_of(context: Context, tiles: TileLoop, members: list[SharedMember]) -> Launch:
    """The launch of the kernel; the grid is a formula over extents and `multiprocessors` or `clusters`."""
    plan, limits = context.plan, context.target.limits
    shared = total_bytes(members) if members else 0
    return Launch(
        grid=_grid(context, tiles),
        grid_text=_grid_text(context, tiles),
        grid_limits=limits.grid,
        grid_threads=limits.grid_threads,
        block=plan.threads,
        block_text=_block_text(context),
        cluster=(plan.cluster_size, 1, 1) if tiles.flat else plan.cluster,
        shared_bytes=shared,
        asks_for_shared=shared > limits.static_shared_bytes,
        registers_text=_registers_text(context),
        bound=_bound(context),
        uses_multiprocessors=tiles.repeats,
        counts_clusters=tiles.repeats and not _reach_all(context),
    )


def _bound(context: Context) -> int:
    """The second number of __launch_bounds__: blocks a multiprocessor on CUDA, waves a SIMD on HIP, whose compiler
    looks for the occupancy itself where the program does not say."""
    plan, limits = context.plan, context.target.limits
    if context.target.language == "cuda":
        return plan.blocks_per_multiprocessor
    if context.program.kernel.min_blocks is None:
        return 1
    waves = plan.blocks_per_multiprocessor * plan.threads // limits.warp_size
    return -(-waves // limits.schedulers_per_multiprocessor)


def _reach_all(context: Context) -> bool:
    """Whether the kernel's clusters fill every multiprocessor; how many of others run at once, the device alone
    knows."""
    return context.plan.cluster_size <= context.target.limits.cluster_reach


def _grid(context: Context, tiles: TileLoop) -> tuple[CExpr, CExpr, CExpr]:
    """The blocks along each axis."""
    plan, kernel = context.plan, context.program.kernel
    extents = [_extent(context, tiles, axis) for axis in range(len(kernel.grid))]
    one: CExpr = Literal(1)
    if plan.cluster_size > 1:
        axis, blocks = cluster_axis(plan.cluster), cluster_constant(context)
        whole = c.operation("-", c.operation("+", extents[axis], blocks), 1)
        extents[axis] = c.operation("*", c.operation("/", whole, blocks), blocks)
    if not tiles.flat:
        padded = [*extents, one, one][:3]
        return padded[0], padded[1], padded[2]
    count = extents[0]
    for extent in extents[1:]:
        count = c.operation("*", count, extent)
    return (c.call("min", count, _resident(context)) if tiles.repeats else count), one, one


def _resident(context: Context) -> CExpr:
    """The blocks that run at once, in whole clusters."""
    plan = context.plan
    if not _reach_all(context):
        return c.operation("*", Name("clusters"), cluster_constant(context))
    resident = c.mul(plan.blocks_per_multiprocessor, Name("multiprocessors"))
    if plan.cluster_size == 1:
        return resident
    blocks = cluster_constant(context)
    # One cluster at least: a slice of a device may have fewer multiprocessors.
    return c.operation("*", c.call("max", c.operation("/", resident, blocks), Literal(1)), blocks)


def _extent(context: Context, tiles: TileLoop, axis: int) -> CExpr:
    """An extent of the grid, under its name where it is a constant."""
    kernel = context.program.kernel
    extent = kernel.grid[axis]
    if not isinstance(extent, Const) or (extent == const(1) and not tiles.flat):
        computed = isinstance(extent, Const) and extent.parts is not None
        return Literal(1) if computed else _counted(context, extent)
    if tiles.flat:
        return tiles.blocks[axis]
    return grid_constant(context, kernel, axis, kernel.block_vars[axis].name)


def _counted(context: Context, extent: Expr) -> CExpr:
    """An extent that is counted at the launch: there, quotients are those of what is never negative.

    Raises:
        ProgramError: for a quotient of what may be negative.
    """
    counted = extent_expression(context, extent)
    if {"floor_div", "floor_mod"} & set(names(counted)):
        raise ProgramError(
            context.program.kernel.location,
            f"the grid's extent {expression_text(extent)} divides what may be negative",
            remedy="bound what is divided, such as T.max(M - 8, 0)",
        )
    return counted


def _grid_text(context: Context, tiles: TileLoop) -> str:
    """`ceil(N / 128) x ceil(M / 128)`, and how blocks take tiles where the grid is their number."""
    plan, kernel = context.plan, context.program.kernel
    extents = [_extent_text(extent) for extent in kernel.grid]
    size = plan.cluster_size
    if size > 1:
        axis = cluster_axis(plan.cluster)
        extents[axis] = f"{size} * {_extent_text(ceildiv(kernel.grid[axis], const(size)))}"
    if not tiles.flat:
        return " x ".join(extents)
    count = " * ".join(reversed(extents))
    if not tiles.repeats:
        order = (
            "sections of neighbouring blocks, the longest first" if plan.longest_first else "one tile a block"
        )
        return f"{count}, {order}"
    resident = plan.blocks_per_multiprocessor
    blocks = "multiprocessors" if resident == 1 else f"{resident} * multiprocessors"
    if not _reach_all(context):
        blocks = "those that run at once"
    whole = f" in clusters of {size}" if size > 1 else ""
    order = ", the longest tiles first" if plan.draws_tiles else ""
    return f"min(tiles, {blocks}){whole}, tiles = {count}   (persistent{order})"


def _extent_text(extent: Expr) -> str:
    """An extent of the grid; `ceil(M / 128)` for a quotient that is rounded up."""
    rounded = _rounded_up(extent)
    if rounded is not None:
        return f"ceil({expression_text(rounded[0])} / {rounded[1]})"
    text = expression_text(extent)
    return f"({text})" if isinstance(extent, Binary) and extent.op not in ("min", "max") else text


def _rounded_up(quotient: Expr) -> tuple[Expr, int] | None:
    """x and n of ceil(x / n); None for another expression."""
    if not (isinstance(quotient, Binary) and quotient.op == "//" and isinstance(quotient.right, Const)):
        return None
    divisor, form = int(quotient.right.value), linear(quotient.left)
    if form.constant != divisor - 1:
        return None
    dividend = from_linear(Linear(form.terms, 0), quotient.left)
    inner = _rounded_up(dividend)  # ceil(ceil(x / m) / n) is ceil(x / (m n))
    return (dividend, divisor) if inner is None else (inner[0], inner[1] * divisor)


def _block_text(context: Context) -> str:
    plan = context.plan
    resident = plan.blocks_per_multiprocessor
    room = f"; compiled for {resident} a multiprocessor" if resident > 1 else ""
    if plan.kind == "warp_specialised":
        consumers = f"{plan.consumers} consumer warpgroup{'' if plan.consumers == 1 else 's'}"
        return f"{plan.threads} threads = 1 producer warpgroup + {consumers}{room}"
    warps = plan.threads // context.target.limits.warp_size
    name = "waves" if context.target.language == "hip" else "warps"
    return f"{plan.threads} threads = {warps} {name}{room}"


def _registers_text(context: Context) -> str:
    registers = context.plan.registers
    if registers is None:
        return ""
    return f"{registers.entry} at entry, then {registers.producer} (producer) and {registers.consumer} (consumer)"
