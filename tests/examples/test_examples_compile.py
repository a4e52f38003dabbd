"""Every emitted example goes through every compiler, without a warning, an unused name or a spill."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from example_cases import cases, emission

from tilegen.target import load_target
from tilegen.toolchain import CompileResult, KernelResources, build_cuda, build_hip, compile_cuda, compile_hip

Require = Callable[[str], None]


def spilling(result: CompileResult) -> list[KernelResources]:
    """Kernels that keep registers, or arrays that should be registers, in memory."""
    return [kernel for kernel in result.kernels if kernel.spills or kernel.stack_bytes]


@pytest.mark.parametrize(("name", "target"), cases("cuda"))
def test_nvcc_builds_the_whole_file(require_tool: Require, name: str, target: str) -> None:
    require_tool("nvcc")
    emitted = emission(name, target)
    result = build_cuda(emitted.source, emitted.target)
    assert spilling(result) == []
    assert result.kernel(emitted.name).registers <= emitted.target.limits.registers_per_thread
    assert f"{emitted.name}_launch".encode() in result.binary


@pytest.mark.parametrize(("name", "target"), cases("cuda"))
def test_nvrtc_compiles_the_device_code(require_tool: Require, name: str, target: str) -> None:
    require_tool("nvrtc")
    emitted = emission(name, target)
    assert spilling(compile_cuda(emitted.source, emitted.target, "nvrtc")) == []


@pytest.mark.parametrize(("name", "target"), cases("hip"))
def test_clang_compiles_device_and_host(require_tool: Require, name: str, target: str) -> None:
    require_tool("hip_gfx950" if int(load_target(target).compile.minimum_clang) > 19 else "hip")
    emitted = emission(name, target)
    result = compile_hip(emitted.source, emitted.target)
    assert spilling(result) == []
    assert result.kernel(emitted.name).registers <= emitted.target.limits.registers_per_thread
    assert f"{emitted.name}_launch".encode() in build_hip(emitted.source, emitted.target).binary


@pytest.mark.parametrize(("name", "target"), cases("hip"))
def test_matrix_operands_are_read_16_bytes_at_a_time(require_tool: Require, name: str, target: str) -> None:
    """Where a loop multiplies matrices, LDS and global memory are read in the widest form."""
    require_tool("hip_gfx950" if int(load_target(target).compile.minimum_clang) > 19 else "hip")
    emitted = emission(name, target)
    if "mfma" not in emitted.source:
        pytest.skip("no matrix instruction in this kernel")
    for loop in matrix_loops(compile_hip(emitted.source, emitted.target).assembly):
        assert not re.findall(r"\b(?:ds_read_(?!b128|b64_tr)\w+|buffer_load_(?!dwordx4)\w+)", loop)


def matrix_loops(assembly: str) -> list[str]:
    """The basic blocks that branch back to themselves and hold matrix instructions."""
    blocks = re.split(r"(?m)^(\.LBB\d+_\d+):", assembly)
    pairs = zip(blocks[1::2], blocks[2::2], strict=True)
    return [
        text
        for label, text in pairs
        if "v_mfma" in text and re.search(rf"s_cbranch\w+ {re.escape(label)}\b", text)
    ]
