"""The form of errors."""

from __future__ import annotations

import io

from frontend_programs import matmul_relu

import tilegen.language as T
from tilegen.diagnostics import ProgramError, closest, register_source
from tilegen.frontend import parse
from tilegen.ir.verify import verify
from tilegen.location import Location

register_source(
    "examples/demo.py",
    10,
    [
        "A_shared = T.alloc_shared((128, 32), T.float16)",
        "",
        "\tT.copy(",
        "\t    A,",
        "\t    B,",
        "\t    C,",
        "\t)",
    ],
)
ONE_LINE = Location("examples/demo.py", 10, 11, 10, 47, "A_shared = …")
MANY_LINES = Location("examples/demo.py", 12, 1, 16, 2, "T.copy(A, B, C)")


def test_the_whole_text() -> None:
    error = ProgramError(
        MANY_LINES,
        "the shapes differ",
        remedy="slice the larger side",
        related=[(ONE_LINE, "A_shared is declared here")],
    )
    assert str(error) == (
        "error: the shapes differ\n"
        "  --> examples/demo.py:12:2\n"
        "   |\n"
        "12 | \tT.copy(\n"
        "   | \t^^^^^^^\n"
        "13 | \t    A,\n"
        "   | \t    ^^\n"
        "   …\n"
        "15 | \t    C,\n"
        "   | \t    ^^\n"
        "16 | \t)\n"
        "   | \t^\n"
        "note: A_shared is declared here\n"
        "  --> examples/demo.py:10:12\n"
        "   |\n"
        "10 | A_shared = T.alloc_shared((128, 32), T.float16)\n"
        "   |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "   = help: slice the larger side"
    )


def test_text_without_known_source() -> None:
    place = Location("gone.py", 7, 4, 7, 9, "T.clear(x)")
    assert str(ProgramError(place, "no")) == (
        "error: no\n --> gone.py:7:5\n  |\n7 | T.clear(x)\n  | ^^^^^^^^^^"
    )
    nowhere = Location("gone.py", 7)
    assert str(ProgramError(nowhere, "no")) == "error: no\n --> gone.py:7:1"


def test_colours_do_not_change_the_text() -> None:
    from rich.console import Console

    error = ProgramError(ONE_LINE, "wrong [brackets]", remedy="right")
    plain, colour = io.StringIO(), io.StringIO()
    error.render(Console(file=plain, width=40, color_system=None))
    error.render(Console(file=colour, width=40, color_system="standard", force_terminal=True))
    assert plain.getvalue() == f"{error}\n"
    assert "\x1b[1;31merror: wrong [brackets]" in colour.getvalue()


def test_an_error_keeps_its_text_when_the_source_changes() -> None:
    register_source("changing.py", 1, ["old"])
    error = ProgramError(Location("changing.py", 1, 0, 1, 3, "old"), "no")
    register_source("changing.py", 1, ["new"])
    assert "1 | old" in str(error)


def test_the_readers_example() -> None:
    """A GEMM whose shared tile has the wrong shape, as a user sees it."""

    def wrong(A, B):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), T.float16)
        B: T.Tensor((K, N), T.float16)
        C = T.empty((M, N), T.float16)
        with T.Kernel(M, N) as (bx, by):
            A_shared = T.alloc_shared((128, 32), T.float16)
            B_shared = T.alloc_shared((64, 128), T.float16)
            C_local = T.alloc_fragment((128, 128), T.float32)
            T.copy(A[bx, 0], A_shared)
            T.copy(B[0, by], B_shared)
            T.gemm(A_shared, B_shared, C_local, clear_accum=True)
            T.copy(C_local, C[bx, by])
        return C

    try:
        verify(parse(wrong))
    except ProgramError as error:
        lines = str(error).split("\n")
    assert (
        lines[0] == "error: T.gemm needs one K, but A_shared (128, 32) has 32 and B_shared (64, 128) has 64"
    )
    assert lines[3].endswith("            T.gemm(A_shared, B_shared, C_local, clear_accum=True)")
    assert lines[5] == "note: A_shared is declared here, float16[128, 32]"
    verify(parse(matmul_relu))


def test_closest_names() -> None:
    names = ["transpose_A", "transpose_B", "policy", "float8_e4m3fn", "float16"]
    assert closest("transpose_b", names) == ["transpose_B"]
    assert closest("float8", names) == ["float8_e4m3fn"]
    assert closest("polcy", names) == ["policy"]
    assert closest("zzz", names) == []
