"""Extents and strides that a call leaves open, so that they are launch arguments of the text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tilegen.building import CallError, Definition, parameter_names, read_program
from tilegen.dtype_parameters import bind_dtypes
from tilegen.ir.expressions import Const, Expr, Var
from tilegen.language.tensors import TensorSpec, row_major_strides
from tilegen.target import Target


def opened(
    definition: Definition,
    specs: Mapping[str, TensorSpec],
    parameters: Mapping[str, Any],
    dynamic: Sequence[str],
    target: Target,
) -> dict[str, TensorSpec]:
    """The specs with the extents and strides left open that the program calls by these names, and the extents that
    are 0: what has no elements is launched by the text for any extent, which starts no block for it.

    Raises:
        CallError: a name that is none of the program's.
    """
    function = definition.python
    if definition.style == "eager":
        parameters = bind_dtypes(function, specs, parameters)
    program = read_program(definition, specs, parameters, target=target)
    declared = {tensor.name: tensor for tensor in program.tensors}
    known = {extent.name for extent in program.extents}
    known |= {
        e.name
        for tensor in declared.values()
        for e in (*tensor.shape, *(tensor.strides or ()))
        if isinstance(e, Const | Var) and e.name
    }
    known -= set(parameter_names(function))
    unknown = [name for name in dynamic if name not in known]
    if unknown:
        raise CallError(
            f"dynamic names {unknown[0]}, but the open extents of {function.__name__} are "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    result = {}
    for name, spec in specs.items():
        tensor = declared[name]
        shape = tuple(
            _open_name(extent, known if value == 0 else known & set(dynamic)) or value
            for extent, value in zip(tensor.shape, spec.shape, strict=True)
        )
        strides = spec.strides
        if tensor.strides is not None:
            names = (_open_name(stride, known & set(dynamic)) for stride in tensor.strides)
            values = strides or row_major_strides(spec.shape)
            strides = tuple(name or value or 0 for name, value in zip(names, values, strict=True))
        result[name] = TensorSpec(shape, spec.dtype, strides)
    return result


def _open_name(extent: Expr, names: Collection[str]) -> str:
    """The extent's name where it is one of these, else nothing."""
    return extent.name if isinstance(extent, Const | Var) and extent.name in names else ""
