"""Launch arguments: tensors, scalars and dynamic extents, bound to what the caller gives."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import cast

from tilegen.diagnostics import ProgramError
from tilegen.errors import TilegenError
from tilegen.frontend.calls import dtype_argument
from tilegen.frontend.context import Context
from tilegen.frontend.extents import extent_expression, named_extent, resolve, symbolic_extent
from tilegen.frontend.values import ConstExtent, NamedInt, TensorDeclaration, is_number
from tilegen.ir import build
from tilegen.ir.expressions import Const, Expr, Var
from tilegen.ir.nodes import Buffer, Role
from tilegen.ir.types import DType
from tilegen.language.tensors import Extent, SymbolicExtent, TensorSpec, row_major_strides
from tilegen.location import Location


def declare_tensor(
    context: Context, name: str, declared: TensorDeclaration | TensorSpec, node: ast.stmt | ast.arg
) -> Buffer:
    """Declares a tensor argument from its annotation, checked against the spec that the caller gave.

    Raises:
        ProgramError: when the name is no argument, and where annotation and spec disagree.
    """
    location = context.location(node)
    if name not in context.argument_names:
        raise ProgramError(
            location,
            f"{name} is declared as a tensor, but is no parameter of the function",
            remedy=f"add {name} to the parameters, or create an output with {name} = T.empty(shape, dtype)",
        )
    if name in context.tensors:
        raise ProgramError(
            location,
            f"{name} is declared twice",
            remedy="leave one of the two out",
            related=[(context.tensors[name].location, "the first declaration")],
        )
    ir_name = context.names.unique(name)  # before the extents take names
    items, dtype, steps = _declared_parts(context, declared, node)
    spec = context.specs.get(name)
    if spec is not None:
        _check_spec(name, spec, len(items), dtype, location)
    given = spec.shape if spec is not None else (None,) * len(items)
    shape = tuple(
        _extent(context, name, axis, item, extent, location)
        for axis, (item, extent) in enumerate(zip(items, given, strict=True))
    )
    strides = _strides(context, name, steps, spec, location)
    role: Role = "output" if name in context.output_arguments else "input"
    buffer = Buffer(ir_name, shape, dtype, "global", role, strides, location)
    context.tensors[name] = buffer
    context.frames[0].scopes[0][name] = buffer
    return buffer


def _declared_parts(
    context: Context, declared: TensorDeclaration | TensorSpec, node: ast.stmt | ast.arg
) -> tuple[tuple[object, ...], DType, tuple[object, ...] | None]:
    if isinstance(declared, TensorSpec):
        strides = None if declared.strides is None else _symbolic(declared.strides)
        return _symbolic(declared.shape), declared.dtype, strides
    annotation = cast(ast.expr, getattr(node, "annotation", node))
    return declared.shape, dtype_argument(context, declared.dtype, annotation), declared.strides


def _symbolic(items: tuple[Extent, ...]) -> tuple[object, ...]:
    """The items of a spec, which Python built: expressions in them are over the user's own names."""
    return tuple(item if isinstance(item, int | str) else SymbolicExtent(item) for item in items)


def _check_spec(name: str, spec: TensorSpec, rank: int, dtype: DType, location: Location) -> None:
    if spec.rank != rank:
        raise ProgramError(
            location,
            f"{name} is declared with {rank} {'axis' if rank == 1 else 'axes'}, but is given a tensor of {spec.rank}: "
            f"{spec.shape}",
            remedy=f"give a tensor of rank {rank}",
        )
    if spec.dtype != dtype:
        raise ProgramError(
            location,
            f"{name} is declared as {dtype}, but is given as {spec.dtype}",
            remedy=f"give a {dtype} tensor, or make the dtype a parameter of the program",
        )


def _extent(
    context: Context, name: str, axis: int, item: object, given: Extent | None, location: Location
) -> Expr:
    """One extent: the declared item, unified with the given one (None when the caller gave no spec)."""
    item = resolve(context, item)
    if isinstance(item, ConstExtent):
        return bind_const(context, name, axis, item, given, location)
    declared = extent_expression(context, item, location)
    if isinstance(declared, Const) and given is not None:
        if not isinstance(given, int):
            raise ProgramError(
                location,
                f"axis {axis} of {name} is declared as {declared.value}, but is given as the dynamic extent {given}",
                remedy="give an integer, or declare the axis with T.const or T.dynamic",
            )
        if given != declared.value:
            _refuse_extent(context, name, axis, declared, given, location)
    return declared


def bind_const(
    context: Context, name: str, axis: int, item: ConstExtent, given: Extent | None, location: Location
) -> Expr:
    """Gives a T.const name its value: an integer, or a dynamic extent."""
    fixed = context.dims.get(item.name)
    if isinstance(given, int):
        if fixed is not None and fixed != given:
            raise ProgramError(
                location,
                f"axis {axis} of {name} is {given}, but dims fixes {item.name} to {fixed}",
                remedy="give one of the two",
            )
        item.value = NamedInt.of(given, item.name)
    elif given is None and fixed is not None:
        item.value = NamedInt.of(fixed, item.name)
    elif given is None:
        item.value = named_extent(context, item.name)
    else:
        item.value = _given_extent(context, item.name, given)
    item.bound_at, item.bound_as = location, f"axis {axis} of {name}"
    return extent_expression(context, item.value, location)


def _refuse_extent(
    context: Context, name: str, axis: int, declared: Const, given: int, location: Location
) -> None:
    """The given extent is not the declared one: says where the declared one comes from."""
    const = context.consts.get(declared.name)
    if const is not None and const.bound_at is not None:
        raise ProgramError(
            location,
            f"{declared.name} is {declared.value} as {const.bound_as}, but {given} as axis {axis} of {name}",
            remedy=f"give tensors whose shapes agree in {declared.name}",
            related=[(const.bound_at, f"{declared.name} is bound here")],
        )
    raise ProgramError(
        location,
        f"axis {axis} of {name} is declared as {declared.value}, but is given as {given}",
        remedy=f"give a tensor whose axis {axis} has {declared.value} elements",
    )


def _given_extent(context: Context, hint: str, given: Extent) -> Expr:
    """A dynamic extent from the caller's spec; equal names mean equal extents."""
    if isinstance(given, str):
        return named_extent(context, given, hint)
    return symbolic_extent(context, build.as_expr(given))


def _strides(
    context: Context, name: str, steps: tuple[object, ...] | None, spec: TensorSpec | None, location: Location
) -> tuple[Expr, ...] | None:
    """The strides in elements; None for row-major."""
    given: Sequence[Extent | None] | None = spec.strides if spec is not None else None
    if steps is None:
        if given is None:
            return None
        if spec is not None and _is_row_major(spec):
            return None
        return tuple(extent_expression(context, step, location) for step in given)
    if spec is not None and given is None:
        given = row_major_strides(spec.shape)
    strides = []
    for axis, step in enumerate(steps):
        step = resolve(context, step)
        if isinstance(step, ConstExtent):
            extent = given[axis] if given is not None else None
            strides.append(bind_const(context, f"{name}'s strides", axis, step, extent, location))
        else:
            strides.append(extent_expression(context, step, location))
    if given is not None:
        for axis, (stride, step) in enumerate(zip(strides, given, strict=True)):
            if isinstance(stride, Const) and isinstance(step, int) and stride.value != step:
                raise ProgramError(
                    location,
                    f"axis {axis} of {name} is declared with stride {stride.value}, but is given with stride {step}",
                    remedy="give a copy with the declared strides, or name the stride in T.const",
                )
    return tuple(strides)


def _is_row_major(spec: TensorSpec) -> bool:
    assert spec.strides is not None
    expected: int | None = 1
    for extent, stride in zip(reversed(spec.shape), reversed(spec.strides), strict=True):
        if expected is None or stride != expected:
            return False
        expected = expected * extent if isinstance(extent, int) else None
    return True


def declare_scalar(context: Context, name: str, dtype: DType, node: ast.stmt | ast.arg) -> None:
    """Declares a scalar launch argument; one that was given a value as a parameter is fixed instead."""
    if name not in context.argument_names:
        context.fail(
            node,
            f"{name} is declared as a scalar argument, but is no parameter of the function",
            f"add {name} to them",
        )
    if name in context.fixed_parameters:
        value = context.fixed_parameters[name]
        if not is_number(value):
            context.fail(node, f"{name} is declared as {dtype}, but is given {value!r}", "pass a number")
        context.frames[0].scopes[0][name] = build.const(value, dtype)
        return
    var = Var(context.names.unique(name), dtype, "scalar", context.location(node))
    context.scalars[name] = var
    context.frames[0].scopes[0][name] = var


def create_output(context: Context, shape: tuple[object, ...], dtype: DType, location: Location) -> Buffer:
    """T.empty: an output tensor.

    Raises:
        ProgramError: inside the kernel.
    """
    if context.inside_kernel:
        raise ProgramError(
            location,
            "T.empty creates an output tensor, but stands inside the kernel",
            remedy="move it before the with T.Kernel(…) block; tiles are made by T.alloc_shared and T.alloc_fragment",
        )
    extents = tuple(extent_expression(context, item, location) for item in shape)
    name = context.names.unique(context.target or "output")
    buffer = Buffer(name, extents, dtype, "global", "output", None, location)
    context.created.append(buffer)
    return buffer


def spec_argument(name: str, value: object) -> TensorSpec:
    """What a caller gave for a tensor argument.

    Raises:
        TilegenError: for anything but a spec.
    """
    if not isinstance(value, TensorSpec):
        raise TilegenError(f"{name} is a tensor; give T.Tensor(shape, dtype) for it, not {value!r}")
    return value
