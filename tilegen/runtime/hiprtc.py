"""hiprtc, the run-time compiler that ROCm ships, through its C interface.

It needs no HIP headers: they are built in. Registers and spills are read from the code object's notes by
`tilegen.toolchain` where LLVM's tools are there.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from pathlib import Path

from tilegen.target import Target
from tilegen.toolchain import CompileError, CompileResult, KernelResources, ToolMissing, find_tools
from tilegen.toolchain.hip import parse_notes

_OLDEST = 60_000_000  # HIP 6.0; older ones end the process over targets that they do not know
_LIBRARIES = ("libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6", "libamdhip64.so")


def compile_hiprtc(source: str, target: Target) -> CompileResult:
    """Compiles the device code to a code object.

    Raises:
        CompileError: with hiprtc's log.
        ToolMissing: when ROCm's hiprtc is not on this machine.
    """
    library = _load()
    program = ctypes.c_void_p()
    create = library.hiprtcCreateProgram
    _check(library, create(ctypes.byref(program), source.encode(), b"kernel.hip", 0, None, None))
    try:
        words = [*target.compile.hiprtc]
        options = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
        status = library.hiprtcCompileProgram(program, len(words), options)
        log = _read(library, program, "hiprtcGetProgramLog").rstrip(b"\0").decode(errors="replace")
        if status != 0:
            raise CompileError("hiprtc", log)
        binary = _read(library, program, "hiprtcGetCode")
        return CompileResult("hiprtc", _resources(binary), log, binary)
    finally:
        library.hiprtcDestroyProgram(ctypes.byref(program))


def _load() -> ctypes.CDLL:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if hasattr(library, "hiprtcCreateProgram") and _version(library) >= _OLDEST:
            library.hiprtcGetErrorString.restype = ctypes.c_char_p
            return library
    raise ToolMissing("hiprtc", "install ROCm 6 or later, or compile with backend='hipcc'")


def _version(library: ctypes.CDLL) -> int:
    """The version of HIP behind the library, where it tells."""
    version = ctypes.c_int(_OLDEST)
    if hasattr(library, "hipRuntimeGetVersion"):
        library.hipRuntimeGetVersion(ctypes.byref(version))
    return version.value


def _read(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(library, getattr(library, f"{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    _check(library, getattr(library, what)(program, buffer))
    return buffer.raw[: size.value]


def _check(library: ctypes.CDLL, status: int) -> None:
    if status != 0:
        raise CompileError("hiprtc", library.hiprtcGetErrorString(status).decode())


def _resources(binary: bytes) -> tuple[KernelResources, ...]:
    readelf = find_tools().llvm_readelf
    if readelf is None:
        return ()
    with tempfile.TemporaryDirectory(prefix="tilegen-") as folder:
        path = Path(folder) / "kernel.hsaco"
        path.write_bytes(binary)
        said = subprocess.run(
            [*readelf.command, "--notes", str(path)], capture_output=True, text=True, timeout=60, check=False
        )
    return parse_notes(re.sub(r"\r", "", said.stdout))
