"""Runs emitted kernel files on the CPU: the text itself, against an emulated CUDA or CDNA machine."""

from tilegen.emulate.build import build
from tilegen.emulate.errors import CompilerMissing, EmulationError, UnusableText
from tilegen.emulate.run import run

__all__ = ["CompilerMissing", "EmulationError", "UnusableText", "build", "run"]
