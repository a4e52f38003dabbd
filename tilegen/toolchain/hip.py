"""HIP: clang with the AMDGPU target, for device code and for the host pass. No ROCm installation is needed.

Debian's ROCm headers and device library serve all targets; what that library lacks for newer architectures is one
constant in one module, which `device_library_folder` makes. clang 20, for gfx950, comes in PyPI's ziglang.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

import platformdirs

from tilegen.target import Target, TargetError
from tilegen.toolchain.process import run
from tilegen.toolchain.result import CompileResult, KernelResources
from tilegen.toolchain.tools import Tool, Tools, find_tools

_STRICT = (
    "-Wall", "-Wextra", "-Werror", "-Wunused-const-variable", "-Wunused-template", "-Wunused-member-function",
)  # fmt: skip
_DEVICE = ("--cuda-device-only", "--no-gpu-bundle-output", "-save-temps")
_ENVIRONMENT = {"HIP_PLATFORM": "amd"}
_ISA_MODULE = """target triple = "amdgcn-amd-amdhsa"
@__oclc_ISA_version = linkonce_odr protected local_unnamed_addr addrspace(4) constant i32 {number}, align 4
"""


def compile_hip(source: str, target: Target, strict: bool = True) -> CompileResult:
    """Compiles and links the device code to a code object; if `strict`, a warning, unused names included, is an error.

    Raises:
        CompileError: with clang's words.
        ToolMissing: when a tool, the HIP headers or the device library are not on this machine.
        TargetError: when the target is no HIP target.
    """
    options = (*_STRICT, *_DEVICE) if strict else _DEVICE
    return _compile(source, target, options, "kernel.hsaco", device=True)


def build_hip(source: str, target: Target) -> CompileResult:
    """Compiles the host pass of the file, launcher included, to an object file; warnings are errors.

    The device pass is `compile_hip`'s; the result here has no kernels.

    Raises:
        As `compile_hip`.
    """
    return _compile(source, target, (*_STRICT, "--cuda-host-only", "-fPIC", "-c"), "kernel.o", device=False)


def parse_notes(notes: str) -> tuple[KernelResources, ...]:
    """The kernels in the output of `llvm-readelf --notes` of a code object."""
    kernels = []
    for entry in re.split(r"(?m)^  - (?=\.agpr_count|\.args)", notes)[1:]:
        name = re.search(r"\.name:\s+(\S+)", entry)
        if name:
            kernels.append(
                KernelResources(
                    name=name[1],
                    registers=_field(entry, "vgpr_count"),
                    accumulation_registers=_field(entry, "agpr_count"),
                    spills=_field(entry, "vgpr_spill_count"),
                    stack_bytes=_field(entry, "private_segment_fixed_size"),
                    shared_bytes=_field(entry, "group_segment_fixed_size"),
                    scalar_spills=_field(entry, "sgpr_spill_count"),
                )
            )
    return tuple(kernels)


def device_library_folder(tools: Tools, target: Target) -> Path:
    """The folder of device bitcode for a target: the installed one, or a copy with the missing module added.

    The copy lives in the user's cache folder (`TILEGEN_CACHE_DIR` overrides it) and is made once.
    """
    installed = tools.need_device_libraries()
    module = f"oclc_isa_version_{target.architecture.removeprefix('gfx')}.bc"
    if (installed / module).exists():
        return installed
    default = platformdirs.user_cache_path("tilegen")
    key = hashlib.sha256(f"{installed} {(installed / 'ockl.bc').stat().st_mtime_ns}".encode()).hexdigest()[
        :16
    ]
    folder = Path(os.environ.get("TILEGEN_CACHE_DIR", default)) / "amdgcn" / f"{target.architecture}-{key}"
    if not folder.exists():
        _assemble_library(tools, target, installed, folder, module)
    return folder


def _assemble_library(tools: Tools, target: Target, installed: Path, folder: Path, module: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        assembly = Path(temporary) / "assembly"
        shutil.copytree(
            installed, assembly, ignore=lambda _, names: [n for n in names if not n.endswith(".bc")]
        )
        text = Path(temporary) / "isa.ll"
        text.write_text(_ISA_MODULE.format(number=target.compile.oclc_isa_version))
        clang = tools.need_amd_clang(0)
        options = (
            "-x",
            "ir",
            "-target",
            "amdgcn-amd-amdhsa",
            "-nogpulib",
            "-c",
            "-emit-llvm",
            "-Wno-override-module",
        )
        run("clang", [*clang.command, *options, str(text), "-o", str(assembly / module)])
        try:
            assembly.rename(folder)
        except OSError:  # another process was first: its folder is as good
            if not folder.exists():
                raise


def _compile(
    source: str, target: Target, options: tuple[str, ...], output: str, device: bool
) -> CompileResult:
    if target.language != "hip":
        raise TargetError(f"{target.name} is a {target.language} target: use compile_cuda")
    tools = find_tools()
    clang = tools.need_amd_clang(int(target.compile.minimum_clang))
    with tempfile.TemporaryDirectory(prefix="tilegen-") as folder:
        directory = Path(folder)
        (directory / "kernel.hip").write_text(source, encoding="utf-8")
        command = [*clang.command, "-x", "hip", "-mcode-object-version=5", *_libraries(tools, target)]
        command += [*_foreign_clang(tools, clang, directory), *target.compile.hipcc, *options]
        log = run("clang", [*command, "-o", output, "kernel.hip"], directory, _ENVIRONMENT)
        binary = (directory / output).read_bytes()
        if not device:
            return CompileResult(str(clang), (), log, binary)
        notes = run("llvm-readelf", [*tools.need_llvm_readelf().command, "--notes", output], directory)
        (assembly,) = directory.glob("*.s")
        return CompileResult(
            str(clang), parse_notes(notes), log, binary, assembly.read_text(encoding="utf-8")
        )


def _libraries(tools: Tools, target: Target) -> tuple[str, ...]:
    root = tools.need_hip_root()
    return f"--rocm-path={root}", f"--rocm-device-lib-path={device_library_folder(tools, target)}"


def _foreign_clang(tools: Tools, clang: Tool, directory: Path) -> tuple[str, ...]:
    """What ziglang's clang lacks: a host triple, clang's HIP wrapper headers, and a program called lld."""
    if clang.path.stem != "zig":
        return ()
    native = next((other for other in tools.amd_clangs if other.path.stem != "zig"), None)
    if native is None:
        native = tools.need_amd_clang(clang.version[0] + 1)
    resources = run("clang", [*native.command, "-print-resource-dir"]).strip()
    linker = directory / "lld"
    linker.write_text(f'#!/bin/sh\n[ "$1" = -flavor ] && shift 2\nexec "{clang.path}" ld.lld "$@"\n')
    linker.chmod(0o755)
    return f"--target={os.uname().machine}-linux-gnu", f"-B{directory}", "-resource-dir", resources


def _field(entry: str, name: str) -> int:
    match = re.search(rf"\.{name}:\s+(\d+)", entry)
    return int(match[1]) if match else 0
