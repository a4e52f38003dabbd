"""Builds the manifest of a kernel from its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import tilegen
from tilegen import manifest as schema
from tilegen.emit.formula import formula_text
from tilegen.emit.used_primitives import used_primitives
from tilegen.errors import TilegenError
from tilegen.formula import compile_formulas
from tilegen.model.expressions import CExpr
from tilegen.model.kernel import KernelModel, PointerParameter, ScalarParameter, TensorMap

_WAVE_SIZES = {"cuda": 32, "hip": 64}


def build(
    model: KernelModel,
    wave_size: int | None = None,
    registers: Mapping[str, int] | None = None,
    parameters_of_generation: Mapping[str, str] | None = None,
) -> schema.Manifest:
    """The manifest of the file that `render` makes of the same model; constants appear by value.

    `wave_size` defaults to 32 threads for CUDA and 64 for HIP. `registers` may state the registers a thread of
    each role, `parameters_of_generation` what the program was called with.

    Raises:
        NoFormula: for a shape, grid or requirement that is no formula over extents and scalars.
    """
    constants = {constant.name: constant.value for constant in model.constants}
    file, _, line = model.source.rpartition(":")
    grid_x, grid_y, grid_z = (formula_text(extent, constants) for extent in model.launch.grid)
    return schema.Manifest(
        kernel=model.name,
        target=model.target,
        language=_language(model.language),
        wave_size=wave_size or _WAVE_SIZES[model.language],
        parameters=tuple(_parameter(model, parameter, constants) for parameter in model.parameters),
        tensors=_tensors(model, constants),
        symbols=model.extents,
        scalars=tuple(schema.Scalar(name, dtype.name) for name, dtype in model.scalars),
        outputs=model.outputs,
        requirements=tuple(
            schema.Requirement(formula_text(requirement.condition, constants), requirement.text)
            for requirement in model.requirements
        ),
        grid=(grid_x, grid_y, grid_z),
        block=(model.launch.block, 1, 1),
        cluster=model.launch.cluster,
        shared_bytes=model.launch.shared_bytes,
        source=schema.Source(file or model.source, int(line) if line.isdecimal() else 0, model.digest),
        primitives=tuple((entry.name, entry.values()) for entry in used_primitives(model)),
        registers=dict(registers or {}),
        parameters_of_generation=dict(parameters_of_generation or {}),
        tilegen=tilegen.__version__,
    )


def _language(language: str) -> Literal["cuda", "hip"]:
    match language:
        case "cuda" | "hip":
            return language
        case _:
            raise TilegenError(f"there is no language '{language}'")


def _parameter(
    model: KernelModel,
    parameter: TensorMap | PointerParameter | ScalarParameter,
    constants: Mapping[str, CExpr],
) -> schema.Parameter:
    match parameter:
        case TensorMap():
            boxes = parameter.box_values or tuple(_integer(extent, constants) for extent in parameter.box)
            return schema.TensorMapParameter(
                name=parameter.parameter,
                tensor=parameter.tensor,
                dtype=parameter.dtype.name,
                rank=len(parameter.extents),
                extents=tuple(formula_text(extent, constants) for extent in parameter.extents),
                strides_bytes=tuple(formula_text(stride, constants) for stride in parameter.strides),
                box=boxes,
                swizzle=parameter.swizzle,
            )
        case PointerParameter(name, tensor, dtype, written, read):
            access: Literal["read", "write", "readwrite"] = "read"
            if written:
                access = "readwrite" if read else "write"
            return schema.PointerParameter(name, tensor, dtype.name, access)
        case ScalarParameter(name, dtype, value):
            return schema.ScalarParameter(name, dtype.name, formula_text(value, constants))


def _integer(expression: CExpr, constants: Mapping[str, CExpr]) -> int:
    return compile_formulas((formula_text(expression, constants),), ())()[0]


def _tensors(model: KernelModel, constants: Mapping[str, CExpr]) -> tuple[schema.Tensor, ...]:
    tensors = []
    for tensor in model.tensors:
        strides = None
        if tensor.strides is not None:
            strides = tuple(formula_text(stride, constants) for stride in tensor.strides)
        match tensor.role:
            case "input" | "output" | "inout" | "scratch":
                role: schema.TensorRole = tensor.role
            case other:
                raise TilegenError(f"tensor {tensor.name} of {model.name} has no role '{other}'")
        shape = tuple(formula_text(extent, constants) for extent in tensor.shape)
        entry = schema.Tensor(
            tensor.name,
            tensor.dtype.name,
            shape,
            strides,
            role,
            tensor.alignment,
            tensor.zeroed,
            tensor.rests,
        )
        tensors.append(entry)
    return tuple(tensors)
