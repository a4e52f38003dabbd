"""T.atomic_add, T.atomic_max, T.atomic_min."""

from __future__ import annotations

from typing import cast

from tilegen.frontend.calls import WordCall, handles
from tilegen.frontend.handlers.tiles import pair, tile
from tilegen.frontend.stores import require_kernel
from tilegen.frontend.values import BufferSlice
from tilegen.ir import build
from tilegen.ir.expressions import Load, Var
from tilegen.ir.nodes import AtomicElement, AtomicOp, AtomicTile, Buffer, ParallelFor
from tilegen.ir.through_registers import element
from tilegen.ir.types import int32


@handles("atomic_add", "atomic_max", "atomic_min")
def _atomic(call: WordCall) -> None:
    context = call.context
    require_kernel(context, call.location, call.node, f"T.{call.word}")
    if call.arguments["memory_order"] not in (None, "relaxed"):
        call.fail(
            "memory_order",
            "atomics of the tile language are relaxed",
            "T.sync_threads orders a block's threads",
        )
    op = cast(AtomicOp, call.word.removeprefix("atomic_"))
    target, value = call.arguments["dst"], call.arguments["value"]
    if not isinstance(target, Load | Buffer | BufferSlice):
        call.fail("dst", f"T.{call.word} updates a buffer", "pass an element, C[i, j], or a tile")
    if isinstance(value, Buffer | BufferSlice):
        regions = pair(call, "dst", "value")
        assert regions is not None
        context.emit(AtomicTile(op, regions[1], regions[0], call.location))
        return
    if not isinstance(target, Load):
        _each_element(call, op)
        return
    converted = build.cast(call.scalar("value"), target.buffer.dtype, call.location)
    context.emit(AtomicElement(op, target.buffer, target.indices, converted, call.location))


def _each_element(call: WordCall, op: AtomicOp) -> None:
    """One value for every element of a tile: a parallel loop of its own."""
    context = call.context
    if context.parallel_depth:
        call.fail(
            "dst",
            "in T.Parallel a single value updates a single element",
            "index every axis of the target, or move the operation out of the loop",
        )
    region = tile(call, "dst")
    value = build.cast(call.scalar("value"), region.buffer.dtype, call.location)
    variables = tuple(
        Var(context.names.unique("ijkl"[axis % 4]), int32, "parallel", call.location)
        for axis in range(len(region.tile))
    )
    update = AtomicElement(op, region.buffer, element(region, variables), value, call.location)
    extents = tuple(build.const(extent) for extent in region.tile)
    context.emit(ParallelFor(variables, extents, (update,), call.location))
