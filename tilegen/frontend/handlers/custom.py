"""Calls of operations that a user registered."""

from __future__ import annotations

from tilegen.frontend.calls import CUSTOM, WordCall, handles
from tilegen.frontend.handlers.tiles import tile
from tilegen.frontend.stores import require_kernel
from tilegen.frontend.values import holds_tile_value
from tilegen.ir.expressions import Expr
from tilegen.ir.nodes import CustomOperation, Region
from tilegen.language.custom import CustomWord


@handles(CUSTOM)
def _custom_operation(call: WordCall) -> None:
    """Adds the operation to the kernel; tiles are given as buffers or slices.

    Raises:
        ProgramError: outside the kernel, and for attributes that only the kernel knows.
    """
    word = call.function
    assert isinstance(word, CustomWord)
    require_kernel(call.context, call.location, call.node, word.name)
    reads: list[Region] = []
    writes: list[Region] = []
    scalars: list[Expr] = []
    attributes: list[tuple[str, object]] = []
    for name, use in word.uses.items():
        match use:
            case "read" | "write" | "update":
                region = tile(call, name)
                if use != "write":
                    reads.append(region)
                if use != "read":
                    writes.append(region)
            case "scalar":
                scalars.append(call.scalar(name))
            case "attribute":
                if holds_tile_value(call.arguments[name]):
                    call.fail(
                        name, f"{name} of {word.name} is fixed at generation time", "pass a Python value"
                    )
                attributes.append((name, call.arguments[name]))
    call.context.emit(
        CustomOperation(
            word.name, tuple(reads), tuple(writes), tuple(scalars), tuple(attributes), call.location
        )
    )
