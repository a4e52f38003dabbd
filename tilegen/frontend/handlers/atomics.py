"""T.atomic_add, T.atomic_max, T.atomic_min."""

from __future__ import annotations

from typing import cast

from tilegen.frontend.calls import WordCall, handles
from tilegen.frontend.handlers.tiles import pair
from tilegen.frontend.stores import require_kernel
from tilegen.frontend.values import BufferSlice
from tilegen.ir import build
from tilegen.ir.expressions import Load
from tilegen.ir.nodes import AtomicElement, AtomicOp, AtomicTile, Buffer


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
        call.fail("dst", "a single value updates a single element", "index every axis of the target")
    converted = build.cast(call.scalar("value"), target.buffer.dtype, call.location)
    context.emit(AtomicElement(op, target.buffer, target.indices, converted, call.location))
