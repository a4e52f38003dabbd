"""Element types that a target's language has no C++ type for are errors at the line that speaks of them."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.diagnostics import ProgramError
from tilegen.ir.effects import expressions_of
from tilegen.ir.nodes import Program
from tilegen.ir.types import DType
from tilegen.ir.walk import each_node, each_statement
from tilegen.location import Location
from tilegen.model.dialect import dialect_of
from tilegen.target import Target, load_target, target_names


def check_types(program: Program, target: Target) -> None:
    """Checks every tensor, tile and scalar.

    Raises:
        ProgramError: at the first that has a type without a C++ type.
    """
    known = dialect_of(target.language).types
    for dtype, location in _types(program):
        if dtype.name not in known:
            raise ProgramError(
                location, f"{dtype} has no C++ type on {target.name}", remedy=_remedy(dtype, target)
            )


def _types(program: Program) -> Iterator[tuple[DType, Location]]:
    for buffer in (*program.tensors, *program.kernel.allocations):
        yield buffer.dtype, buffer.location
    for var in program.scalars:
        yield var.dtype, var.location
    for statement in each_statement(program.kernel.body):
        for node in each_node(expressions_of(statement)):
            dtype = getattr(node, "dtype", None)
            if isinstance(dtype, DType):
                yield dtype, statement.location


def _remedy(dtype: DType, target: Target) -> str:
    if dtype.bits < 8:
        return f"pack {dtype} values into T.int32 words, and take them out by shifts and masks"
    having = [name for name in target_names() if dtype.name in dialect_of(load_target(name).language).types]
    others = f"; {', '.join(having)} have it" if having else ""
    return f"convert the values to another type before the kernel, such as T.float16{others}"
