"""The C++ example: its committed files are current, its CUDA variant builds and links, its HIP variant compiles."""

import subprocess
from pathlib import Path

import pytest

from tilegen.cli.loading import load_kernel
from tilegen.runtime.devices import present_device
from tilegen.target import load_target
from tilegen.toolchain import build_hip, compile_hip

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "cpp"
TARGETS = ("sm_80", "sm_90a", "gfx90a", "gfx942")


@pytest.mark.parametrize("target", TARGETS)
def test_committed_files_are_current(target, update_golden):
    emission = load_kernel(str(ROOT / "examples/matmul.py") + ":matmul_relu").emit(target=target)
    if update_golden:
        emission.save(FOLDER / "emitted")
    assert emission.stale(FOLDER / "emitted") == [], (
        "run: cmake --build … --target emit, or pytest --update-golden"
    )


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_cuda_variant_builds_and_links(target, tmp_path, require_tool):
    require_tool("cmake")
    require_tool("nvcc")
    configure = ["cmake", "-S", str(FOLDER), "-B", str(tmp_path), f"-DTILEGEN_TARGET={target}"]
    for command in (configure, ["cmake", "--build", str(tmp_path)]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    program = tmp_path / "matmul"
    assert program.is_file()
    if present_device() == "9.0":
        ran = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_hip_variant_compiles(target, require_tool):
    """As one file, the way the HIP compiler sees kernel, wrapper and program; both passes."""
    require_tool("hip")
    texts = [FOLDER / "emitted" / f"matmul_relu.{target}.hip", FOLDER / "gpu.hpp", FOLDER / "main.cpp"]
    source = "\n".join(path.read_text() for path in texts)
    for line in ('#include "gpu.hpp"', "#include TILEGEN_HEADER", "#pragma once"):
        assert line in source
        source = source.replace(line, "")
    machine = load_target(target)
    assert compile_hip(source, machine).kernel("matmul_relu").spills == 0
    assert build_hip(source, machine).binary
