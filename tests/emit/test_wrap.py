"""What the printer lays out, clang-format leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from clang_format_tool import clang_format
from random_model import long_statement, statement

from tilegen.emit.lines import COLUMNS, Line, logical_lines
from tilegen.emit.printer import print_statements
from tilegen.emit.wrap import physical_lines


def nested(lines: list[str], indent: int) -> str:
    """The lines inside a function and as many loops as their indent wants."""
    depth = indent // 2
    before = ["void f() {"] + ["  " * level + "while (true) {" for level in range(1, depth)]
    after = ["  " * level + "}" for level in range(depth - 1, 0, -1)] + ["}"]
    return "\n".join([*before, *lines, *after]) + "\n"


def check_unchanged(require_tool: Callable[[str], None], functions: list[str]) -> None:
    """All functions at once; shows those that clang-format changes."""
    text = "\n".join(functions)
    formatted = clang_format(require_tool, text)
    if formatted != text:
        ours, theirs = text.split("void f() {"), formatted.split("void f() {")
        for mine, wanted in zip(ours, theirs, strict=True):
            assert mine.strip() == wanted.strip()


@pytest.mark.parametrize("seed", range(3))
def test_long_statements_are_fixed_points(require_tool: Callable[[str], None], seed: int) -> None:
    random = Random(seed)
    functions: list[str] = []
    while len(functions) < 120:
        indent = 2 * random.randrange(1, 6)
        logical = print_statements((long_statement(random),), "cuda", indent)
        longest = max(len(line.text) for line in logical)
        if COLUMNS < longest <= 400:
            functions.append(nested(physical_lines(logical), indent))
    check_unchanged(require_tool, functions)


@pytest.mark.parametrize("seed", range(3))
def test_blocks_comments_and_directives_are_fixed_points(
    require_tool: Callable[[str], None], seed: int
) -> None:
    random = Random(seed)
    functions = []
    while len(functions) < 120:
        body = tuple(statement(random, 3) for _ in range(random.randrange(2, 7)))
        lines = print_statements(body, "cuda", 2)
        if len(lines) > 1:
            functions.append("void f() {\n" + "\n".join(physical_lines(lines)) + "\n}\n")
    check_unchanged(require_tool, functions)


SIGNATURES = [
    'extern "C" __global__ void __launch_bounds__(kThreads, 1) f(const __grid_constant__ CUtensorMap A, '
    "const __grid_constant__ CUtensorMap B, const __grid_constant__ CUtensorMap C, int M, int N, int K) {",
    'extern "C" cudaError_t attention_launch(const half* Q, const half* K, const half* V, half* O, float* LSE, int B, '
    "int S_q, int S_k, int H, int H_kv, float scale, cudaStream_t stream) {",
    "cudaError_t encode_tensor_map(CUtensorMap* map, const void* data, const cuuint64_t (&extents)[2], "
    "const cuuint64_t (&strides)[2], const cuuint32_t (&box)[2]) {",
]


@pytest.mark.parametrize("signature", SIGNATURES)
def test_signatures_are_fixed_points(require_tool: Callable[[str], None], signature: str) -> None:
    lines = physical_lines([Line(signature)])
    assert len(lines) > 1
    text = "\n".join([*lines, "  first();", "  second();", "}"]) + "\n"
    assert clang_format(require_tool, text) == text


def test_comments_of_neighbours_share_a_column_while_they_fit() -> None:
    lines = [Line("a;", "x"), Line("long_name;", "y"), Line("b;"), Line("c;", "z")]
    assert physical_lines(lines) == ["a;          // x", "long_name;  // y", "b;", "c;  // z"]


def test_comments_that_would_pass_the_limit_stay_apart() -> None:
    lines = [Line("a;", "x" * 110), Line("f(" + "b" * 60 + ");", "y")]
    assert physical_lines(lines)[0] == "a;  // " + "x" * 110


def test_a_comment_above_a_directive_is_not_taken_for_a_continuation() -> None:
    lines = [
        Line("a;", "x", 2),
        Line("", "about the loop", 2),
        Line("#pragma unroll"),
        Line("for (;;) b;", "", 2),
    ]
    assert physical_lines(lines) == [
        "  // x",
        "  a;",
        "  // about the loop",
        "#pragma unroll",
        "  for (;;) b;",
    ]


def test_template_text_is_joined_before_it_is_broken() -> None:
    lines = logical_lines("f(a,\n  b,  // why\n  c);\n\n// ( alone\ng();")
    assert [line.text for line in lines] == ["f(a, b, c);  // why", "", "// ( alone", "g();"]


@pytest.mark.parametrize("depth", [3, 5, 7])
def test_deep_nests_of_calls_are_laid_out_at_once(require_tool: Callable[[str], None], depth: int) -> None:
    """The ways to break one are more than can be looked at; clang-format gives up at the same place."""
    value = "static_cast<float>(shared.B_shared[stage][i][(i % 32) ^ (8 * (i % 4)) ^ (8 * (i / 8 % 4))])"
    for level in range(depth):
        value = f"static_cast<float>(static_cast<bf16>(fmaxf({value}, -{level}.0f)))"
    check_unchanged(require_tool, [nested(physical_lines([Line(f"row[v] = {value};", "", 8)]), 8)])
