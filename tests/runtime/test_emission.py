"""Emissions: files, saving, staleness, emulation in every mode, compilation."""

import json
import re

import numpy as np
import pytest
from small_programs import lazy_factory, scaled, sum_and_difference

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.emulate import EmulationError
from tilegen.errors import ArgumentError, CompilationError
from tilegen.manifest import Manifest
from tilegen.runtime import compilation
from tilegen.runtime.compilation import compile_image, for_capability
from tilegen.runtime.compiled import CompiledKernel
from tilegen.target import load_target
from tilegen.toolchain import CompileResult


def emitted(target="sm_80", **options):
    specs = T.Tensor((5, 100), T.float32), T.Tensor((5, 100), T.float32)
    return sum_and_difference.emit(*specs, target=target, **options)


@pytest.mark.parametrize("target, suffix", [("sm_80", "cu"), ("sm_90a", "cu"), ("gfx942", "hip")])
def test_three_files_with_the_target_in_their_names(target, suffix):
    files = emitted(target).files
    stem = f"both.{target}"
    assert list(files) == [f"{stem}.{suffix}", f"{stem}.h", f"{stem}.json"]
    assert "both_launch" in files[f"{stem}.h"]
    assert Manifest.from_json(files[f"{stem}.json"]) == emitted(target).manifest


def test_name_renames_kernel_and_launcher():
    emission = emitted(name="twice")
    assert emission.name == "twice" and next(iter(emission.files)) == "twice.sm_80.cu"
    assert "twice_launch(" in emission.header and "--name twice" in emission.source


def test_the_header_quotes_the_command_that_emits_the_file():
    quoted = " ".join(line.removeprefix("//").strip() for line in emitted(block=32).source.splitlines()[:8])
    command = "tilegen emit tests/runtime/small_programs.py:both --target sm_80 --dim M=5 --dim N=100 --set block=32"
    assert command in quoted


def test_save_and_stale(tmp_path):
    emission = emitted()
    folder = tmp_path / "a" / "b"
    assert emission.stale(folder) == [folder / name for name in emission.files]
    paths = emission.save(folder)
    assert [path.read_text() for path in paths] == list(emission.files.values())
    assert sorted(path.name for path in folder.iterdir()) == sorted(emission.files)
    assert emission.stale(folder) == []
    paths[1].write_text("edited")
    paths[2].unlink()
    assert emission.stale(folder) == paths[1:]


@pytest.mark.parametrize(
    "schedule, asynchronous", [("fifo", "eager"), ("reverse", "lazy"), ("random", "random")]
)
def test_emulate_returns_the_outputs_in_return_order(require_tool, schedule, asynchronous):
    require_tool("host_compiler")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((5, 100), dtype=np.float32) for _ in "ab")
    difference, total = emitted().emulate(
        a, b, schedule=schedule, asynchronous=asynchronous, seed=3, multiprocessors=2
    )
    np.testing.assert_array_equal(difference, a - b)
    np.testing.assert_array_equal(total, a + b)


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"schedule": "rando"}, "schedule='rando' is none of fifo, reverse, random"),
        ({"asynchronous": "late"}, "asynchronous='late' is none of eager, lazy, random"),
        ({"multiprocessors": 0}, "multiprocessors=0"),
        ({"multiprocessors": 1.5}, "multiprocessors=1.5 is no integer"),
        ({"seed": "3"}, "seed='3' is no integer"),
        ({"scalars": {"k": 3}}, "the kernel has no scalar k; it has none"),
    ],
)
def test_a_machine_that_does_not_exist_is_refused(options, sentence):
    arrays = (np.zeros((5, 100), np.float32),) * 2
    with pytest.raises(EmulationError, match=sentence):
        emitted().emulate(*arrays, **options)


def test_emulate_takes_scalars(require_tool):
    require_tool("host_compiler")
    a = np.arange(70, dtype=np.float32)
    emission = scaled.emit(T.Tensor((70,), T.float32), target="sm_80")
    np.testing.assert_array_equal(emission.emulate(a, scalars={"factor": 3}), 3 * a)
    by_name = "takes 1 array (A), not 2; numbers are passed by name, scalars={'factor': …}"
    with pytest.raises(EmulationError, match=re.escape(by_name)):
        emission.emulate(a, 3)
    with pytest.raises(EmulationError, match="no value is given for factor: pass scalars="):
        emission.emulate(a)
    with pytest.raises(EmulationError, match="factor: expected a number, got '3'"):
        emission.emulate(a, scalars={"factor": "3"})


def test_specs_dims_and_open_extents():
    specs = T.Tensor(("rows", 64), T.float32), T.Tensor(("rows", 64), T.float32)
    assert sum_and_difference.emit(*specs, target="sm_80").manifest.symbols == ("M",)
    assert sum_and_difference.emit(target="sm_80").manifest.symbols == ("M", "N")
    half = sum_and_difference.emit(target="sm_80", dims={"N": 64})
    assert half.manifest.symbols == ("M",) and "--dim N=64" in half.source
    factory = lazy_factory.emit(target="sm_80", dims={"N": 640}, block_N=32)
    assert factory.manifest.tensors[0].shape == ("640",)
    assert "small_programs.py:lazy_add" in factory.source and "--set N=640" in factory.source
    assert factory.source == lazy_factory.emit(640, 32, target="sm_80").source


def test_arrays_describe_tensors():
    arrays = (np.zeros((5, 100), np.float32),) * 2
    assert sum_and_difference.emit(*arrays, target="sm_80").source == emitted().source


def test_extents_that_indices_do_not_reach_are_refused():
    with pytest.raises(
        ProgramError, match="an extent of 8,589,934,592 is more than a kernel's 32-bit indices"
    ):
        scaled.emit(target="sm_80", dims={"M": 2**33})


def test_tensors_by_name():
    by_name = scaled.emit(A=T.Tensor((70,), T.float32), target="sm_80")
    assert by_name.source == scaled.emit(T.Tensor((70,), T.float32), target="sm_80").source


# ------------------------------------------------------------------------------------------- compilation


def test_compile_reports_resources_without_a_gpu(require_tool):
    require_tool("nvrtc")
    kernel = emitted("sm_90a").compile()
    assert 8 <= kernel.registers <= 255 and kernel.spills == 0 and kernel.shared_bytes == 0
    assert kernel.binary.startswith(b"\x7fELF") and "NVRTC" in kernel.compiler
    assert kernel.get_kernel_source() == emitted("sm_90a").source


def test_nvcc_and_clang_are_selectable(require_tool):
    require_tool("nvcc")
    assert "nvcc" in emitted("sm_80").compile(backend="nvcc").compiler
    require_tool("hip")
    kernel = emitted("gfx942").compile(backend="hipcc")
    assert "clang" in kernel.compiler and kernel.registers > 0 and kernel.spills == 0


@pytest.mark.parametrize(
    "target, backend, sentence",
    [
        ("sm_80", "hipcc", "hipcc does not compile cuda"),
        ("gfx942", "nvcc", "use hiprtc and hipcc"),
        ("sm_80", "gcc", "no compiler is called 'gcc'"),
    ],
)
def test_backends_that_do_not_fit(target, backend, sentence):
    with pytest.raises(CompilationError, match=sentence):
        emitted(target).compile(backend=backend)


def test_a_refusing_compiler_is_quoted(require_tool):
    require_tool("nvrtc")
    with pytest.raises(CompilationError, match="undefined_name"):
        compile_image('extern "C" __global__ void k() { undefined_name(); }', "k", load_target("sm_80"))


def test_the_disk_cache_answers_the_second_time(require_tool, monkeypatch, tmp_path):
    require_tool("nvrtc")
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path))
    source = 'extern "C" __global__ void k(int* x) { x[threadIdx.x] = 3; }'
    target = load_target("sm_80")
    first = compile_image(source, "k", target)
    assert first.path is not None and first.path.read_bytes() == first.binary

    def never(*arguments, **options):
        raise AssertionError("compiled again")

    monkeypatch.setattr(compilation, "compile_cuda", never)
    again = compile_image(source, "k", target)
    assert (again.binary, again.registers, again.log) == (first.binary, first.registers, first.log)
    assert again.file() == first.path
    with pytest.raises(AssertionError, match="compiled again"):
        compile_image(source, "k", load_target("sm_89"))
    monkeypatch.setenv("TILEGEN_CACHE", "0")
    with pytest.raises(AssertionError, match="compiled again"):
        compile_image(source, "k", target)


@pytest.mark.parametrize("suffix", [".json", ".cubin"])
def test_a_damaged_entry_is_made_anew(monkeypatch, tmp_path, suffix):
    made = compiled_by_a_stand_in(monkeypatch)
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path))
    first = compile_image("k", "k", load_target("sm_80"), "nvcc")
    (entry,) = (tmp_path / "kernels").glob(f"*{suffix}")
    entry.write_bytes(b"\0")
    again = compile_image("k", "k", load_target("sm_80"), "nvcc")
    assert again == first and len(made) == 2
    assert compile_image("k", "k", load_target("sm_80"), "nvcc") == first and len(made) == 2


def test_a_cache_that_cannot_be_written_costs_only_time(monkeypatch, tmp_path):
    made = compiled_by_a_stand_in(monkeypatch)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path / "file"))
    image = compile_image("k", "k", load_target("sm_80"), "nvcc")
    assert image.binary == b"k" and image.path is None and len(made) == 1


def compiled_by_a_stand_in(monkeypatch):
    """Compilers that give the source back; the list of what they compiled."""
    made = []

    def compile_it(source, target, backend, strict):
        made.append(source)
        return CompileResult("stand-in", (), "", source.encode())

    monkeypatch.setattr(compilation, "_version", lambda backend: "1")
    monkeypatch.setattr(compilation, "compile_cuda", compile_it)
    return made


def test_without_a_cache_the_image_gets_a_temporary_file(require_tool, monkeypatch):
    require_tool("nvrtc")
    monkeypatch.setenv("TILEGEN_CACHE", "0")
    image = compile_image('extern "C" __global__ void k() {}', "k", load_target("sm_80"))
    path = image.file()
    try:
        assert image.path is None and path.read_bytes() == image.binary and path.suffix == ".cubin"
    finally:
        path.unlink()


def test_older_files_are_compiled_for_newer_devices():
    sm_80 = load_target("sm_80")
    assert for_capability(sm_80, (8, 0)) is sm_80
    newer = for_capability(sm_80, (9, 0))
    assert "-arch=sm_90" in newer.compile.nvrtc and "_80" not in " ".join(newer.compile.nvcc)
    assert for_capability(load_target("sm_90a"), (9, 0)) is load_target("sm_90a")
    for target, capability in (("sm_90a", (10, 0)), ("sm_90a", (8, 0)), ("sm_89", (8, 0))):
        with pytest.raises(CompilationError, match="does not run on a device of compute capability"):
            for_capability(load_target(target), capability)


def test_the_package_is_light():
    import subprocess
    import sys

    script = (
        "import sys, tilegen; print(*(m for m in ('torch', 'cupy', 'sympy', 'numpy') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
    assert callable(tilegen.jit) and "compile" in dir(tilegen)
    with pytest.raises(AttributeError, match="no attribute 'speed'"):
        _ = tilegen.speed


def test_json_is_deterministic():
    first, second = (json.dumps(emitted().files) for _ in range(2))
    assert first == second


@tilegen.jit
def counted(A, tile: T.int32, half: T.float32):
    M = T.const("M")
    A: T.Tensor((M,), T.float32)
    B = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, 64), threads=64, persistent=True) as bx:
        for i in T.Parallel(64):
            B[bx * 64 + i] = T.if_then_else(bx * 64 + i < tile, A[bx * 64 + i] * half, 0)
    return B


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_scalars_are_called_as_the_program_calls_them(target, require_tool):
    """The text has other names for those that it wants itself."""
    require_tool("host_compiler")
    a = np.arange(70, dtype=np.float32)
    emission = counted.emit(T.Tensor((70,), T.float32), target=target)
    assert [scalar.keyword for scalar in emission.manifest.scalars] == ["tile", "half"]
    assert emission.manifest.scalars[0].name == "tile_"
    assert Manifest.from_json(emission.manifest.to_json()) == emission.manifest
    expected = np.where(np.arange(70) < 66, a / 2, 0)
    np.testing.assert_array_equal(emission.emulate(a, scalars={"tile": 66, "half": 0.5}), expected)
    np.testing.assert_array_equal(counted(a, 66, 0.5), expected)
    kernel = CompiledKernel(emission.source, emission.manifest, emission.target, lazy=True)
    assert kernel.scalar_values({"half": 0.5, "tile": 66}) == (66, 0.5)
    with pytest.raises(ArgumentError, match="remedy: pass tile="):
        kernel.scalar_values({"half": 0.5})
