"""Any name that a file speaks for itself (device functions, types, macros, keywords) may be a name of the program."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_hidden_names import ROLES, named

import tilegen
import tilegen.language as T
from tilegen.emission import Emission
from tilegen.emit.spoken_names import called_names, declared_names
from tilegen.emit.tokens import split_tokens
from tilegen.frontend.names import RESERVED
from tilegen.ir.rename import names_of
from tilegen.lower.vocabulary.context import OWN_CONSTANTS
from tilegen.target import load_target
from tilegen.toolchain import build_hip, compile_cuda, compile_hip

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
SHAPES = (((136, 72), T.float16), ((72, 80), T.float16), ((136, 80), T.float32))
TARGETS = ("sm_80", "sm_90a", "gfx942")


@cache
def words(language: str) -> tuple[str, ...]:
    """All identifiers of the language's templates, and those that C++ and its toolkit keep for themselves."""
    found = dict.fromkeys(sorted(RESERVED))
    for path in sorted((TEMPLATES / language).rglob("*.j2")):
        text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
        found.update(dict.fromkeys(t for t in split_tokens(text) if re.fullmatch(r"[a-zA-Z]\w*", t)))
    return tuple(name for name in found if not re.search(r"__", name) and name not in PYTHON)


PYTHON = ("T", "K", "tilegen", "and", "or", "not", "if", "else", "for", "while", "in", "is", "def", "class", "del",
          "return", "import", "from", "as", "with", "try", "except", "finally", "raise", "pass", "break", "continue",
          "lambda", "yield", "global", "nonlocal", "assert", "True", "False", "None", "async", "await", "elif",
          "A_shared", "B_shared", "range", "kernel")  # fmt: skip


def emitted(names: tuple[str, ...], target: str, folder: Path) -> Emission:
    chosen = dict(zip(ROLES, names, strict=True))
    kernel = tilegen.jit(named(folder, "program", chosen))
    made = kernel.emit(*(T.Tensor(shape, dtype) for shape, dtype in SHAPES), target=target)
    assert isinstance(made, Emission)
    return made


def groups(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    size = len(ROLES)
    spare = tuple(f"spare_{i}" for i in range(size))
    return [(names[i : i + size] + spare)[:size] for i in range(0, len(names), size)]


@pytest.mark.parametrize("target", TARGETS)
def test_no_name_of_a_program_is_one_that_the_file_speaks(target: str, tmp_path: Path) -> None:
    for group in groups(words(load_target(target).language)):
        made = emitted(group, target, tmp_path)
        spoken = declared_names(made.source) | called_names(made.generated.model.body) | RESERVED
        clashing = [name for name in names_of(made.generated.program) if name in spoken and name != made.name]
        assert not clashing, (group, clashing)


@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
def test_files_compile_whatever_of_their_own_words_the_program_uses(
    target: str, tmp_path: Path, require_tool: Callable[[str], None]
) -> None:
    """Every word that the program's file has under plain names, eleven at a time."""
    language = load_target(target).language
    require_tool("nvrtc" if language == "cuda" else "hip")
    plain = emitted(tuple(f"plain_{role}" for role in ROLES), target, tmp_path)
    code = re.sub(r"//.*", "", plain.source)
    own = dict.fromkeys(t for t in split_tokens(code) if re.fullmatch(r"[a-zA-Z]\w*", t))
    names = tuple(n for n in own if n not in PYTHON and not n.startswith("plain_") and "__" not in n)
    for group in groups(names):
        made = emitted(group, target, tmp_path)
        if language == "cuda":
            compile_cuda(made.source, made.target, "nvrtc")
        else:
            compile_hip(made.source, made.target)


@pytest.mark.parametrize(
    "name", ["cudaSuccess", "cudaStream_t", "hipSuccess", "CUDA_SUCCESS", "INT_MAX", "M_PI"]
)
def test_names_of_the_host_side_are_kept_apart(
    name: str, tmp_path: Path, require_tool: Callable[[str], None]
) -> None:
    target = "gfx942"
    require_tool("hip")
    names: list[Any] = [f"plain_{role}" for role in ROLES]
    names[0] = name
    made = emitted(tuple(names), target, tmp_path)
    assert name not in names_of(made.generated.program)
    build_hip(made.source, made.target)


SCALARS = """
def twice(X, {factor}: T.float32):
    {extent} = T.const("{extent}")
    X: T.Tensor(({extent},), T.float32)
    Y = T.empty(({extent},), T.float32)
    with T.Kernel(T.ceildiv({extent}, 128), threads=128) as {block}:
        {fragment} = T.alloc_fragment((128,), T.float32)
        T.copy(X[{block} * 128], {fragment})
        for {parallel} in T.Parallel(128):
            {let} = T.max({fragment}[{parallel}], -T.infinity(T.float32)) * {factor}
            {fragment}[{parallel}] = T.exp2({let}) + T.min({fragment}[{parallel}], 0)
        T.copy({fragment}, Y[{block} * 128])
    return Y
"""
PARTS = ("factor", "extent", "block", "fragment", "parallel", "let")
FUNCTIONS = ("infinity", "exp2_approx", "fmaxf", "exp2f", "half", "warp", "lane", "shared", "row", "column", "min",
             "thread", "uint4", "int", "fp16", "blockIdx", "size_t", "twice_launch")  # fmt: skip


@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
@pytest.mark.parametrize("first", range(0, len(FUNCTIONS), 3))
def test_scalars_may_be_called_like_functions(
    first: int, target: str, tmp_path: Path, require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    names = (FUNCTIONS[first:] + FUNCTIONS[:first])[: len(PARTS)]
    path = tmp_path / "twice.py"
    path.write_text(SCALARS.format(**dict(zip(PARTS, names, strict=True))))
    scope: dict[str, Any] = {"T": T}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    x = np.linspace(-2, 2, 300, dtype=np.float32)
    emission = tilegen.jit(scope["twice"]).emit(target=target)
    found = emission.emulate(x, scalars={emission.manifest.scalars[0].name: 1.5})
    np.testing.assert_allclose(found, np.exp2(x * 1.5) + np.minimum(x, 0), atol=1e-4)


CONSTANTS = ("stages", "stage_bytes", "threads", "consumers", "consumer_rows", "swizzle_columns", "shared_bytes",
             "waves", "out_of_range", "atom_bytes", "tiles_k", "warpgroup", "producer_registers")  # fmt: skip
SCALED = """
def scaled(A, B, {parameters}):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 64), T.float16)
        B_shared = T.alloc_shared((64, 64), T.float16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * 64, k * 64], A_shared)
            T.copy(B[k * 64, bx * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        for i, j in T.Parallel(64, 64):
            C_local[i, j] = C_local[i, j] {terms}
        T.copy(C_local, C[by * 64, bx * 64])
    return C
"""


@pytest.mark.parametrize("target", TARGETS)
def test_parameters_called_like_constants_of_the_file_keep_their_values(
    target: str, tmp_path: Path, require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    parameters = ", ".join(f"{name}: int = {11 + i}" for i, name in enumerate(CONSTANTS))
    terms = " ".join(f"+ (i * {name} + {name}) % 7" for name in CONSTANTS)
    path = tmp_path / "scaled.py"
    path.write_text(SCALED.format(parameters=parameters, terms=terms))
    scope: dict[str, Any] = {"T": T}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((64, 128), (128, 64)))
    specs = (T.Tensor(a.shape, T.float16), T.Tensor(b.shape, T.float16))
    found = tilegen.jit(scope["scaled"]).emit(*specs, target=target).emulate(a, b)
    rows = np.arange(64)[:, None]
    extra = sum((rows * (11 + i) + 11 + i) % 7 for i in range(len(CONSTANTS)))
    expected = a.astype(np.float64) @ b.astype(np.float64) + extra
    assert np.linalg.norm(found - expected) < 1e-4 * np.linalg.norm(expected)


def test_all_constants_of_the_text_are_known() -> None:
    """Every constant that the compiler or a template names is one that parameters keep away from."""
    root = Path(__file__).resolve().parents[3]
    texts = [path.read_text(encoding="utf-8") for path in sorted((root / "tilegen" / "lower").rglob("*.py"))]
    texts += [p.read_text(encoding="utf-8") for p in sorted((root / "templates").glob("[ch]*/**/*.j2"))]
    found = {name for text in texts for name in re.findall(r"[\" ](k[A-Z]\w*)(?:\"| =)", text)}
    assert len(found) > 20
    assert sorted(name for name in found if not OWN_CONSTANTS.fullmatch(name)) == []
