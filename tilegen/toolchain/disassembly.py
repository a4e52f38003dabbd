"""The machine code in a compiled kernel, as text."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tilegen.target import Target
from tilegen.toolchain.process import run
from tilegen.toolchain.result import ToolMissing
from tilegen.toolchain.tools import Tool, Tools, find_tools


def disassemble(binary: bytes, target: Target) -> str:
    """SASS of a cubin (cuobjdump or nvdisasm) or the ISA of an AMDGPU code object (llvm-objdump).

    Raises:
        ToolMissing: when the disassembler is not on this machine.
        CompileError: when it refuses the binary.
    """
    with tempfile.TemporaryDirectory(prefix="tilegen-") as folder:
        file = Path(folder) / "kernel.bin"
        file.write_bytes(binary)
        tool, options = _disassembler(target)
        return run(tool.name, [*tool.command, *options, str(file)])


def _disassembler(target: Target) -> tuple[Tool, tuple[str, ...]]:
    tools = find_tools()
    if target.language == "hip":
        return _llvm_objdump(tools, target), ("-d",)
    if tools.cuobjdump is not None:
        return tools.cuobjdump, ("--dump-sass",)
    if tools.nvdisasm is not None:
        return tools.nvdisasm, ()
    raise ToolMissing(
        "cuobjdump or nvdisasm", "install the CUDA toolkit, or: pip install nvidia-cuda-nvdisasm"
    )


def _llvm_objdump(tools: Tools, target: Target) -> Tool:
    """Older ones crash on newer architectures, so the version that compiles is asked for."""
    objdump = tools.need_llvm_objdump()
    if objdump.version[0] < int(target.compile.minimum_clang):
        remedy = "install a newer LLVM, or read the assembly in the compiler's result"
        raise ToolMissing(f"llvm-objdump {target.compile.minimum_clang} or later", remedy)
    return objdump
