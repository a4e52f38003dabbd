"""The kernel's parameters, the launcher's arguments and the contract between them."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.inference.vector_access import ACCESS_BYTES
from tilegen.ir.expressions import Var
from tilegen.ir.nodes import AtomicElement, AtomicTile, Buffer, CustomOperation, If
from tilegen.lower.kernel.contract import row_divisors
from tilegen.lower.kernel.extent_limits import extent_limits
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.scalar import extent_expression, row_pitch
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
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
from tilegen.schedule.ranges import counting_scalars
from tilegen.schedule.tile_copy import SPAN_LIMIT


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
    parameters += [PointerParameter(name, name, s.dtype, True) for name, s in context.scratch.items()]
    for var in (*context.program.extents, *context.program.scalars):
        if var.name in mentioned:
            parameters.append(ScalarParameter(var.name, var.dtype, Name(var.name)))
    return tuple(parameters)


def tensor_arguments(context: Context) -> tuple[TensorArgument, ...]:
    """The launcher's tensors, scratch memory last; outputs that only atomics write are set to 0 first."""
    assumed = {requirement.extent: requirement.text for requirement in _row_requirements(context)}
    arguments = []
    for tensor in context.program.tensors:
        strides = None
        if tensor.strides is not None:
            strides = tuple(extent_expression(context, stride, named=False) for stride in tensor.strides)
        last = tensor.shape[-1]
        arguments.append(
            TensorArgument(
                tensor.name,
                tensor.dtype,
                tuple(extent_expression(context, extent, named=False) for extent in tensor.shape),
                strides,
                _role(context, tensor),
                _alignment(context, tensor),
                zeroed=_accumulated(context, tensor),
                notes=(assumed[last.name],) if isinstance(last, Var) and last.name in assumed else (),
            )
        )
    return (*arguments, *context.scratch.values())


def _alignment(context: Context, tensor: Buffer) -> int:
    """Bytes that the tensor's address must be a multiple of: those of the widest access. What an operation of the
    user's own does with a tensor is not known."""
    mapped = any(entry.tensor == tensor.name for entry in context.maps.values())
    custom = any(
        isinstance(s, CustomOperation) and any(region.buffer == tensor for region in (*s.reads, *s.writes))
        for s in each_statement(context.program.kernel.body)
    )
    if mapped or custom:
        return ACCESS_BYTES
    return max(1, tensor.dtype.bits // 8, context.vectorised.get(tensor.name, 1))


def _role(context: Context, tensor: Buffer) -> str:
    """input, output or inout; a tensor of no stated role is an input unless the kernel writes it."""
    written = any(tensor in writes(statement) for statement in context.program.kernel.body)
    if tensor.role in ("inout", "none") and written:
        return "inout"
    return "input" if tensor.role == "none" else tensor.role


def _accumulated(context: Context, tensor: Buffer) -> bool:
    """Whether an output is only ever added to by atomics."""
    if tensor.role != "output":
        return False
    writers = [
        s
        for s in each_statement(context.program.kernel.body)
        if not hasattr(s, "body") and not isinstance(s, If) and tensor in writes(s)
    ]
    return bool(writers) and all(isinstance(s, AtomicElement | AtomicTile) for s in writers)


@dataclass(frozen=True, slots=True)
class _RowRequirement:
    """`extent`, the length of some tensors' rows, must be a multiple of `divisor`."""

    extent: str
    divisor: int

    @property
    def text(self) -> str:
        return f"{self.extent} % {self.divisor} == 0"


def _row_requirements(context: Context) -> list[_RowRequirement]:
    """What vector accesses assume of dynamic row lengths."""
    assumed = row_divisors(context.program)
    wide = {*context.vectorised, *(entry.tensor for entry in context.maps.values())}
    rows = [tensor.shape[-1] for tensor in context.program.tensors if tensor.name in wide]
    found = []
    for var in context.program.extents:
        multiple = assumed.get(var.name, 1) if var in rows else 1
        if multiple > 1 and context.decisions.divisors.get(var.name, 1) % multiple == 0:
            found.append(_RowRequirement(var.name, multiple))
    return found


def requirements_of(context: Context) -> tuple[Requirement, ...]:
    """What the text assumes of dynamic extents and of what counts blocks, and what the program says of them."""
    rows = tuple(
        Requirement(c.operation("==", c.mod(row.extent, row.divisor), 0), row.text)
        for row in _row_requirements(context)
    )
    program = context.program
    called = dict(zip(program.scalars, program.arguments, strict=True))
    counts = tuple(
        Requirement(c.operation(">=", Name(var.name), 0), f"{called[var]} >= 0")
        for var in counting_scalars(program)
        if var.dtype.kind == "int"
    )
    known = {requirement.text for requirement in (*rows, *counts)}
    stated = tuple(
        Requirement(extent_expression(context, assumption.condition, named=False), assumption.text)
        for assumption in program.assumptions
        if assumption.text not in known
    )
    others = (*rows, *counts, *stated, *_span_requirements(context))
    return (*others, *extent_limits(context, others))


def _span_requirements(context: Context) -> list[Requirement]:
    """Buffer windows reach less than 2 GiB; the schedule has seen to it where the distance of rows is known. Tensors of
    which the same is required share a line."""
    alike: dict[tuple[int, CExpr, int], list[str]] = {}
    for tensor in context.program.tensors:
        for (name, axis), rows in context.window_rows.items():
            pitch = row_pitch(context, tensor, axis, named=False) if name == tensor.name else Literal(0)
            if isinstance(pitch, Literal):
                continue
            most = (SPAN_LIMIT - 1) // (rows * tensor.dtype.bytes)
            alike.setdefault((rows, pitch, most), []).append(name)
    limit = f"{SPAN_LIMIT >> 30} GiB"
    return [
        Requirement(
            c.operation("<=", pitch, most),
            f"{f'{rows} rows' if rows > 1 else 'a row'} of {' or '.join(tensors)} "
            f"{'span' if rows > 1 else 'spans'} less than {limit}",
            f"a window of {limit} or more",
        )
        for (rows, pitch, most), tensors in alike.items()
    ]
