"""The launch: grid formula, block, shared memory, registers, and how the header says them."""

from __future__ import annotations

from tilegen.lower.context import Context
from tilegen.lower.scalar import extent_expression
from tilegen.lower.storage import total_bytes
from tilegen.lower.tiles import TileLoop
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.kernel import Launch, SharedMember
from tilegen.schedule.clusters import cluster_axis


def launch_of(context: Context, tiles: TileLoop, members: list[SharedMember]) -> Launch:
    """The launch of the kernel; the grid is a formula over extents and `multiprocessors`."""
    plan, kernel = context.plan, context.program.kernel
    extents = [extent_expression(context, extent, named=False) for extent in kernel.grid]
    one: CExpr = Literal(1)
    size = plan.cluster_size
    if size > 1:
        axis = cluster_axis(plan.cluster)
        extents[axis] = c.mul(c.div(c.add(extents[axis], size - 1), size), size)
    cluster = plan.cluster
    if tiles.repeats or tiles.ordered:
        count = extents[0]
        for extent in extents[1:]:
            count = c.mul(count, extent)
        names = [var.name for var in kernel.block_vars]
        text = f"tiles of {' x '.join(reversed(names))}"
        if tiles.repeats:
            resident = c.mul(plan.blocks_per_multiprocessor, Name("multiprocessors"))
            if size > 1:
                resident = c.mul(size, c.div(resident, size))
            count, text = (
                c.call("min", count, resident),
                f"min(tiles, multiprocessors), {text}   (persistent)",
            )
        grid = (count, one, one)
        cluster = (size, 1, 1)
    else:
        padded = [*extents, one, one][:3]
        grid = (padded[0], padded[1], padded[2])
        text = " x ".join(var.name for var in kernel.block_vars)
    return Launch(
        grid=grid,
        grid_text=text,
        block=plan.threads,
        block_text=_block_text(context),
        cluster=cluster,
        shared_bytes=total_bytes(members) if members else 0,
        registers_text=_registers_text(context),
        min_blocks=plan.blocks_per_multiprocessor,
        uses_multiprocessors=tiles.repeats,
    )


def _block_text(context: Context) -> str:
    plan = context.plan
    if plan.kind == "warp_specialised":
        plural = "" if plan.consumers == 1 else "s"
        return f"{plan.threads} threads = 1 producer warpgroup + {plan.consumers} consumer warpgroup{plural}"
    warps = plan.threads // context.target.limits.warp_size
    return f"{plan.threads} threads = {warps} {'waves' if context.target.language == 'hip' else 'warps'}"


def _registers_text(context: Context) -> str:
    registers = context.plan.registers
    if registers is None:
        return ""
    return f"{registers.entry} at entry, then {registers.producer} (producer) and {registers.consumer} (consumer)"
