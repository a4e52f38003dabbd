"""The kernel's parameters, the launcher's arguments and the contract between them."""

from __future__ import annotations

from tilegen.ir.nodes import Buffer
from tilegen.lower.context import Context
from tilegen.lower.contract import VECTOR_BYTES, row_divisors
from tilegen.lower.scalar import extent_expression
from tilegen.model import build as c
from tilegen.model.expressions import Name
from tilegen.model.kernel import (
    Parameter,
    PointerParameter,
    Requirement,
    ScalarParameter,
    TensorArgument,
)
from tilegen.model.statements import CStmt
from tilegen.model.walk import names
from tilegen.schedule.analysis import each_statement, reads, writes


def parameters_of(context: Context, body: list[CStmt]) -> tuple[Parameter, ...]:
    """Tensors in the launcher's order (maps before a pointer to the same tensor), then the scalars in use."""
    mentioned = dict.fromkeys([*names(body), *names(tuple(m.value for m in context.constants.values()))])
    parameters: list[Parameter] = []
    kernel = context.program.kernel
    written = {b.name for s in kernel.body for b in writes(s)}
    read = {b.name for s in kernel.body for b in reads(s)}
    for tensor in context.program.tensors:
        maps = [tensor_map for tensor_map in context.maps.values() if tensor_map.tensor == tensor.name]
        parameters += maps
        if tensor.name in mentioned and tensor.name not in context.maps:
            parameters.append(
                PointerParameter(
                    tensor.name,
                    tensor.name,
                    tensor.dtype,
                    tensor.name in written,
                    tensor.name in read or tensor.name not in written,
                )
            )
    for var in (*context.program.extents, *context.program.scalars):
        if var.name in mentioned:
            parameters.append(ScalarParameter(var.name, var.dtype, Name(var.name)))
    return tuple(parameters)


def tensor_arguments(context: Context) -> tuple[TensorArgument, ...]:
    """The launcher's tensors; outputs that only atomics write are set to 0 first."""
    arguments = []
    for tensor in context.program.tensors:
        strides = None
        if tensor.strides is not None:
            strides = tuple(extent_expression(context, stride, named=False) for stride in tensor.strides)
        arguments.append(
            TensorArgument(
                tensor.name,
                tensor.dtype,
                tuple(extent_expression(context, extent, named=False) for extent in tensor.shape),
                strides,
                "inout"
                if tensor.role in ("inout", "none") and not _read_only(context, tensor)
                else tensor.role
                if tensor.role != "none"
                else "input",
                VECTOR_BYTES,
                zeroed=_accumulated(context, tensor),
            )
        )
    return tuple(arguments)


def _read_only(context: Context, tensor: Buffer) -> bool:
    return not any(tensor in writes(statement) for statement in context.program.kernel.body)


def _accumulated(context: Context, tensor: Buffer) -> bool:
    """Whether an output is only ever added to by atomics."""
    from tilegen.ir.nodes import AtomicElement, AtomicTile, If

    if tensor.role != "output":
        return False
    writers = [
        s
        for s in each_statement(context.program.kernel.body)
        if not hasattr(s, "body") and not isinstance(s, If) and tensor in writes(s)
    ]
    return bool(writers) and all(isinstance(s, AtomicElement | AtomicTile) for s in writers)


def requirements_of(context: Context) -> tuple[Requirement, ...]:
    """What the text assumes of dynamic extents."""
    assumed = row_divisors(context.program)
    wide = {**context.vectorised, **{entry.tensor: None for entry in context.maps.values()}}
    rows = [tensor.shape[-1] for tensor in context.program.tensors if tensor.name in wide]
    requirements = []
    for var in context.program.extents:
        multiple = assumed.get(var.name, 1) if var in rows else 1
        if multiple > 1 and context.decisions.divisors.get(var.name, 1) % multiple == 0:
            condition = c.operation("==", c.mod(var.name, multiple), 0)
            requirements.append(Requirement(condition, f"{var.name} % {multiple} == 0"))
    return tuple(requirements)
