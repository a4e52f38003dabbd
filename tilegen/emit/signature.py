"""Signatures: of the kernel and of its launcher, and the launcher's comment."""

from __future__ import annotations

from tilegen.ir.types import DType
from tilegen.model.dialect import Dialect, dialect_of
from tilegen.model.kernel import KernelModel, PointerParameter, ScalarParameter, TensorMap

_PLAIN = {
    "i8": "signed char", "u8": "unsigned char", "i16": "short", "u16": "unsigned short", "u32": "unsigned int",
    "i64": "long long", "u64": "unsigned long long", "fp16": "_Float16", "bf16": "__bf16",
}  # fmt: skip


def public_type(dialect: Dialect, dtype: DType) -> str:
    """The element type without the file's own short names, as other translation units know it."""
    name = dialect.type_name(dtype)
    return _PLAIN.get(name, name)


def kernel_signature(model: KernelModel) -> str:
    """`extern "C" __global__ void … name(…)` on one line. Tensors do not overlap (the header says so), so that loads
    need not wait for the stores before them."""
    dialect = dialect_of(model.language)
    pointer = "* __restrict__ " if restricted(model) else "* "
    parameters = []
    for parameter in model.parameters:
        match parameter:
            case TensorMap():
                parameters.append(f"const __grid_constant__ CUtensorMap {parameter.parameter}")
            case PointerParameter(name, _, dtype, written):
                parameters.append(f"{'' if written else 'const '}{dialect.type_name(dtype)}{pointer}{name}")
            case ScalarParameter(name, dtype):
                parameters.append(f"{dialect.type_name(dtype)} {name}")
    attributes = f"__launch_bounds__(kThreads, {model.launch.bound})"
    if model.launch.cluster != (1, 1, 1):
        named = any(constant.name == "kCluster" for constant in model.constants)
        extents = ["kCluster" if named and extent > 1 else str(extent) for extent in model.launch.cluster]
        attributes = f"__cluster_dims__({', '.join(extents)}) {attributes}"
    return f'extern "C" __global__ void {attributes} {model.name}({", ".join(parameters)})'


def restricted(model: KernelModel) -> bool:
    """Whether the kernel's pointers are declared not to alias each other: wherever there are several, one written."""
    pointers = [parameter for parameter in model.parameters if isinstance(parameter, PointerParameter)]
    return len(pointers) > 1 and any(pointer.written for pointer in pointers)


def launcher_signature(model: KernelModel) -> str:
    """`extern "C" cudaError_t name_launch(…)`: tensors, extents, scalars, stream."""
    dialect = dialect_of(model.language)
    parameters = [
        f"{'const ' if tensor.role == 'input' else ''}{public_type(dialect, tensor.dtype)}* {tensor.name}"
        for tensor in model.tensors
    ]
    parameters += [f"int {extent}" for extent in model.extents]
    parameters += [f"{public_type(dialect, dtype)} {name}" for name, dtype in model.scalars]
    parameters.append(f"{dialect.stream_type} stream")
    return f'extern "C" {dialect.error_type} {model.name}_launch({", ".join(parameters)})'


def launcher_comment(model: KernelModel) -> str:
    dialect = dialect_of(model.language)
    what = model.name
    if "=" in model.summary:
        cleared = [
            f"{tensor.name} = 0" for tensor in model.tensors if tensor.zeroed and tensor.role != "scratch"
        ]
        what = "; ".join([*cleared, model.summary])
    refusal = f"{dialect.prefix}ErrorInvalidValue"
    return f"Enqueues {what} on the stream. Returns {refusal} where the contract above is broken."
