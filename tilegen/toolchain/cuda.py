"""CUDA: nvcc for device code and whole files, NVRTC through its C interface (which needs no GPU)."""

from __future__ import annotations

import ctypes
import re
import tempfile
from pathlib import Path
from typing import Literal

from tilegen.target import Target, TargetError
from tilegen.toolchain.process import run
from tilegen.toolchain.result import CompileError, CompileResult, KernelResources
from tilegen.toolchain.tools import find_tools

Compiler = Literal["nvcc", "nvrtc"]

_STRICT = ("-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror")


def compile_cuda(
    source: str, target: Target, compiler: Compiler = "nvcc", strict: bool = True
) -> CompileResult:
    """Compiles the device code to a cubin; if `strict`, a warning, unused names included, is an error.

    Raises:
        CompileError: with the compiler's words.
        ToolMissing: when the compiler is not on this machine.
        TargetError: when the target is no CUDA target.
    """
    _require_cuda(target)
    if compiler == "nvrtc":
        return _compile_nvrtc(source, target, strict)
    options = (*_STRICT, "-cubin") if strict else ("-cubin",)
    return _compile_nvcc(source, target, options, "kernel.cubin")


def build_cuda(source: str, target: Target) -> CompileResult:
    """Compiles the whole file, launcher included, with nvcc and links a shared library; warnings are errors.

    Raises:
        As `compile_cuda`.
    """
    _require_cuda(target)
    return _compile_nvcc(source, target, (*_STRICT, "-shared", "-Xcompiler", "-fPIC"), "kernel.so")


def parse_ptxas(log: str) -> tuple[KernelResources, ...]:
    """The kernels in the output of `ptxas -v`, in its order."""
    kernels = []
    for entry in re.split(r"(?=ptxas info\s*: Compiling entry function)", log):
        name = re.search(r"Compiling entry function '(\S+)'", entry)
        registers = re.search(r"Used (\d+) registers", entry)
        if not name or not registers:
            continue
        kernels.append(
            KernelResources(
                name=name[1],
                registers=int(registers[1]),
                accumulation_registers=0,
                spills=_count(entry, r"(\d+) bytes spill stores") + _count(entry, r"(\d+) bytes spill loads"),
                stack_bytes=_count(entry, r"(\d+) bytes stack frame"),
                shared_bytes=_count(entry, r"(\d+) bytes smem"),
            )
        )
    return tuple(kernels)


def _require_cuda(target: Target) -> None:
    if target.language != "cuda":
        raise TargetError(f"{target.name} is a {target.language} target: use compile_hip")


def _compile_nvcc(source: str, target: Target, options: tuple[str, ...], output: str) -> CompileResult:
    nvcc = find_tools().need_nvcc()
    with tempfile.TemporaryDirectory(prefix="tilegen-") as folder:
        directory = Path(folder)
        (directory / "kernel.cu").write_text(source, encoding="utf-8")
        command = [
            *nvcc.command,
            *target.compile.nvcc,
            "-Xptxas",
            "-v",
            *options,
            "-o",
            output,
            "kernel.cu",
        ]
        log = run("nvcc", command, directory)
        return CompileResult(str(nvcc), parse_ptxas(log), log, (directory / output).read_bytes())


def _compile_nvrtc(source: str, target: Target, strict: bool) -> CompileResult:
    tools = find_tools()
    library = tools.need_nvrtc()
    include = f"--include-path={tools.need_cuda_headers()}"
    nvrtc = ctypes.CDLL(str(library.path))
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    program = ctypes.c_void_p()
    text = source.encode()
    _check(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None))
    try:
        words = [*target.compile.nvrtc, include, "--ptxas-options=-v"]
        options = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
        status = nvrtc.nvrtcCompileProgram(program, len(words), options)
        log = _read(nvrtc, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if status != 0 or (strict and re.search(r"\bwarning\b", log)):
            raise CompileError("NVRTC", log or nvrtc.nvrtcGetErrorString(status).decode())
        return CompileResult(str(library), parse_ptxas(log), log, _read(nvrtc, program, "CUBIN"))
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _read(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def _check(nvrtc: ctypes.CDLL, status: int) -> None:
    if status != 0:
        raise CompileError("NVRTC", nvrtc.nvrtcGetErrorString(status).decode())


def _count(text: str, pattern: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0
