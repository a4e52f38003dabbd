"""From an emitted file to a loadable image: NVRTC first, nvcc, hiprtc or clang (hipcc) on request, kept on disk."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import tilegen
from tilegen.errors import CompilationError
from tilegen.runtime.disk_cache import cache_folder, cached, digest, write_atomically
from tilegen.target import Target
from tilegen.toolchain import CompileError, CompileResult, compile_cuda, compile_hip

Backend = Literal["nvrtc", "nvcc", "hiprtc", "hipcc"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
_LANGUAGES: dict[Backend, str] = {"nvrtc": "cuda", "nvcc": "cuda", "hiprtc": "hip", "hipcc": "hip"}
_NVRTC_WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13", "nvidia-cuda-nvrtc-cu12")


@dataclass(frozen=True, slots=True)
class Image:
    """A cubin or an AMDGPU code object, and what the compiler said of its kernel.

    `spills` counts bytes (CUDA) or registers (HIP); `static_shared_bytes` is a block's.
    """

    binary: bytes
    suffix: str  # ".cubin" or ".hsaco"
    compiler: str
    registers: int
    spills: int
    static_shared_bytes: int
    log: str
    path: Path | None = None

    def file(self) -> Path:
        """A file with the binary: the cached one, or a temporary one."""
        if self.path is not None and self.path.is_file():
            return self.path
        descriptor, name = tempfile.mkstemp(prefix="tilegen-", suffix=self.suffix)
        with os.fdopen(descriptor, "wb") as file:
            file.write(self.binary)
        return Path(name)


def default_backend(target: Target) -> Backend:
    """NVRTC for CUDA; for HIP hiprtc, which comes with ROCm."""
    return "nvrtc" if target.language == "cuda" else "hiprtc"


def compile_image(source: str, kernel: str, target: Target, backend: Backend | None = None) -> Image:
    """Compiles an emitted file's device code, or finds it in the disk cache (see `disk_cache`).

    Raises:
        CompilationError: an unknown backend, one for the other language, or source that the compiler refuses.
        ToolMissing: when the compiler is not on this machine.
    """
    chosen = default_backend(target) if backend is None else backend
    _check_backend(chosen, target)
    name = digest((source, kernel, target.name, chosen, *_flags(target, chosen), _version(chosen)))
    suffix = ".cubin" if target.language == "cuda" else ".hsaco"
    folder = cache_folder()
    path = None if folder is None else folder / f"{name}{suffix}"
    binary = b""

    def make() -> bytes:
        nonlocal binary, path
        result = _compile(source, target, chosen)
        binary = result.binary
        if path is not None:
            try:
                write_atomically(path, binary)
            except OSError:
                path = None
        return _facts(result, kernel)

    def whole(facts: bytes) -> bool:
        """Whether an entry's facts are those of the binary beside it."""
        nonlocal binary
        try:
            wanted = json.loads(facts)["sha256"]
            binary = path.read_bytes() if path is not None else b""
        except (OSError, ValueError, LookupError, TypeError):
            return False
        return bool(wanted == hashlib.sha256(binary).hexdigest())

    facts = json.loads(cached(f"{name}.json", make, folder, whole))
    del facts["sha256"]
    return Image(binary=binary, suffix=suffix, path=path, **facts)


def for_capability(target: Target, capability: tuple[int, int]) -> Target:
    """The target with compile flags for a CUDA device of another compute capability, so that, say, an sm_80 file runs
    on a 9.0 device.

    Raises:
        CompilationError: when the file needs an architecture's own instructions, or a newer device.
    """
    native = f"{capability[0]}{capability[1]}"
    wanted = target.architecture.removeprefix("sm_")
    if target.language != "cuda" or wanted.rstrip("a") == native:
        return target
    if not wanted.isdigit() or int(native) < int(wanted):
        raise CompilationError(
            f"a kernel for {target.name} does not run on a device of compute capability "
            f"{capability[0]}.{capability[1]}\n"
            "  remedy: leave target='auto', or name a target of that device"
        )
    flags = target.compile
    return dataclasses.replace(
        target,
        compile=dataclasses.replace(
            flags,
            nvcc=tuple(flag.replace(f"_{wanted}", f"_{native}") for flag in flags.nvcc),
            nvrtc=tuple(flag.replace(f"_{wanted}", f"_{native}") for flag in flags.nvrtc),
        ),
    )


def _check_backend(backend: str, target: Target) -> None:
    if backend not in _LANGUAGES:
        raise CompilationError(f"no compiler is called '{backend}'; there are {', '.join(BACKENDS)}")
    if _LANGUAGES[backend] != target.language:
        fitting = " and ".join(name for name, language in _LANGUAGES.items() if language == target.language)
        raise CompilationError(
            f"{backend} does not compile {target.language} (target {target.name})\n  remedy: use {fitting}"
        )


def _flags(target: Target, backend: Backend) -> tuple[str, ...]:
    match backend:
        case "nvrtc":
            return target.compile.nvrtc
        case "nvcc":
            return target.compile.nvcc
        case "hiprtc":
            return target.compile.hiprtc
        case "hipcc":
            return target.compile.hipcc


def _version(backend: Backend) -> str:
    """What is cheaply known of the compiler's version, so that an upgrade compiles anew."""
    versions = [tilegen.__version__]
    if backend == "nvrtc":
        for wheel in _NVRTC_WHEELS:
            try:
                versions.append(importlib.metadata.version(wheel))
            except importlib.metadata.PackageNotFoundError:
                continue
    return " ".join(versions)


def _compile(source: str, target: Target, backend: Backend) -> CompileResult:
    try:
        match backend:
            case "nvrtc" | "nvcc":
                return compile_cuda(source, target, backend, strict=False)
            case "hipcc":
                return compile_hip(source, target, strict=False)
            case "hiprtc":
                from tilegen.runtime.hiprtc import compile_hiprtc

                return compile_hiprtc(source, target)
    except CompileError as error:
        raise CompilationError(
            f"{error.compiler} refused the emitted file for {target.name}:\n{error.log}"
        ) from error


def _facts(result: CompileResult, kernel: str) -> bytes:
    """The parts of an Image that are not the binary, as JSON."""
    known = {resources.name: resources for resources in result.kernels}
    own = known.get(kernel)
    facts: dict[str, Any] = {
        "compiler": result.compiler,
        "registers": own.registers if own else result.registers,
        "spills": own.spills if own else result.spills,
        "static_shared_bytes": own.shared_bytes if own else result.shared,
        "log": result.log,
        "sha256": hashlib.sha256(result.binary).hexdigest(),
    }
    return json.dumps(facts).encode()
