"""tilegen: a tile program in Python becomes CUDA or HIP C++ that reads like hand-written code.

Importing the package costs next to nothing: what it exports is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tilegen import autotuner, emulate, language, layout, profiler
    from tilegen.autotuner import autotune
    from tilegen.emission import Emission
    from tilegen.errors import TilegenError
    from tilegen.foreign import PassConfigKey
    from tilegen.inference.operations import TileOperation, register_operation
    from tilegen.jit_kernel import JitKernel, jit
    from tilegen.language.scalars import ceildiv as cdiv
    from tilegen.language.tensors import Tensor
    from tilegen.program import CompiledProgram, compile
    from tilegen.runtime.compiled import CompiledKernel
    from tilegen.runtime.profiler import Profiler, TensorSupplyType, do_bench

_EXPORTS = {
    "CompiledKernel": "tilegen.runtime.compiled",
    "CompiledProgram": "tilegen.program",
    "Emission": "tilegen.emission",
    "JitKernel": "tilegen.jit_kernel",
    "PassConfigKey": "tilegen.foreign",
    "Profiler": "tilegen.runtime.profiler",
    "Tensor": "tilegen.language.tensors",
    "TensorSupplyType": "tilegen.runtime.profiler",
    "TileOperation": "tilegen.operations",
    "TilegenError": "tilegen.errors",
    "autotune": "tilegen.autotuner",
    "cdiv": "tilegen.language.scalars:ceildiv",
    "compile": "tilegen.program",
    "do_bench": "tilegen.runtime.profiler",
    "jit": "tilegen.jit_kernel",
    "register_operation": "tilegen.operations",
}
_MODULES = ("autotuner", "emulate", "language", "layout", "profiler")

__all__ = [
    "CompiledKernel",
    "CompiledProgram",
    "Emission",
    "JitKernel",
    "PassConfigKey",
    "Profiler",
    "Tensor",
    "TensorSupplyType",
    "TileOperation",
    "TilegenError",
    "autotune",
    "autotuner",
    "cdiv",
    "compile",
    "do_bench",
    "emulate",
    "jit",
    "language",
    "layout",
    "profiler",
    "register_operation",
]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        module, _, called = _EXPORTS[name].partition(":")
        value = getattr(importlib.import_module(module), called or name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"tilegen.{name}")
    if not name.startswith("_"):
        importlib.import_module("tilegen.foreign").refuse_foreign("tilegen", name)
    raise AttributeError(f"module 'tilegen' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
