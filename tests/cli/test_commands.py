"""The commands, as a shell calls them: files, exit codes, and errors for people."""

import importlib
import re
import shlex
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tilegen.language as T
from tilegen.cli import app
from tilegen.cli.loading import load_kernel
from tilegen.cli.options import OptionError, read_dims, read_settings
from tilegen.toolchain.result import CompileResult, KernelResources

check = importlib.import_module("tilegen.cli.check")  # the package's own `check` is the command

ROOT = Path(__file__).resolve().parents[2]
RUNNER = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
PROGRAM = """
    import numpy as np
    import tilegen
    import tilegen.language as T

    @tilegen.jit
    def shifted(A, block: int = 64, amount: int = 1):
        M = T.const("M")
        A: T.Tensor((M,), T.float32)
        B = T.empty((M,), T.float32)
        with T.Kernel(T.ceildiv(M, block), threads=64) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] + amount
        return B
"""
FACTORY = """
    import tilegen
    import tilegen.language as T

    @tilegen.jit(out_idx=[-1])
    def factory(N):
        @T.prim_func
        def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
                for i in T.Parallel(64):
                    B[bx * 64 + i] = A[bx * 64 + i]
        return main
"""
PROTOCOL = """
    tolerance = 1e-6

    def inputs(rng):
        return (rng.standard_normal(1000, dtype=np.float32),)

    def reference(a):
        return a + 1
"""


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch):
    monkeypatch.setattr("tilegen.runtime.devices.present_device", lambda: None)
    monkeypatch.setattr("tilegen.cli.run.present_device", lambda: None, raising=False)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a module into a fresh folder and works there."""
    monkeypatch.chdir(tmp_path)

    def write(*parts, name="example.py"):
        (tmp_path / name).write_text("".join(textwrap.dedent(part) for part in parts))
        return name

    return write


def tilegen(*words):
    return RUNNER.invoke(app, [str(word) for word in words])


def test_emit_writes_every_target(write, tmp_path):
    file = write(PROGRAM)
    done = tilegen("emit", f"{file}:shifted", "-t", "sm_80", "-t", "gfx942", "--dim", "M=640", "-o", "build")
    assert done.exit_code == 0, done.output
    names = {
        f"shifted.{end}"
        for end in ("sm_80.cu", "sm_80.h", "sm_80.json", "gfx942.hip", "gfx942.h", "gfx942.json")
    }
    assert {path.name for path in (tmp_path / "build").iterdir()} == names
    assert set(done.output.split()) == {f"build/{name}" for name in names}
    text = (tmp_path / "build/shifted.sm_80.cu").read_text()
    assert "640" in text and "shifted_launch(const float* A, float* B, cudaStream_t stream)" in text


def test_extents_that_are_not_given_stay_arguments(write, tmp_path):
    file = write(PROGRAM)
    assert (
        tilegen("emit", f"{file}:shifted", "-t", "sm_80", "--set", "block=128", "--name", "moved").exit_code
        == 0
    )
    text = (tmp_path / "moved.sm_80.cu").read_text()
    assert "int M, cudaStream_t stream" in text and "kBlock = 128" in text and "moved_launch" in text


def test_emit_check_finds_stale_and_missing_files(write, tmp_path):
    words = ("emit", f"{write(PROGRAM)}:shifted", "-t", "sm_80", "-o", "build")
    assert tilegen(*words).exit_code == 0
    done = tilegen(*words, "--check")
    assert done.exit_code == 0 and "3 files are current" in done.output
    (tmp_path / "build/shifted.sm_80.cu").write_text("// edited\n")
    (tmp_path / "build/shifted.sm_80.h").unlink()
    done = tilegen(*words, "--check")
    assert done.exit_code == 1
    assert "stale: build/shifted.sm_80.cu" in done.output and "missing: build/shifted.sm_80.h" in done.output
    assert not (tmp_path / "build/shifted.sm_80.h").exists()


def test_emit_gives_a_kernel_what_its_file_does(write, tmp_path, monkeypatch):
    """As run and check do; what is set goes before, and another kernel of the file gets nothing."""
    settings = """
    kernel = shifted
    parameters = {"block": 32}
    target_parameters = {"gfx942": {"block": 256}}
"""
    moved = PROGRAM[PROGRAM.index("    @tilegen.jit") :].replace("shifted", "moved")
    file = write(PROGRAM + settings + moved)

    def block(reference, target, *words):
        done = tilegen("emit", reference, "-t", target, "-o", "build", *words)
        assert done.exit_code == 0, done.output
        name = reference.rpartition(":")[2] if ":" in reference else "shifted"
        text = next((tmp_path / "build").glob(f"{name}.{target}.[ch][ui]*")).read_text()
        return int(re.search(r"kBlock = (\d+)", text)[1])

    assert (block(str(file), "sm_80"), block(str(file), "gfx942")) == (32, 256)
    monkeypatch.setattr("tilegen.runtime.devices.present_device", lambda: "gfx942")
    assert tilegen("emit", str(file), "-t", "auto", "-o", "other").exit_code == 0
    assert "kBlock = 256" in (tmp_path / "other/shifted.gfx942.hip").read_text()
    assert block(f"{file}:shifted", "gfx942", "--set", "block=128") == 128
    assert (block(f"{file}:moved", "sm_80"), block(f"{file}:moved", "gfx942")) == (64, 64)


def test_the_quoted_command_emits_the_same_file(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = [
        "emit",
        "examples/matmul.py:matmul_relu",
        "--target",
        "sm_80",
        "--dim",
        "M=512",
        "--set",
        "num_stages=2",
    ]
    assert tilegen(*words, "-o", tmp_path / "one").exit_code == 0
    text = (tmp_path / "one" / "matmul_relu.sm_80.cu").read_text()
    lines = iter(line.removeprefix("//").strip() for line in text.splitlines())
    command = next(line for line in lines if line.startswith("tilegen emit"))
    for line in lines:  # a long command goes on until the blank line
        if not line:
            break
        command += f" {line}"
    assert tilegen(*shlex.split(command)[1:], "-o", tmp_path / "two").exit_code == 0
    assert (tmp_path / "two" / "matmul_relu.sm_80.cu").read_text() == text


STRIDED = """
    import tilegen
    import tilegen.language as T

    LANES = 4

    @tilegen.jit
    def first_lane(A, columns: int = 32):
        M, S = T.const("M, S")
        A: T.StridedTensor((M, columns, LANES), (S, LANES, 1), T.float32)
        B = T.empty((M, columns), T.float32)
        with T.Kernel(M, threads=32) as bx:
            for i in T.Parallel(columns):
                B[bx, i] = A[bx, i, 0]
        return B
"""


def test_the_quoted_command_fixes_only_what_the_program_leaves_open(write):
    """Parameters and constants of the module are integers with a name too, but no extents of the program."""
    kernel = load_kernel(write(STRIDED))
    for emission in (
        kernel.emit(target="sm_80"),
        kernel.emit(T.Tensor((3, 32, 4), "float32", (256, 4, 1)), target="sm_80"),
    ):
        emission.save("one")
        command = next(line for line in emission.source.splitlines() if "tilegen emit" in line)
        done = tilegen(*shlex.split(command)[2:], "-o", "one", "--check")
        assert done.exit_code == 0, done.output


def test_run_compares_with_the_reference(require_tool, write):
    require_tool("host_compiler")
    done = tilegen("run", write(PROGRAM, PROTOCOL), "--target", "sm_80")
    assert done.exit_code == 0, done.output
    assert "shifted in the emulator, inputs (1000,)" in done.output and "accepted 1e-06" in done.output
    done = tilegen("run", "example.py", "--target", "sm_80", "--set", "amount=2")
    assert done.exit_code == 1 and "the result is wrong" in done.output


def test_run_uses_parameters_and_smaller_inputs(require_tool, write):
    require_tool("host_compiler")
    extra = """
        parameters = {"amount": 1, "block": 32}

        def emulation_inputs(rng):
            return (rng.standard_normal(100, dtype=np.float32),)
    """
    done = tilegen("run", write(PROGRAM, PROTOCOL, extra), "--target", "sm_80")
    assert done.exit_code == 0 and "inputs (100,)" in done.output


def test_inputs_and_reference_follow_the_kernels_parameters(require_tool, write):
    require_tool("host_compiler")
    protocol = textwrap.dedent(PROTOCOL).replace("reference(a)", "reference(a, amount=1)")
    file = write(
        PROGRAM, protocol.replace("a + 1", "a + amount"), "target_parameters = {'sm_80': {'amount': 5}}"
    )
    assert tilegen("run", file, "--set", "amount=2").exit_code == 0
    assert tilegen("check", file, "-t", "sm_80", "--seeds", "1").exit_code == 0


def test_check_passes_a_right_kernel(require_tool, write):
    for tool in ("host_compiler", "nvrtc", "nvcc"):
        require_tool(tool)
    done = tilegen("check", write(PROGRAM, PROTOCOL), "-t", "sm_80", "--seeds", "1")
    assert done.exit_code == 0, done.output
    assert "9 checks, 0 findings, 0 skipped" in done.output
    for words in ("emulate in 5 schedules", "nvcc, whole file", "registers, 0 spilled"):
        assert words in done.output


def test_check_reports_a_wrong_kernel(require_tool, write):
    require_tool("host_compiler")
    done = tilegen("check", write(PROGRAM, PROTOCOL), "-t", "sm_80", "--seeds", "1", "--set", "amount=3")
    assert done.exit_code == 1 and "5 findings" in done.output
    assert "sm_80, emulate reverse/eager seed 0: ‖out − ref‖ / ‖ref‖" in done.output


def test_check_tells_slow_kernels_from_wrong_ones():
    emission = load_kernel(f"{ROOT}/examples/matmul.py:matmul_relu").emit(target="sm_90a")
    kernel = KernelResources("matmul_relu", 128, 0, 0, 0, 0)

    def verdict(spills, log):
        return check._compiled(
            emission, "nvcc", lambda: CompileResult("nvcc", (replace(kernel, spills=spills),), log, b"")
        )

    assert verdict(0, "").status == "ok"
    assert verdict(8, "").status == "slow" and "8 spilled" in verdict(8, "").detail
    for code in ("C7511", "C7515"):  # too few registers; accumulators touched on the way
        told = verdict(
            0,
            f"ptxas info : ({code}) Potential Performance Loss: wgmma.mma_async instructions are serialized",
        )
        assert told.status == "slow" and f"wgmma serialised (ptxas {code})" in told.detail


def test_check_folds_what_is_alike():
    def verdict(what, status="ok"):
        return check.Verdict("sm_80", what, status, "detail")

    right = [verdict(f"emulate random/lazy seed {seed}") for seed in range(3)]
    wrong = [verdict(f"emulate random/lazy seed {seed}", "finding") for seed in (3, 4)]
    folded = [(v.what, v.status) for v in check._folded([verdict("emit"), *right, *wrong, verdict("nvcc")])]
    assert folded == [
        ("emit", "ok"), ("emulate in 3 schedules", "ok"), (wrong[0].what, "finding"), (wrong[1].what, "finding"),
        ("nvcc", "ok"),
    ]  # fmt: skip


def test_check_reports_what_cannot_be_emitted(write):
    done = tilegen(
        "check", write(PROGRAM.replace("threads=64", "threads=5000"), PROTOCOL), "-t", "sm_80", "-t", "gfx942"
    )
    assert done.exit_code == 1 and "2 findings" in done.output and "example.py:" in done.output


def test_report(write):
    done = tilegen("report", f"{write(PROGRAM)}:shifted", "-t", "sm_80", "-t", "gfx942")
    assert done.exit_code == 0, done.output
    assert "sm_80" in done.output and "gfx942" in done.output


def test_report_tells_of_the_kernel_that_emit_writes(write):
    settings = """
    kernel = shifted
    parameters = {"block": 32}
    target_parameters = {"gfx942": {"block": 256}}
"""
    file = write(PROGRAM + settings)
    for target, block in (("sm_80", 32), ("gfx942", 256)):
        done = tilegen("report", file, "-t", target, "--dim", "M=1024")
        assert f"grid {1024 // block}" in done.output, done.output


def test_a_folder_in_the_place_of_a_file_is_named(write, tmp_path):
    file = write(PROGRAM)
    (tmp_path / "build/shifted.sm_80.cu").mkdir(parents=True)
    done = tilegen("emit", file, "-t", "sm_80", "-o", "build")
    assert done.exit_code == 1 and "error: build/shifted.sm_80.cu: Is a directory" in done.output


def test_doctor_lists_everything():
    done = tilegen("doctor")
    assert done.exit_code == 0
    for name in ("GPU", "CuPy", "NVRTC", "nvcc", "clang 19 with AMDGPU", "host C++ compiler"):
        assert name in done.output


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("emit", "absent.py:kernel"), "absent.py is not a file"),
        (("emit", "example.py:other"), "example.py has no kernel 'other'; it has shifted"),
        (("emit", "example.py", "-t", "sm_12"), "no target is called 'sm_12'"),
        (("emit", "example.py", "--dim", "M"), "--dim M: write NAME=VALUE"),
        (("emit", "example.py", "--dim", "M=big"), "an extent is an integer"),
        (("emit", "example.py", "--dim", "M=4", "--dim", "M=5"), "--dim M is given twice, as 4 and as 5"),
        (("emit", "example.py", "-s", "amount=1", "-s", "amount=2"), "--set amount is given twice"),
        (("emit", "example.py", "-o", "example.py"), "example.py is no folder"),
        (("emit", "example.py", "-o", "example.py/build"), "--output names the folder"),
        (("emit", "example.py", "-o", "example.py", "--check"), "example.py is no folder"),
        (
            ("run", "example.py", "-t", "sm_80", "-t", "gfx942"),
            "--target sm_80 and gfx942: one runs at a time",
        ),
        (("emit", "example.py", "--set", "speed=2"), "no parameter 'speed'"),
        (("run", "example.py"), "does not define inputs, reference, tolerance"),
        (("check", "example.py"), "does not define inputs, reference, tolerance"),
        (("emit", "example.py", "--set", "target=sm_80"), "--set target=sm_80: --target says this"),
        (("report", "example.py", "--set", "dims=3"), "--set dims=3: --dim says this"),
        (("emit", "example.py", "--name", "int"), "'int' cannot name a kernel"),
        (("emit", "broken.py"), "broken.py:1 failed while it was loaded: ZeroDivisionError"),
        (("emit", "script.py"), "script.py:3 failed while it was loaded: SystemExit: 0"),
        (("emit", "empty.py"), "empty.py has no single kernel (none)"),
        (("emit", "wrong.py"), "wrong.py:1"),
        (("report", "open.py"), "fix M: --dim M=…"),
        (("report", "lazy.py:factory"), "missing a required argument: 'N'"),
    ],
)
def test_errors_are_for_people(write, words, sentence):
    write(PROGRAM)
    write("1 / 0\n", name="broken.py")
    write("x = 1\n", name="empty.py")
    write("import sys\n\nsys.exit(0)\n", name="script.py")
    write(PROGRAM.replace("A[bx * block + i] + amount", "Q[bx * block + i]"), name="wrong.py")
    tile = "Q = T.alloc_shared((M,), T.float32)"
    write(PROGRAM.replace("for i in", f"{tile}\n            for i in"), name="open.py")
    write(FACTORY, name="lazy.py")
    done = tilegen(*words)
    assert done.exit_code == 1 and sentence in done.output, done.output
    assert "Traceback" not in done.output


def test_option_values():
    assert read_dims(["M=4096", "N=1"]) == {"M": 4096, "N": 1} and read_dims(None) == {}
    assert read_settings(["a=1", "b=float16", "c=(1, 2)", "d=True", "e=x=y"]) == {
        "a": 1, "b": "float16", "c": (1, 2), "d": True, "e": "x=y",
    }  # fmt: skip
    for bad in ("=1", "M=", "1M=3"):
        with pytest.raises(OptionError):
            read_settings([bad])
