"""Runs emitted kernel files on the CPU: the text itself, against an emulated CUDA or CDNA machine."""

from tilegen.emulate.errors import CompilerMissing, EmulationError, UnusableText
from tilegen.emulate.programs import build
from tilegen.emulate.running import run

__all__ = ["CompilerMissing", "EmulationError", "UnusableText", "build", "run"]
