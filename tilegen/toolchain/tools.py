"""Finds compilers: on PATH, in the vendors' usual roots, in the wheels that PyPI carries."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from tilegen.toolchain.result import ToolMissing

Found = TypeVar("Found")

_NEWEST_CLANG = 30
_OLDEST_CLANG = 19


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that was found: the words that start it (for a library: its path) and its version."""

    name: str
    command: tuple[str, ...]
    version: tuple[int, ...]

    @property
    def path(self) -> Path:
        return Path(self.command[0])

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))} ({' '.join(self.command)})"


@dataclass(frozen=True, slots=True)
class Tools:
    """Everything that was found; None or empty where there is nothing. `amd_clangs` are clangs with AMDGPU in them."""

    nvcc: Tool | None
    nvrtc: Tool | None
    cuda_headers: Path | None
    amd_clangs: tuple[Tool, ...]
    hip_root: Path | None
    device_libraries: Path | None
    llvm_readelf: Tool | None
    llvm_objdump: Tool | None
    cuobjdump: Tool | None
    nvdisasm: Tool | None

    def need_nvcc(self) -> Tool:
        return _need(
            self.nvcc,
            "nvcc",
            "install the CUDA toolkit and put nvcc on PATH or set CUDA_HOME, or pip install nvidia-cuda-nvcc "
            "nvidia-cuda-crt nvidia-nvvm nvidia-cuda-cccl nvidia-cuda-runtime",
        )

    def need_nvrtc(self) -> Tool:
        return _need(self.nvrtc, "NVRTC", "pip install nvidia-cuda-nvrtc")

    def need_cuda_headers(self) -> Path:
        return _need(
            self.cuda_headers, "cuda_fp16.h", "pip install nvidia-cuda-runtime, or install the CUDA toolkit"
        )

    def need_amd_clang(self, minimum: int) -> Tool:
        """The first clang for AMDGPU of at least this version.

        Raises:
            ToolMissing: when there is none.
        """
        for clang in self.amd_clangs:
            if clang.version[0] >= minimum:
                return clang
        remedy = "install ROCm, or Debian's clang-19, lld-19 and llvm-19"
        if minimum > _OLDEST_CLANG:
            remedy += " together with: pip install 'ziglang<0.16' (it carries clang 20)"
        raise ToolMissing(f"clang {minimum} or later with the AMDGPU target", remedy)

    def need_hip_root(self) -> Path:
        return _need(
            self.hip_root, "hip/hip_runtime.h", "install ROCm (set ROCM_PATH) or Debian's libamdhip64-dev"
        )

    def need_device_libraries(self) -> Path:
        return _need(
            self.device_libraries,
            "ROCm's device library (ockl.bc)",
            "install ROCm or Debian's rocm-device-libs",
        )

    def need_llvm_readelf(self) -> Tool:
        return _need(self.llvm_readelf, "llvm-readelf", "install ROCm or Debian's llvm-19")

    def need_llvm_objdump(self) -> Tool:
        return _need(self.llvm_objdump, "llvm-objdump", "install ROCm or Debian's llvm-19")


@cache
def find_tools() -> Tools:
    """What this machine has. The answer is kept: call `find_tools.cache_clear()` after installing something."""
    return Tools(
        nvcc=_first(_nvcc_candidates(), "nvcc", r"release (\d+)\.(\d+)"),
        nvrtc=_find_nvrtc(),
        cuda_headers=_first_holding(_cuda_header_folders(), "cuda_fp16.h"),
        amd_clangs=tuple(_amd_clangs()),
        hip_root=_first_holding(_rocm_roots(), "include/hip/hip_runtime.h"),
        device_libraries=_first_holding(_bitcode_folders(), "ockl.bc"),
        llvm_readelf=_find_llvm("llvm-readelf"),
        llvm_objdump=_find_llvm("llvm-objdump"),
        cuobjdump=_first(_cuda_candidates("cuobjdump"), "cuobjdump", r"release (\d+)\.(\d+)"),
        nvdisasm=_first(_cuda_candidates("nvdisasm"), "nvdisasm", r"release (\d+)\.(\d+)"),
    )


def wheel_folder(package: str) -> Path | None:
    """Where an installed wheel keeps its files; None when it is not installed."""
    specification = importlib.util.find_spec(package)
    locations = specification.submodule_search_locations if specification else None
    return Path(next(iter(locations))) if locations else None


def _need(found: Found | None, tool: str, remedy: str) -> Found:
    if found is None:
        raise ToolMissing(tool, remedy)
    return found


def _first(candidates: Iterator[str], name: str, pattern: str) -> Tool | None:
    for candidate in candidates:
        version = _version((candidate,), pattern)
        if version:
            return Tool(name, (candidate,), version)
    return None


def _version(command: tuple[str, ...], pattern: str) -> tuple[int, ...]:
    """The version that `command --version` states; empty when it does not start or states none."""
    try:
        said = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, errors="replace", timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    match = re.search(pattern, said.stdout)
    return tuple(int(part) for part in match.groups() if part) if match else ()


def _on_path(*names: str) -> Iterator[str]:
    for name in names:
        found = shutil.which(name)
        if found:
            yield found


def _nvidia_wheels() -> Iterator[Path]:
    """Folders of NVIDIA's wheels: nvidia/cu13/{bin,lib}, nvidia/cuda_nvrtc/lib, ..."""
    root = wheel_folder("nvidia")
    if root:
        yield from sorted((folder for folder in root.iterdir() if folder.is_dir()), reverse=True)


def _cuda_candidates(name: str) -> Iterator[str]:
    yield from _on_path(name)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if variable in os.environ:
            yield str(Path(os.environ[variable]) / "bin" / name)
    for folder in _nvidia_wheels():
        yield str(folder / "bin" / name)


def _nvcc_candidates() -> Iterator[str]:
    yield from _cuda_candidates("nvcc")
    yield "/usr/local/cuda/bin/nvcc"


def _cuda_header_folders() -> Iterator[Path]:
    for folder in _nvidia_wheels():
        yield folder / "include"
    for compiler in _nvcc_candidates():
        yield Path(compiler).resolve().parent.parent / "include"


def _find_nvrtc() -> Tool | None:
    """The NVRTC library: a wheel's first, since it is the one that this Python was installed with."""
    for library in _nvrtc_candidates():
        try:
            handle = ctypes.CDLL(library)
        except OSError:
            continue
        major, minor = ctypes.c_int(), ctypes.c_int()
        if handle.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0:
            return Tool("NVRTC", (library,), (major.value, minor.value))
    return None


def _nvrtc_candidates() -> Iterator[str]:
    for folder in _nvidia_wheels():
        for library in sorted((folder / "lib").glob("libnvrtc.so*")):
            yield str(library)
        for library in sorted((folder / "bin").glob("nvrtc64_*.dll")):
            if "builtins" not in library.name:
                yield str(library)
    system = ctypes.util.find_library("nvrtc")
    if system:
        yield system


def _rocm_roots() -> Iterator[Path]:
    if "ROCM_PATH" in os.environ:
        yield Path(os.environ["ROCM_PATH"])
    yield from (Path("/opt/rocm"), Path("/usr"))


def _clang_folders() -> Iterator[Path]:
    for root in _rocm_roots():
        yield from (root / "llvm" / "bin", root / "lib" / "llvm" / "bin")


def _amd_clangs() -> Iterator[Tool]:
    """Clangs that can make AMDGPU code: ROCm's own, the system's, the one in PyPI's ziglang."""
    versioned = (f"clang++-{version}" for version in range(_NEWEST_CLANG, _OLDEST_CLANG - 1, -1))
    candidates: list[tuple[str, ...]] = [(str(folder / "clang++"),) for folder in _clang_folders()]
    candidates += [(found,) for found in _on_path("amdclang++", *versioned, "clang++")]
    zig = wheel_folder("ziglang")
    if zig:
        candidates.append((str(zig / "zig"), "clang"))
    for command in candidates:
        version = _version(command, r"clang version (\d+)\.(\d+)")
        if version and version[0] >= _OLDEST_CLANG and _has_amdgpu(command):
            yield Tool("clang", command, version)


def _has_amdgpu(command: tuple[str, ...]) -> bool:
    said = subprocess.run([*command, "--print-targets"], capture_output=True, text=True, check=False)
    return "amdgcn" in said.stdout


def _find_llvm(name: str) -> Tool | None:
    candidates = [str(folder / name) for folder in _clang_folders()]
    candidates += _on_path(
        *(f"{name}-{version}" for version in range(_NEWEST_CLANG, _OLDEST_CLANG - 1, -1)), name
    )
    return _first(iter(candidates), name, r"LLVM version (\d+)\.(\d+)")


def _bitcode_folders() -> Iterator[Path]:
    for root in _rocm_roots():
        yield root / "amdgcn" / "bitcode"
        yield from sorted((root / "lib").glob("*/amdgcn/bitcode"))
        yield from sorted((root / "lib").glob("llvm*/lib/clang/*/lib/amdgcn/bitcode"), reverse=True)


def _first_holding(folders: Iterator[Path], file: str) -> Path | None:
    return next((folder for folder in folders if (folder / file).exists()), None)
