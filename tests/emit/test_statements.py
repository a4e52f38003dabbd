"""The printed form of every statement: braces, comments, directives, empty lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from clang_format_tool import clang_format

from tilegen.emit.printer import print_statements
from tilegen.emit.wrap import physical_lines
from tilegen.errors import TilegenError
from tilegen.model import build as c
from tilegen.model.expression_text import PrintError
from tilegen.model.expressions import Braces, CallC, Lambda, Literal, Name
from tilegen.model.statements import (
    AssignC,
    Banner,
    Blank,
    Break,
    Comment,
    CStmt,
    Declare,
    Expression,
    ForC,
    IfC,
    Return,
    Scope,
    Templated,
    WhileC,
)

f, x = Expression(CallC(Name("f"))), Name("x")


def text(*body: CStmt, indent: int = 0) -> str:
    return "\n".join(physical_lines(print_statements(body, "cuda", indent)))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (Declare("int", "i"), "int i;"),
        (Declare("int", "i", Literal(1), const=True, comment="one"), "const int i = 1;  // one"),
        (Declare("float", "C", dimensions=(Literal(4), Name("n"))), "float C[4][n];"),
        (Declare("float", "m", Braces(()), dimensions=(Literal(2),)), "float m[2] = {};"),
        (Declare("half", "s", dimensions=(Literal(8),), alignment=16), "alignas(16) half s[8];"),
        (Declare("S", "s", x, reference=True), "S& s = x;"),
        (
            Declare("half", "t", x, dimensions=(Literal(4),), const=True, reference=True),
            "const half (&t)[4] = x;",
        ),
        (Declare("auto", "", CallC(Name("f")), structured=("a", "b")), "const auto [a, b] = f();"),
        (Declare("Ring", "r", CallC(Name("Ring"), (Literal(1),))), "Ring r(1);"),
        (Declare("int", "i", Literal(1), comment=("row ", c.mul("w", 16))), "int i = 1;  // row 16 * w"),
        (AssignC(x, Literal(2)), "x = 2;"),
        (AssignC(x, Literal(2), op="+="), "x += 2;"),
        (Return(), "return;"),
        (Return(x), "return x;"),
        (Scope((f, Break())), "{\n  f();\n  break;\n}"),
        (WhileC(x, (f, f)), "while (x) {\n  f();\n  f();\n}"),
        (IfC(x, (f,)), "if (x) f();"),
        (IfC(x, (f,), constexpr=True), "if constexpr (x) f();"),
        (IfC(x, (f,), comment="why"), "if (x) f();  // why"),
        (IfC(x, (f,), (f,)), "if (x) {\n  f();\n} else {\n  f();\n}"),
        (IfC(x, (f,), (IfC(x, (f,)),)), "if (x) {\n  f();\n} else if (x) {\n  f();\n}"),
        (IfC(x, (IfC(x, (f,)),)), "if (x) {\n  if (x) f();\n}"),
        (Declare("auto", "g", Lambda((("int", "t"),), (f,))), "auto g = [&](int t) { f(); };"),
        (Declare("auto", "g", Lambda((), (f, f))), "auto g = [&]() {\n  f();\n  f();\n};"),
        (Declare("auto", "g", Lambda((), (f,), ("bx",))), "auto g = [&, bx = bx]() { f(); };"),
        (Comment("one\ntwo"), "// one\n// two"),
        (
            ForC("i", x, Name("n"), (f,), Literal(8), turns="t"),
            "for (int i = x, t = 0; i < n; i += 8, ++t) f();",
        ),
        (ForC("i", x, Name("n"), (f,), Literal(0), turns="t"), "for (int i = x, t = 0; i < n; ++t) f();"),
    ],
)
def test_form(statement: CStmt, expected: str) -> None:
    assert text(statement) == expected


def loop(*body: CStmt, unroll: bool | int | None = None, comment: str = "") -> ForC:
    return ForC("i", Literal(0), Name("n"), body, unroll=unroll, comment=comment)


def test_loops() -> None:
    head = "for (int i = 0; i < n; ++i)"
    assert text(loop(f)) == f"{head} f();"
    assert text(loop(f, f)) == f"{head} {{\n  f();\n  f();\n}}"
    assert text(loop(IfC(x, (f,)))) == f"{head}\n  if (x) f();"
    assert text(loop(loop(f))) == f"{head}\n  {head} f();"
    assert text(loop(f, comment="why")) == f"{head}  // why\n  f();"
    stepped = ForC("i", Literal(0), Name("n"), (f,), step=Literal(4), type_name="u32")
    assert text(stepped) == "for (u32 i = 0; i < n; i += 4) f();"


def test_unroll_directives_stand_at_column_0() -> None:
    assert text(loop(f, unroll=True), indent=4) == "#pragma unroll\n    for (int i = 0; i < n; ++i) f();"
    assert text(loop(f, unroll=4)).startswith("#pragma unroll 4\n")
    inner = loop(loop(f, unroll=True), unroll=True)
    assert text(inner).split("\n") == [
        "#pragma unroll",
        "for (int i = 0; i < n; ++i)",
        "#pragma unroll",
        "  for (int i = 0; i < n; ++i) f();",
    ]


def test_empty_lines_are_single_and_inside() -> None:
    assert text(Blank(), f, Blank(), Blank(), f, Blank()) == "f();\n\nf();"
    assert text(loop(Blank(), f, f, Blank())) == "for (int i = 0; i < n; ++i) {\n  f();\n  f();\n}"


def test_statements_of_one_line_with_their_comments_stand_close() -> None:
    one, two = [Comment("one"), f], [Comment("two"), loop(f, unroll=True)]
    first, second = "// one\nf();\n", "// two\n#pragma unroll\nfor (int i = 0; i < n; ++i) f();"
    assert text(*one, Blank(), *two) == first + second
    assert text(*one, Blank(), *two, f) == f"{first}\n{second}\nf();"
    assert text(f, Blank(), *two) == f"f();\n\n{second}"


def test_a_comment_that_does_not_fit_goes_above() -> None:
    remark = "word " * 22
    lines = text(
        AssignC(x, CallC(Name("a_rather_long_function"))), Declare("int", "y", x, comment=remark.strip())
    )
    assert lines.split("\n")[1:] == [f"// {remark.strip()}", "int y = x;"]
    assert all(len(line) <= 120 for line in text(Comment("word " * 60)).split("\n"))


def test_banners_end_at_one_column() -> None:
    outer, inner = text(Banner("kernel")), text(Banner("producer"), indent=2)
    assert outer.startswith("// ---") and outer.index(" kernel") == 96
    assert inner.startswith("  // ---") and inner.index(" producer") == 99


def test_a_structured_binding_without_a_value_is_an_error() -> None:
    with pytest.raises(PrintError, match="needs a value"):
        text(Declare("auto", "", structured=("a", "b")))


def test_templates_get_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import jinja2

    from tilegen.emit import templating

    folder = tmp_path / "cuda" / "operations"
    folder.mkdir(parents=True)
    (folder / "copy.j2").write_text(
        "{% for item in items %}\nload({{ item }}, {{ target }});  // c\n{% endfor %}\n"
    )
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(tmp_path), undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    monkeypatch.setattr(templating, "environment", lambda: made)
    body = Templated("copy.j2", (("items", (c.add("a", 1), 2)), ("target", c.index("tile", "k"))))
    assert text(body, indent=2) == "  load(a + 1, tile[k]);  // c\n  load(2, tile[k]);      // c"
    with pytest.raises(TilegenError, match="'target' is undefined"):
        text(Templated("copy.j2", (("items", (1,)),)))
    with pytest.raises(TilegenError, match="no template"):
        text(Templated("paste.j2", ()))


def test_a_lambda_that_does_more_than_its_first_comment_says_has_it_inside(
    require_tool: Callable[[str], None],
) -> None:
    """Comments that come first in a lambda, before a directive, have no indent that clang-format keeps."""
    parts = [
        part
        for tile in "KV"
        for part in (
            Blank(),
            Comment(f"T.copy({tile}[" + "b, " * 24 + f":], {tile}_shared)"),
            ForC("i", Literal(0), Literal(8), (Expression(CallC(Name(f"load_{tile}"))),), unroll=8),
        )
    ]
    one, both = (
        text(Declare("auto", "load", Lambda((), tuple(body)), const=True), indent=2)
        for body in (parts[1:3], parts[1:])
    )
    assert one.startswith("  // T.copy(K[")
    assert both.startswith("  const auto load = [&]() {\n#pragma unroll 8\n    // T.copy(K[")
    wrapped = f"void f() {{\n{both}\n}}\n"
    assert clang_format(require_tool, wrapped) == wrapped
