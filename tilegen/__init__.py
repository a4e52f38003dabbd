"""tilegen: a tile program in Python becomes CUDA or HIP C++ that reads like hand-written code.

Importing the package costs next to nothing: what it exports is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tilegen import emulate, language
    from tilegen.emission import Emission
    from tilegen.errors import TilegenError
    from tilegen.inference.operations import TileOperation, register_operation
    from tilegen.jit_kernel import JitKernel, jit
    from tilegen.language.tensors import Tensor
    from tilegen.program import CompiledProgram, compile
    from tilegen.runtime.compiled import CompiledKernel
    from tilegen.runtime.profiler import do_bench

_EXPORTS = {
    "CompiledKernel": "tilegen.runtime.compiled",
    "CompiledProgram": "tilegen.program",
    "Emission": "tilegen.emission",
    "JitKernel": "tilegen.jit_kernel",
    "Tensor": "tilegen.language.tensors",
    "TileOperation": "tilegen.operations",
    "TilegenError": "tilegen.errors",
    "compile": "tilegen.program",
    "do_bench": "tilegen.runtime.profiler",
    "jit": "tilegen.jit_kernel",
    "register_operation": "tilegen.operations",
}
_MODULES = ("emulate", "language")

__all__ = [
    "CompiledKernel",
    "CompiledProgram",
    "Emission",
    "JitKernel",
    "Tensor",
    "TileOperation",
    "TilegenError",
    "compile",
    "do_bench",
    "emulate",
    "jit",
    "language",
    "register_operation",
]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"tilegen.{name}")
    raise AttributeError(f"module 'tilegen' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
