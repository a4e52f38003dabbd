"""T.sum_blocks."""

from __future__ import annotations

from typing import Any

from tilegen.frontend.calls import WordCall, handles
from tilegen.frontend.context import KernelState
from tilegen.frontend.stores import require_kernel
from tilegen.ir import build
from tilegen.ir.expressions import Var
from tilegen.ir.nodes import AddParts, Buffer, LeaveParts, Region
from tilegen.ir.types import bool_
from tilegen.ir.walk import each_statement


@handles("sum_blocks")
def _sum_blocks(call: WordCall) -> None:
    context = call.context
    require_kernel(context, call.location, call.node, "T.sum_blocks")
    assert context.kernel is not None
    if len(context.blocks) > 1:
        context.fail(
            call.node,
            "T.sum_blocks ends all blocks but one, and stands in a loop or a branch",
            "put it behind the loop or branch, at the level of the kernel's body",
        )
    earlier = [s for s in each_statement(tuple(context.blocks[-1])) if isinstance(s, LeaveParts)]
    if earlier:
        context.fail(
            call.node,
            "only one block of several is left here, and T.sum_blocks would add up again",
            "add up all fragments at once: T.sum_blocks([C_local, D_local], axis)",
            [(earlier[0].location, "the first T.sum_blocks stands here")],
        )
    axis = _axis(call, context.kernel)
    regions = tuple(_whole(call, value) for value in _fragments(call))
    last = Var(context.names.unique("last"), bool_, "last", call.location)
    context.emit(LeaveParts(regions, axis, last, call.location))
    for region in regions:
        context.emit(AddParts(region, axis, call.location))


def _axis(call: WordCall, kernel: KernelState) -> Var:
    """The block variable that `axis` names."""
    axis = call.arguments["axis"]
    if isinstance(axis, Var) and axis in kernel.block_vars:
        return axis
    names = ", ".join(var.name for var in kernel.block_vars)
    call.fail("axis", "axis of T.sum_blocks is one of the kernel's block variables", f"pass one of {names}")


def _fragments(call: WordCall) -> tuple[Any, ...]:
    value = call.arguments["fragments"]
    found = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not found or len(set(map(id, found))) < len(found):
        call.fail(
            "fragments",
            "T.sum_blocks adds up different fragments, at least one of them",
            "name each accumulator once",
        )
    return found


def _whole(call: WordCall, value: object) -> Region:
    """A fragment as a region.

    Raises:
        ProgramError: for anything else, and for fragments whose elements have no sum.
    """
    if not isinstance(value, Buffer) or value.scope != "fragment":
        shown = (
            f"{value.name} lies in {value.scope} memory" if isinstance(value, Buffer) else f"not {value!r}"
        )
        call.fail(
            "fragments",
            f"T.sum_blocks adds up whole fragments; {shown}",
            "pass what T.alloc_fragment made, such as a gemm's accumulators",
        )
    if value.dtype.bits < 8 or value.dtype == bool_:
        call.fail(
            "fragments",
            f"T.sum_blocks adds up numbers; {value.name} holds {value.dtype.name}",
            "cast it to a fragment of integers first",
        )
    if value.dtype.kind == "float" and value.dtype.bits < 16:
        call.fail(
            "fragments",
            f"T.sum_blocks adds up floats of 16 bits or more; {value.name} holds {value.dtype.name}",
            "copy it to a T.float32 fragment and add up that",
        )
    zeros = tuple(build.const(0) for _ in value.shape)
    return Region(value, zeros, value.extents, location=call.location)
