"""Finds the vendors' compilers and calls them: nvcc, NVRTC (no GPU needed), clang for AMDGPU, disassemblers."""

from __future__ import annotations

from tilegen.toolchain.cuda import build_cuda, compile_cuda
from tilegen.toolchain.disassembly import disassemble
from tilegen.toolchain.hip import build_hip, compile_hip
from tilegen.toolchain.result import CompileError, CompileResult, KernelResources, ToolMissing
from tilegen.toolchain.tools import Tool, Tools, find_tools

__all__ = [
    "CompileError",
    "CompileResult",
    "KernelResources",
    "Tool",
    "ToolMissing",
    "Tools",
    "build_cuda",
    "build_hip",
    "compile_cuda",
    "compile_hip",
    "disassemble",
    "find_tools",
]
