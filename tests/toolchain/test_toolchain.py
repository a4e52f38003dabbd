"""The compilers are called with every target's flags, their answers parsed, their refusals passed on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tilegen.target import TargetError, load_target
from tilegen.toolchain import (
    CompileError,
    ToolMissing,
    build_cuda,
    build_hip,
    compile_cuda,
    compile_hip,
    disassemble,
)
from tilegen.toolchain.cuda import parse_ptxas
from tilegen.toolchain.hip import device_library_folder, parse_notes
from tilegen.toolchain.tools import Tools, find_tools

Require = Callable[[str], None]

CUDA = """
#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif
#include <cuda_fp16.h>
extern "C" __global__ void __launch_bounds__(128) twice(const __half* x, __half* y) {
  __shared__ __half tile[128];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = __hadd(tile[threadIdx.x ^ 1], tile[threadIdx.x]);
}
#ifndef __CUDACC_RTC__
extern "C" cudaError_t twice_launch(const __half* x, __half* y, cudaStream_t stream) {
  twice<<<1, 128, 0, stream>>>(x, y);
  return cudaGetLastError();
}
#endif
"""

HIP = """
#ifndef __HIPCC_RTC__
#include <hip/hip_runtime.h>
#endif
extern "C" __global__ void __launch_bounds__(256) twice(const float* x, float* y) {
  __shared__ float tile[256];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = expf(tile[threadIdx.x ^ 1]) + tile[threadIdx.x];
}
#ifndef __HIPCC_RTC__
extern "C" hipError_t twice_launch(const float* x, float* y, hipStream_t stream) {
  twice<<<1, 256, 0, stream>>>(x, y);
  return hipGetLastError();
}
#endif
"""

CUDA_TARGETS = ("sm_80", "sm_89", "sm_90a")
HIP_TARGETS = ("gfx90a", "gfx942", "gfx950")


def require_hip(require_tool: Require, target: str) -> None:
    require_tool("hip_gfx950" if int(load_target(target).compile.minimum_clang) > 19 else "hip")


@pytest.mark.parametrize("compiler", ["nvcc", "nvrtc"])
@pytest.mark.parametrize("target", CUDA_TARGETS)
def test_cuda_device_code(require_tool: Require, target: str, compiler: str) -> None:
    require_tool(compiler)
    result = compile_cuda(CUDA, load_target(target), compiler)  # type: ignore[arg-type]
    kernel = result.kernel("twice")
    assert 0 < kernel.registers <= 255 and kernel.spills == 0
    assert result.shared == 256
    assert result.binary[:4] == b"\x7fELF"


def test_cuda_whole_file(require_tool: Require) -> None:
    require_tool("nvcc")
    result = build_cuda(CUDA, load_target("sm_80"))
    assert b"twice_launch" in result.binary
    assert result.kernel("twice").spills == 0


@pytest.mark.parametrize("target", HIP_TARGETS)
def test_hip(require_tool: Require, target: str) -> None:
    require_hip(require_tool, target)
    result = compile_hip(HIP, load_target(target))
    kernel = result.kernel("twice")
    assert 0 < kernel.registers <= 512 and kernel.spills == 0
    assert kernel.shared_bytes == 1024
    assert target in result.assembly and "ds_read_b32" in result.assembly
    assert b"twice_launch" in build_hip(HIP, load_target(target)).binary


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_hip_disassembly(require_tool: Require, target: str) -> None:
    require_tool("hip")
    require_tool("llvm_objdump")
    text = disassemble(compile_hip(HIP, load_target(target)).binary, load_target(target))
    assert "<twice>:" in text and "s_endpgm" in text


KERNEL = 'extern "C" __global__'
STATEMENT = "  tile[threadIdx.x] = "
FUNCTION = "static __device__ int unused_function() { return 1; }\n"
WARNINGS = [
    (STATEMENT, f"  int unused_local = 3;\n{STATEMENT}", "unused_local"),
    (KERNEL, f"namespace {{ constexpr int kUnused = 3; }}\n{KERNEL}", "kUnused"),
    (KERNEL, f"{FUNCTION}{KERNEL}", "unused_function"),
]


@pytest.mark.parametrize(("old", "new", "name"), WARNINGS)
def test_unused_names_are_errors(require_tool: Require, old: str, new: str, name: str) -> None:
    require_tool("nvcc")
    require_tool("hip")
    assert old in CUDA and old in HIP
    for compile_source in (compile_cuda, build_cuda):
        with pytest.raises(CompileError, match=name):
            compile_source(CUDA.replace(old, new, 1), load_target("sm_80"))
    for compile_source in (compile_hip, build_hip):
        with pytest.raises(CompileError, match=name):
            compile_source(HIP.replace(old, new, 1), load_target("gfx942"))


def test_unused_arguments_of_the_launcher_are_errors(require_tool: Require) -> None:
    require_tool("nvcc")
    require_tool("hip")
    with pytest.raises(CompileError, match="unused_argument"):
        build_cuda(
            CUDA.replace("cudaStream_t stream", "cudaStream_t stream, int unused_argument"),
            load_target("sm_80"),
        )
    with pytest.raises(CompileError, match="unused_argument"):
        build_hip(
            HIP.replace("hipStream_t stream", "hipStream_t stream, int unused_argument"),
            load_target("gfx942"),
        )


@pytest.mark.parametrize("compiler", ["nvcc", "nvrtc"])
def test_a_refusal_shows_the_compilers_words(require_tool: Require, compiler: str) -> None:
    require_tool(compiler)
    with pytest.raises(CompileError, match="undefined_thing"):
        compile_cuda(CUDA.replace("__hadd(", "undefined_thing("), load_target("sm_80"), compiler)  # type: ignore[arg-type]


def test_a_target_of_the_other_language_is_refused() -> None:
    with pytest.raises(TargetError, match="gfx942 is a hip target: use compile_hip"):
        compile_cuda(CUDA, load_target("gfx942"))
    with pytest.raises(TargetError, match="sm_80 is a cuda target: use compile_cuda"):
        compile_hip(HIP, load_target("sm_80"))


def test_missing_tools_say_what_to_install() -> None:
    nothing = Tools(None, None, None, (), None, None, None, None, None, None)
    with pytest.raises(ToolMissing, match="nvcc was not found: install the CUDA toolkit"):
        nothing.need_nvcc()
    with pytest.raises(ToolMissing, match="NVRTC was not found: pip install nvidia-cuda-nvrtc"):
        nothing.need_nvrtc()
    with pytest.raises(ToolMissing, match=r"clang 20 or later .* pip install 'ziglang<0.16'"):
        nothing.need_amd_clang(20)
    with pytest.raises(ToolMissing, match="rocm-device-libs"):
        nothing.need_device_libraries()


def test_the_device_library_is_completed_once(
    require_tool: Require, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    require_tool("hip")
    installed = find_tools().need_device_libraries()
    module = "oclc_isa_version_942.bc"
    if (installed / module).exists():
        pytest.skip("the installed device library is complete")
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path))
    folder = device_library_folder(find_tools(), load_target("gfx942"))
    assert folder.is_relative_to(tmp_path) and (folder / module).exists() and (folder / "ockl.bc").exists()
    written = (folder / module).stat().st_mtime_ns
    assert device_library_folder(find_tools(), load_target("gfx942")) == folder
    assert (folder / module).stat().st_mtime_ns == written
    assert device_library_folder(find_tools(), load_target("gfx90a")) == installed


def test_ptxas_output_is_parsed() -> None:
    log = """ptxas info    : 60 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
    16 bytes stack frame, 24 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 168 registers, used 16 barriers, 1024 bytes smem
ptxas info    : Compiling entry function 'second' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers
"""
    first, second = parse_ptxas(log)
    assert (first.name, first.registers, first.spills, first.stack_bytes, first.shared_bytes) == (
        "first",
        168,
        32,
        16,
        1024,
    )
    assert (second.name, second.registers, second.spills, second.shared_bytes) == ("second", 32, 0, 0)


def test_code_object_notes_are_parsed() -> None:
    notes = """    AMDGPU Metadata:
        ---
amdhsa.kernels:
  - .agpr_count:     128
    .args:
      - .address_space:  global
        .offset:         0
    .group_segment_fixed_size: 65536
    .name:           first
    .private_segment_fixed_size: 12
    .sgpr_spill_count: 1
    .vgpr_count:     376
    .vgpr_spill_count: 2
  - .args:
      - .offset:         0
    .group_segment_fixed_size: 0
    .name:           second
    .vgpr_count:     4
    .vgpr_spill_count: 0
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
"""
    first, second = parse_notes(notes)
    assert (first.registers, first.accumulation_registers) == (376, 128)
    assert (first.spills, first.scalar_spills) == (2, 1)
    assert (first.stack_bytes, first.shared_bytes) == (12, 65536)
    assert (second.name, second.registers, second.accumulation_registers) == ("second", 4, 0)
