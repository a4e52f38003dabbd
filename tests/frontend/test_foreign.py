"""What TileLang's programs say to its own compiler: warnings for what only tunes, remedies for the rest."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from frontend_faults import fault
from test_wrong_tile_operations import _program

import tilegen
import tilegen.language as T
from tilegen.frontend import parse
from tilegen.ir.printer import to_text

TUNING = [
    # statement, what it says without the tuning, the warning
    ("T.copy(X[0, 0], A, disable_tma=True)", "T.copy(X[0, 0], A)",
     "tilegen's T.copy has no 'disable_tma': the option changes nothing"),
    ("T.copy(X[0, 0], A, coalesced_width=8)", "T.copy(X[0, 0], A)", "no 'coalesced_width'"),
    ("for i in T.Parallel(64, coalesced_width=2): v[i] = 0", "for i in T.Parallel(64): v[i] = 0",
     "tilegen's T.Parallel has no 'coalesced_width'"),
    ("T.no_set_max_nreg()", "pass", "T.no_set_max_nreg changes nothing"),
    ("T.disable_warp_group_reg_alloc()", "pass", "T.disable_warp_group_reg_alloc changes nothing"),
    ("T.annotate_l2_hit_ratio({X: 0.5})", "pass", "T.annotate_l2_hit_ratio changes nothing"),
    ("T.annotate_layout({A: tilegen.layout.make_swizzled_layout(A)})", "pass", "annotating A changes nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "plain", "sentence"), TUNING)
def test_what_only_tunes_is_warned_of_at_its_line(statement: str, plain: str, sentence: str) -> None:
    with pytest.warns(UserWarning, match=sentence) as caught:
        tuned = parse(_with_tilegen(statement))
    assert [warning.lineno for warning in caught] == [12]
    assert _lines(tuned) == _lines(parse(_with_tilegen(plain)))


def _lines(program: Any) -> list[str]:
    """The program as text, without the line that has the digest of its source."""
    return to_text(program).splitlines()[1:]


def _with_tilegen(statement: str) -> Any:
    program = _program(statement)
    program.__globals__["tilegen"] = tilegen
    return program


WRONG = [
    ("T.copy(X[0, 0], A, coalescd=8)", "T.copy has no argument coalescd", "its arguments are src, dst"),
    ('T.alloc_fragment((1,), T.int32, "local")', "the scope of T.alloc_fragment is 'local.fragment', not 'local'",
     "an array of each thread's own is T.alloc_local(shape, dtype), a scalar T.alloc_var(dtype)"),
    ('T.alloc_local((1,), T.int32, "shared.dyn")', "the scope of T.alloc_local is 'local'", "T.alloc_shared allocates"),
    ("T.alloc_global((4,), T.float32)", "the tile language has no word T.alloc_global", "pass a tensor as a parameter"),
    ("T.device_assert(bx < 4)", "the tile language has no word T.device_assert", "T.assume states what must hold"),
    ("T.cumsum(A)", "the tile language has no word T.cumsum", "b[i] = a[i] + a[i - step] where i >= step"),
    ("T.tma_copy(X[0, 0], A)", "the tile language has no word T.tma_copy", "write T.copy"),
    ("T.loop_break()", "the tile language has no word T.loop_break", "under an if"),
    ("T.set_max_nreg(24, 0)", "the tile language has no word T.set_max_nreg", "delete it: the schedule decides"),
    ("T.annotate_layout({A: tilegen.layout.make_swizzled_layout(v)})", "make_swizzled_layout takes a shared tile",
     "pass what T.alloc_shared made"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "message", "remedy"), WRONG)
def test_what_cannot_be_honoured_says_what_to_write(statement: str, message: str, remedy: str) -> None:
    error = fault(_with_tilegen(statement))
    assert message in error.message
    assert remedy in error.remedy


def test_a_kernel_of_no_extents_says_how_to_write_one_block() -> None:
    error = fault(_program("pass", header="with T.Kernel(threads=1):"))
    assert "a grid has one to three axes, not 0" in error.message
    assert "T.Kernel(1, threads=128)" in error.remedy


def test_macros_and_registered_operations_keep_their_own_keywords() -> None:
    @T.macro
    def copy(tile, coalesced_width):
        T.fill(tile, coalesced_width)

    program = _program("copy(A, coalesced_width=8)")
    program.__globals__["copy"] = copy
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse(program)
