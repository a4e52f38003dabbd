"""Which accesses stay inside their tensor for sure, and the conditions that the others need."""

from __future__ import annotations

from typing import assert_never

from tilegen.inference.fragment import Fragment
from tilegen.inference.loops import Loop
from tilegen.ir import build
from tilegen.ir.affine import interval, is_always_true, linear
from tilegen.ir.expressions import Binary, Expr, Load
from tilegen.ir.nodes import AtomicTile, Copy, Fill, ParallelFor, Region
from tilegen.ir.walk import subexpressions
from tilegen.lower.vocabulary.context import Context
from tilegen.schedule.ranges import integer_ranges

Ranges = dict[str, tuple[int | None, int | None]]


def kernel_ranges(context: Context) -> Ranges:
    """Inclusive bounds of every variable of the kernel that runs over a known range."""
    return {**integer_ranges(context.program), **context.ranges}


def loop_ranges(context: Context, loop: Loop) -> Ranges:
    """`kernel_ranges` and those of the loop's own variables inside its tile."""
    known = kernel_ranges(context)
    known.update({name: (0, extent - 1) for name, extent in zip(loop.names, loop.extents, strict=True)})
    return known


def padding_conditions(loop: Loop, partition: Fragment) -> list[Expr]:
    """What keeps iterations inside the loop's box, where the threads do not divide it evenly."""
    return [
        build.binary("<", var, _named(loop, axis))
        for axis, (var, extent, padded) in enumerate(
            zip(loop.vars, loop.extents, partition.padded, strict=True)
        )
        if padded > extent
    ]


def _named(loop: Loop, axis: int) -> Expr:
    """The loop's extent along an axis, under the program's name where it has one."""
    match loop.node:
        case ParallelFor(extents=extents):
            return extents[axis]
        case Copy(source, target) | AtomicTile(_, source, target):
            regions: tuple[Region, ...] = (target, source)
        case Fill(target):
            regions = (target,)
        case _:
            assert_never(loop.node)
    extent = build.const(loop.extents[axis])
    shapes = (region.buffer.shape[region.kept[axis]] for region in regions)
    return next((known for known in shapes if known == extent), extent)


def inside_grid(context: Context, index: Expr, extent: Expr, known: Ranges) -> bool:
    """Whether an index is a block's coordinate along an axis of the grid of just this extent, or its share:
    h // (H // n) is below n where H is the axis's extent and a multiple of n. (Clusters may reach beyond the grid.)"""
    kernel = context.program.kernel
    if context.plan.cluster_size > 1:
        return False
    sum_of = linear(index)
    terms = {atom: factor for atom, factor in sum_of.terms.items() if interval(atom, known) != (0, 0)}
    if sum_of.constant or list(terms.values()) != [1]:
        return False
    (atom,) = terms
    for var, size in zip(kernel.block_vars, kernel.grid, strict=False):
        if atom == var and extent == size:
            return True
        share = build.floordiv(var, build.floordiv(size, extent))
        if atom == share and _assumed(
            context, build.binary("==", build.binary("%", size, extent), build.const(0))
        ):
            return True
    return False


def _assumed(context: Context, condition: Expr) -> bool:
    """Whether the program states the condition, alone or among others."""

    def states(assumed: Expr) -> bool:
        match assumed:
            case Binary("and", left, right):
                return states(left) or states(right)
            case _:
                return assumed == condition

    return any(states(assumption.condition) for assumption in context.program.assumptions)


def is_data(index: Expr) -> bool:
    """Whether an index comes from memory."""
    return any(isinstance(part, Load) for part in subexpressions(index))


def tensor_conditions(
    context: Context, indices: tuple[Expr, ...], shape: tuple[Expr, ...], known: Ranges
) -> list[Expr]:
    """What keeps an access inside a tensor, as far as ranges and the grid do not prove it. Indices that are data are
    taken as they are: only the program can know what they may be."""
    conditions = []
    for index, extent in zip(indices, shape, strict=True):
        if inside_grid(context, index, extent, known) or is_data(index):
            continue
        above = build.binary(">=", index, build.const(0))
        below = build.binary("<", index, extent)
        conditions += [condition for condition in (above, below) if not is_always_true(condition, known)]
    return conditions
