"""`tilegen doctor`: what is found on this machine, and what to install for the rest."""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from tilegen.cli.console import output
from tilegen.emulate.compiler import find_compiler
from tilegen.errors import TilegenError
from tilegen.runtime.devices import present_device, target_of_device
from tilegen.toolchain import find_tools

_CUPY_WHEELS = ("cupy-cuda13x", "cupy-cuda12x", "cupy-rocm-7-0", "cupy")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that tilegen can use: what it is for, and what was found or how to get it."""

    name: str
    purpose: str
    found: str | None
    remedy: str = ""


def doctor() -> None:
    """Show what is found on this machine, and what to install for the rest."""
    table = Table.grid(padding=(0, 2))
    for overflow in ("ellipsis", "ellipsis", "fold"):
        table.add_column(overflow=overflow, no_wrap=overflow != "fold")
    for finding in findings():
        if finding.found is not None:
            table.add_row(Text("yes", style="green"), finding.name, Text(finding.found))
        else:
            table.add_row(
                Text("no", style="yellow"), finding.name, Text(f"{finding.purpose}: {finding.remedy}")
            )
    output.print(table)


def findings() -> Iterator[Finding]:
    """Everything that tilegen looks for, in the order in which users need it."""
    tools = find_tools()
    device = present_device()
    yield Finding("GPU", "running kernels", _device(device), "the emulator runs them without one")
    yield Finding(
        "CuPy",
        "launching on the GPU",
        _wheel(*_CUPY_WHEELS),
        "pip install 'tilegen[cuda13]', 'tilegen[cuda12]' or 'tilegen[rocm]'",
    )
    yield Finding("torch", "torch tensors", _wheel("torch"), "pip install torch")
    yield _tool("host C++ compiler", "the emulator", lambda: " ".join(find_compiler().command))
    yield _tool("NVRTC", "CUDA kernels at run time", lambda: str(tools.need_nvrtc()))
    yield _tool("CUDA headers", "CUDA kernels at run time", lambda: str(tools.need_cuda_headers()))
    yield _tool("nvcc", "CUDA files in C++ projects", lambda: str(tools.need_nvcc()))
    yield _tool("clang 19 with AMDGPU", "gfx90a and gfx942", lambda: str(tools.need_amd_clang(19)))
    yield _tool("clang 20 with AMDGPU", "gfx950", lambda: str(tools.need_amd_clang(20)))
    yield _tool("HIP headers", "HIP files", lambda: str(tools.need_hip_root()))
    yield _tool("ROCm device library", "HIP files", lambda: str(tools.need_device_libraries()))
    yield Finding(
        "hipcc", "HIP files in C++ projects", shutil.which("hipcc"), "install ROCm (clang serves as well)"
    )


def _device(identifier: str | None) -> str | None:
    if identifier is None:
        return None
    try:
        return f"{identifier}, target {target_of_device(identifier).name}"
    except TilegenError as error:
        return f"{identifier}: {error}"


def _wheel(*names: str) -> str | None:
    """The first installed distribution of these names, with its version; imports nothing."""
    for name in names:
        try:
            return f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _tool(name: str, purpose: str, find: Callable[[], str]) -> Finding:
    try:
        return Finding(name, purpose, find())
    except TilegenError as error:
        return Finding(name, purpose, None, str(error))
