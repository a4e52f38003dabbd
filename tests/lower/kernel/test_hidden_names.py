"""A program's names that the emitted text wants for itself, and names that it never mentions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.driver import generate
from tilegen.frontend import parse
from tilegen.lower.kernel.unused_names import without_unused
from tilegen.model import build as c
from tilegen.model.expressions import Literal, Name
from tilegen.model.statements import Comment, Declare, Expression, IfC, Scope

SOURCE = """
def {kernel}({a}, {b}, {bias}):
    {m}, {n}, K = T.const("{m}, {n}, K")
    {a}: T.Tensor(({m}, K), T.float16)
    {b}: T.Tensor((K, {n}), T.float16)
    {bias}: T.Tensor(({m}, {n}), T.float32)
    {out} = T.empty(({m}, {n}), T.float32)
    with T.Kernel(T.ceildiv({n}, 64), threads=128) as {block}:
        A_shared = T.alloc_shared((64, 32), T.float16)
        B_shared = T.alloc_shared((32, 64), T.float16)
        {fragment} = T.alloc_fragment((64, 64), T.float32)
        for {serial} in T.serial(T.ceildiv({m}, 64)):
            {let} = {serial} * 64
            T.copy({bias}[{let}, {block} * 64], {fragment})
            for {pipelined} in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy({a}[{let}, {pipelined} * 32], A_shared)
                T.copy({b}[{pipelined} * 32, {block} * 64], B_shared)
                T.gemm(A_shared, B_shared, {fragment})
            T.copy({fragment}, {out}[{let}, {block} * 64])
    return {out}
"""
ROLES = ("a", "b", "bias", "out", "m", "n", "block", "fragment", "serial", "let", "pipelined")
WORDS = ("row", "column", "thread", "lane", "warp", "stage", "mi", "ni", "r", "a", "b", "i", "kk", "stream")


def named(folder: Path, kernel: str, names: dict[str, str]) -> Callable[..., Any]:
    """The program of SOURCE with other names for its parts."""
    text = SOURCE.format(kernel=kernel, **names)
    file = folder / "program.py"
    file.write_text(text)
    scope: dict[str, Any] = {"T": T, "tilegen": tilegen}
    exec(compile(text, str(file), "exec"), scope)
    function: Callable[..., Any] = scope[kernel]
    return function


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("turn", range(3))
def test_any_name_will_do(
    turn: int, target: str, tmp_path: Path, require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    words = WORDS[4 * turn :] + WORDS[: 4 * turn]
    names = dict(zip(ROLES, words, strict=False))
    kernel = tilegen.jit(named(tmp_path, words[0], names))
    rng = np.random.default_rng(turn)
    left, right = (rng.standard_normal(shape).astype(np.float16) for shape in ((136, 72), (72, 80)))
    bias = rng.standard_normal((136, 80)).astype(np.float32)
    arrays = (left, right, bias)
    specs = () if turn == 1 else tuple(T.Tensor(array.shape, array.dtype.name) for array in arrays)
    found = kernel.emit(*specs, target=target).emulate(*arrays, schedule="random", asynchronous="lazy")
    expected = left.astype(np.float64) @ right.astype(np.float64) + bias
    assert np.linalg.norm(found - expected) < 1e-5 * np.linalg.norm(expected)


def test_names_without_a_clash_stay(tmp_path: Path) -> None:
    names = dict(zip(ROLES, ("A", "B", "D", "C", "M", "N", "bx", "acc", "by", "first", "k"), strict=True))
    program = parse(named(tmp_path, "plain", names), {}, {})
    generated = generate(program, "sm_80")
    assert generated.program.tensors == program.tensors
    assert not any(f"{name}_ " in generated.source for name in names.values())


def test_launchers_have_parameters_of_their_own(tmp_path: Path) -> None:
    words = ("scaled", "stream", "blocks", "error", "multiprocessors", "tiles")
    names = dict(zip(ROLES, (*words, "bx", "acc", "by", "first", "k"), strict=True))
    text = generate(parse(named(tmp_path, "scaled", names), {}, {}), "sm_90a").source
    assert text.count("cudaStream_t stream)") == 1
    assert "half* __restrict__ stream," not in text
    assert "scaled_" in text


@pytest.mark.parametrize("word", ["device", "multiprocessors", "tiles", "blocks", "error"])
def test_launchers_of_persistent_kernels_have_names_of_their_own(word: str) -> None:
    @tilegen.jit
    def copied(X, block: int = 64):
        N, rows = T.const(f"{word}, rows")
        X: T.Tensor((rows, N), T.float32)
        Y = T.empty((rows, N), T.float32)
        with T.Kernel(T.ceildiv(N, block), rows, threads=128, persistent=True) as (x, y):
            tile = T.alloc_shared((1, block), T.float32)
            for _ in T.Pipelined(2, num_stages=2):
                T.copy(X[y, x * block], tile)
                T.copy(tile, Y[y, x * block])
        return Y

    source = copied.emit(target="sm_90a").source
    assert "multiprocessors = 0;" in source
    assert f"int {word}_, int rows" in source[source.index("_launch(") :]


def test_unused_names_vanish_with_those_that_only_they_mention() -> None:
    used = Expression(c.call("use", "x"))
    body = [
        Declare("int", "x", Literal(1), const=True),
        Declare("int", "y", Name("x"), const=True),
        IfC(Name("x"), (Declare("int", "z", Name("y"), const=True), used)),
        Declare("int", "kept", Literal(2), const=True),
    ]
    assert without_unused(body, ["x", "y", "z"]) == [body[0], IfC(Name("x"), (used,)), body[3]]


def test_unused_names_vanish_where_another_block_needs_theirs() -> None:
    """Producer and consumers each declare the tile's position; one of them may not need it."""
    declared = Declare("int", "x", Literal(1), const=True)
    used, other = Expression(c.call("use", "x")), Expression(c.call("use", "y"))
    body = [
        IfC(Name("p"), (declared, used)),
        Scope((declared, other)),
        declared,
        IfC(Name("p"), (used,)),
        declared,
    ]
    assert without_unused(body, ["x"]) == [body[0], Scope((other,)), *body[2:4]]


def test_a_comment_goes_with_the_definition_that_it_quotes() -> None:
    """Also where what stands behind the definition has no comment of its own."""
    wait = Expression(c.call("wait", "full"))
    body = [Comment("p.py:3  k = index[n]"), Declare("int", "k", Name("n"), const=True), wait]
    assert without_unused(body, ["k"]) == [wait]
    assert without_unused([*body, Expression(c.call("use", "k"))], ["k"])[:3] == body
    other = [Comment("p.py:3  T.copy(A[k], a)"), *body[1:]]
    assert without_unused(other, ["k"]) == [other[0], wait]


def halves(A, B):  # type: ignore[no-untyped-def]
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)  # type: ignore[valid-type]
    B: T.Tensor((N, K), T.float16)  # type: ignore[valid-type]
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 64) * 2, T.ceildiv(M, 64), threads=128, persistent=True) as (x, y):
        A_shared = T.alloc_shared((64, 64), T.float16)
        B_shared = T.alloc_shared((64, 64), T.float16)
        total = T.alloc_fragment((64, 64), T.float32)
        column, part = x // 2, x % 2
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(K, 128), num_stages=2):
            T.copy(A[y * 64, (2 * k + part) * 64], A_shared)
            T.copy(B[column * 64, (2 * k + part) * 64], B_shared)
            T.gemm(A_shared, B_shared, total, transpose_B=True)
        T.atomic_add(C[y * 64, column * 64], total)
    return C


def test_consumers_do_not_name_what_only_the_producer_needs() -> None:
    a, b = T.Tensor((128, 256), T.float16), T.Tensor((192, 256), T.float16)
    text = generate(parse(halves, {"A": a, "B": b}, {}), "sm_90a").source
    producer, consumers = text[text.index("- producer") :].split("- consumers")
    assert "const int part = x % 2;" in producer and "const int part" not in consumers
    assert "const int column = x / 2;" in producer and "const int column = x / 2;" in consumers


def constants_form(kA, kB):  # type: ignore[no-untyped-def]
    M, N, K = T.const("M, N, K")
    kA: T.Tensor((M, K), T.float16)  # type: ignore[valid-type]
    kB: T.Tensor((K, N), T.float16)  # type: ignore[valid-type]
    kC = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (x, y):
        kA_shared = T.alloc_shared((64, 32), T.float16)
        kB_shared = T.alloc_shared((32, 64), T.float16)
        kTotal = T.alloc_fragment((64, 64), T.float32)
        T.clear(kTotal)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(kA[y * 64, k * 32], kA_shared)
            T.copy(kB[k * 32, x * 64], kB_shared)
            for i, j in T.Parallel(64, 32):
                kA_shared[i, j] += kA[y * 64 + i, 0]
            T.gemm(kA_shared, kB_shared, kTotal)
        T.copy(kTotal, kC[y * 64, x * 64])
    return kC


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx90a", "gfx942"])
def test_names_of_the_form_of_constants(target: str) -> None:
    """And what the text names after them."""
    specs = {"kA": T.Tensor((130, 96), T.float16), "kB": T.Tensor((96, 136), T.float16)}
    text = generate(parse(constants_form, specs, {}), target).source
    assert ("kC__window" in text) == target.startswith("gfx")


@tilegen.jit(target="sm_80")
def scaled_rows(A, block: int = 256):
    m, n = T.const("m, n")
    A: T.Tensor((m, n), T.float16)
    B = T.empty((m, n), T.float16)
    with T.Kernel(T.ceildiv(n, block), m, threads=32) as (bx, v):
        for c in T.Parallel(block):
            B[v, bx * block + c] = A[v, bx * block + c] * 2
    return B


def test_the_text_gives_way_where_a_loop_of_its_own_would_hide_a_name() -> None:
    source = scaled_rows.emit().source
    assert "const int v = blockIdx.y;" in source and "int m, int n, cudaStream_t" in source
    assert "for (int e = 0; e < 8; ++e)" in source
    assert not re.search(r"\b[nv]_\b", source)


def test_transposed_tiles_of_a_program_with_n(tmp_path: Path) -> None:
    names = dict(zip(ROLES, ("A", "B", "D", "C", "m", "n", "bx", "acc", "by", "first", "k"), strict=True))
    for target in ("gfx942", "sm_80", "sm_90a"):
        source = generate(parse(named(tmp_path, "plain", names), {}, {}), target).source
        assert "int m, int n, int K" in source and not re.search(r"\bn_\b", source)
