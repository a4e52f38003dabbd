"""Element-wise work that only feeds a reduction is done inside it, and stays where something else needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import folded_programs as programs
import numpy as np
import pytest
from emulation import emulated, generated, kernel_text, relative_error

Array = np.ndarray[Any, Any]
TARGETS = ("sm_80", "sm_89", "sm_90a", "gfx90a", "gfx942", "gfx950")
FLOAT_KINDS: dict[str, Callable[..., Array]] = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "abssum": lambda x, axis: np.abs(x).sum(axis),
    "absmax": lambda x, axis: np.abs(x).max(axis),
}
INTEGER_KINDS: dict[str, Callable[..., Array]] = {
    "any": lambda x, axis: (x != 0).any(axis),
    "all": lambda x, axis: (x != 0).all(axis),
    "bitand": np.bitwise_and.reduce,
    "bitor": np.bitwise_or.reduce,
    "bitxor": np.bitwise_xor.reduce,
}


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def _single(*shape: int) -> Array:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


# ------------------------------------------------------------------------------------------- results


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kind", FLOAT_KINDS)
def test_every_kind_along_both_axes(kind: str, dim: int) -> None:
    target = TARGETS[(list(FLOAT_KINDS).index(kind) + 3 * dim) % len(TARGETS)]
    x = 1.5 + _single(8, 229) / 100 if kind == "prod" else _single(8, 229)
    (result,) = emulated(programs.deviations, target, [x], {"schedule": "random"}, kind=kind, dim=dim)
    tiles = (x.astype(np.float64).reshape(2, 4, 229) - 0.5) ** 2
    both = np.concatenate([tiles, 0.75 * tiles + 0.25], axis=1 + dim)
    assert relative_error(result, FLOAT_KINDS[kind](both, axis=1 + dim)) < 1e-5


@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_every_kind_of_integers(kind: str) -> None:
    target = TARGETS[list(INTEGER_KINDS).index(kind)]
    x = np.random.default_rng(5).integers(-(2**20), 2**20, (6, 100)).astype(np.int32)
    x[1], x[2, 7] = 0, 1
    x[3:] |= 10
    (result,) = emulated(programs.bits, target, [x], kind=kind)
    assert np.array_equal(result, INTEGER_KINDS[kind]((x >> 1) & 0x0FFF, axis=1).astype(np.int32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("columns", "rows", "threads"), [(1000, 2, 128), (96, 8, 64), (4096, 1, 256)])
def test_an_element_with_names_of_its_own(columns: int, rows: int, threads: int, target: str) -> None:
    x = _single(11, columns).astype(np.float16)
    (result,) = emulated(programs.named, target, [x], bm=rows, cols=columns, threads=threads)
    below = x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True)
    assert relative_error(result, (np.exp(below) * below * (1 + np.arange(columns))).sum(1)) < 1e-5


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_a_narrow_source_still_rounds(target: str) -> None:
    x = _single(9, 512)
    (result,) = emulated(programs.rounded, target, [x])
    squares = (x * x).astype(np.float16).astype(np.float64).sum(1)
    assert relative_error(result, squares) < 1e-6


@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_squares_over_tiles(target: str) -> None:
    x = _single(100, 200)
    (result,) = emulated(programs.running_squares, target, [x], {"schedule": "reverse"})
    assert relative_error(result, (x.astype(np.float64) ** 2).sum(1)) < 1e-5


@pytest.mark.parametrize("target", TARGETS)
def test_squares_of_accumulators(target: str) -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((150, 192), (192, 64)))
    options = {"asynchronous": "lazy", "schedule": "random"}
    (result,) = emulated(programs.row_norms, target, [a, b], options)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert relative_error(result, (exact**2).sum(1)) < 1e-4


@pytest.mark.parametrize("place", programs.PLACES)
def test_what_must_stay_apart_is_right(place: str) -> None:
    target = TARGETS[programs.PLACES.index(place)]
    x = _single(7, 96)
    (result,) = emulated(programs.kept, target, [x], place=place)
    exact = x.astype(np.float64)
    expected = (exact**2).sum(1) * (2 if place == "target read" else 1)
    expected += {
        "two readers": (exact**2).max(1),
        "source used later": (exact**2).max(1) + 1,
        "operand changed": exact.max(1) + 1,
    }.get(place, 0.0)
    assert relative_error(result, expected) < 1e-5


# ------------------------------------------------------------------------------------------- text


def test_no_array_is_left_and_both_statements_are_quoted() -> None:
    text = generated(programs.deviations, "sm_90a", [_single(8, 512)], cols=512).source
    assert "away[" not in text.replace("away[i, j] =", "") and "// away" not in text
    lines = [line.strip() for line in text.splitlines()]
    above = lines.index(next(line for line in lines if line.endswith("T.reduce(away, y, kind, dim=dim)")))
    assert lines[above - 1].endswith("away[i, j] = (x[i, j] - 0.5) * (x[i, j] - 0.5)")
    assert "y[0] += (x[mi][0] - 0.5f) * (x[mi][0] - 0.5f) + (x[mi][1] - 0.5f) * (x[mi][1] - 0.5f) +" in lines


def test_names_of_an_element_stand_in_the_loop() -> None:
    text = kernel_text(generated(programs.named, "sm_90a", [_single(8, 1000).astype(np.float16)], bm=1))
    assert "const float below = static_cast<float>(x[r]) - top[0];" in text
    assert "weighed[" not in text.replace("weighed[i, j] =", "")


def test_lanes_of_a_folded_sum_meet_behind_its_loop() -> None:
    text = kernel_text(generated(programs.running_squares, "sm_90a", [_single(100, 200)]))
    assert "total[ri]" in text or "total[r]" in text or "total[" in text
    assert "squares[" not in text.replace("squares[i, j] =", "") and "part[" not in text.replace(
        "part[i]", ""
    )


@pytest.mark.parametrize("place", programs.PLACES)
def test_what_something_else_needs_stays(place: str) -> None:
    text = kernel_text(generated(programs.kept, "sm_90a", [_single(7, 96)], place=place))
    assert "float squares[" in text or ", squares[" in text
