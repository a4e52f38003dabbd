"""The emitted text of the quick start and of attention: what it is, and what every such text must be.

`pytest tests/golden --update-golden` rewrites the files beside this one.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from golden_cases import ATTENTION, CASES, FOLDER, MATMUL, ROOT, TARGETS, Case, emitted

import tilegen.language as T
from tilegen.cli.loading import load_kernel
from tilegen.target import load_target
from tilegen.toolchain import build_cuda, build_hip, compile_cuda, compile_hip

EVERY = [pytest.param(case, target, id=f"{case.name}-{target}") for case in CASES for target in TARGETS]
CUDA = [parameter for parameter in EVERY if load_target(parameter.values[1]).language == "cuda"]
HIP = [parameter for parameter in EVERY if load_target(parameter.values[1]).language == "hip"]
OPEN = {"name": "matmul_relu", "parameters": {"block_N": 256, "block_K": 64, "threads": 256}}
FOREIGN = (
    "cutlass",
    "cute/",
    "tvm",
    "ck/",
    "ck_tile",
    "composable_kernel",
    "tilelang",
    "torch/",
    "cub/",
    "thrust/",
)


def committed(case: Case, target: str) -> str:
    return case.file(target).read_text(encoding="utf-8")


@pytest.mark.parametrize(("case", "target"), EVERY)
def test_the_text_is_the_golden_one(case: Case, target: str, update_golden: bool) -> None:
    text = emitted(case, target).source
    if update_golden:
        case.file(target).write_text(text, encoding="utf-8")
    known = committed(case, target) if case.file(target).is_file() else ""
    difference = list(
        difflib.unified_diff(known.splitlines(), text.splitlines(), "golden", "emitted", lineterm="", n=1)
    )
    assert not difference, "\n".join(
        [*difference[:60], "accept it with: pytest tests/golden --update-golden"]
    )
    assert known == text


def test_every_golden_file_belongs_to_a_case() -> None:
    known = {case.file(target) for case in CASES for target in TARGETS}
    assert [path for path in FOLDER.iterdir() if path.suffix in (".cu", ".hip") and path not in known] == []


# ------------------------------------------------------------------------------------------- what texts must be

_HASHES = """
import sys
sys.path.insert(0, {folder!r})
from hashlib import sha256
from golden_cases import CASES, TARGETS, emitted
for case in CASES:
    for target in TARGETS:
        files = emitted(case, target).files
        print(case.name, target, sha256(repr(sorted(files.items())).encode()).hexdigest())
"""


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_hash_seeds_change_nothing(seed: str, tmp_path: Path) -> None:
    """Emitted in another process, in another folder, with another order of sets: the same bytes of all files."""
    environment = {
        **os.environ,
        "PYTHONHASHSEED": seed,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "COLUMNS": seed,
    }
    command = [sys.executable, "-c", _HASHES.format(folder=str(FOLDER))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    here = [
        f"{case.name} {target} {sha256(repr(sorted(emitted(case, target).files.items())).encode()).hexdigest()}"
        for case in CASES
        for target in TARGETS
    ]
    assert done.stdout.splitlines() == here


@pytest.mark.parametrize(("case", "target"), EVERY)
def test_lines_are_short_and_nothing_is_borrowed(case: Case, target: str) -> None:
    for text in emitted(case, target).files.values():
        assert [line for line in text.splitlines() if len(line) > 120] == []
        assert not re.search(r"[ \t]+$", text, re.MULTILINE)
        assert text.isascii() or all(ord(letter) < 0x2FFF for letter in text)
        included = re.findall(r"#\s*include\s*[<\"]([^>\"]+)", text)
        assert [name for name in included for word in FOREIGN if word in name.lower()] == []
        assert str(ROOT) not in text
        assert not re.search(r"\b20\d\d-\d\d-\d\d\b", text), "a date"


def _open_matmul(target: str) -> str:
    kernel = load_kernel(str(ROOT / MATMUL.kernel))
    parameters: dict[str, Any] = OPEN["parameters"] if target == "sm_90a" else {}
    return kernel.emit(target=target, **parameters).source


def test_the_hopper_gemm_is_short() -> None:
    assert len(emitted(MATMUL, "sm_90a").source.splitlines()) <= 350
    assert len(_open_matmul("sm_90a").splitlines()) <= 361


def test_hopper_attention_is_short() -> None:
    """A tile a block without a mask takes 449 lines, 28 more with one; tiles one after another take 27 more, and tiles
    drawn from a counter 22 beside those. 480 are what the one written by hand has room for."""
    kernel = load_kernel(str(ROOT / ATTENTION.kernel))
    specs = [T.Tensor(shape, "float16") for shape in ATTENTION.shapes]
    most = {(False, False): 449, (True, False): 477, (False, None): 476, (True, None): 526}
    for (causal, persistent), lines in most.items():
        emitted_file = kernel.emit(*specs, target="sm_90a", causal=causal, persistent=persistent)
        assert len(emitted_file.source.splitlines()) <= lines


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("which", [*(case.name for case in CASES), "open"])
def test_clang_format_changes_nothing(require_tool: Callable[[str], None], which: str, target: str) -> None:
    require_tool("clang_format")
    text = (
        _open_matmul(target)
        if which == "open"
        else emitted(next(case for case in CASES if case.name == which), target).source
    )
    assert _formatted(text) == text


def _formatted(text: str) -> str:
    beside = Path(sys.executable).with_name("clang-format")
    program = str(beside) if beside.exists() else "clang-format"
    command = [program, f"--style=file:{ROOT / '.clang-format'}", "--assume-filename=kernel.cpp"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("case", "target"), CUDA)
def test_nvcc_accepts_the_file(require_tool: Callable[[str], None], case: Case, target: str) -> None:
    """With -Wall -Wextra for the host and every warning an error; no register in memory."""
    require_tool("nvcc")
    emission = emitted(case, target)
    result = build_cuda(emission.source, emission.target)
    kernel = result.kernel(emission.name)
    assert (kernel.spills, kernel.stack_bytes) == (0, 0)


@pytest.mark.parametrize(("case", "target"), CUDA)
def test_nvrtc_accepts_the_file(require_tool: Callable[[str], None], case: Case, target: str) -> None:
    require_tool("nvrtc")
    emission = emitted(case, target)
    assert compile_cuda(emission.source, emission.target, "nvrtc").kernel(emission.name).spills == 0


@pytest.mark.parametrize(("case", "target"), HIP)
def test_clang_accepts_the_file(require_tool: Callable[[str], None], case: Case, target: str) -> None:
    """Device and host pass, with every warning an error; no register in memory."""
    require_tool("hip_gfx950" if int(load_target(target).compile.minimum_clang) > 19 else "hip")
    emission = emitted(case, target)
    kernel = compile_hip(emission.source, emission.target).kernel(emission.name)
    assert (kernel.spills, kernel.stack_bytes) == (0, 0)
    assert build_hip(emission.source, emission.target).binary
