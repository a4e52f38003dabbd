"""Lists in braces, compared with clang-format."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from clang_format_tool import clang_format

from tilegen.emit.columns import in_columns
from tilegen.emit.lines import Line
from tilegen.emit.wrap import physical_lines


@pytest.mark.parametrize("seed", range(3))
def test_lists_are_fixed_points(require_tool: Callable[[str], None], seed: int) -> None:
    random = Random(seed)
    functions = []
    while len(functions) < 80:
        item = random.choice(
            ["V_next[{}][n]", "-infinity()", "{}.0f", "f(x, {})", "a[{}] + b[{}]", "half(1.0f)"]
        )
        count = random.randrange(6, 40)
        items = [item.replace("{}", str(random.choice([3, 7, 12, 100]))) for _ in range(count)]
        name = random.choice(["fp16x8 elements", "float m[12]", "const half2 fragment[8]"])
        code = f"{name} = {{{', '.join(items)}}};"
        if 2 + len(code) > 120:
            functions.append("\n".join(["void f() {", *physical_lines([Line(code, "", 2)]), "}"]))
    text = "\n".join(functions) + "\n"
    formatted = clang_format(require_tool, text)
    for mine, wanted in zip(text.split("void f()"), formatted.split("void f()"), strict=True):
        assert mine.strip() == wanted.strip()


def test_other_statements_are_left_alone() -> None:
    assert in_columns("x = {a, b, c};", 2) == []
    assert in_columns("f(a, b, c, d, e, f, g);", 2) == []
    assert in_columns("x = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}};", 2) == []
