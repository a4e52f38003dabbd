"""Reductions of every kind, axis and width, run as emitted text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tile_programs as programs
from emulation import TARGETS, emulated, generated, kernel_text, relative_error

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def _single(*shape: int) -> Array:
    return np.random.default_rng(4).standard_normal(shape).astype(np.float32)


FLOAT_KINDS: dict[str, Callable[..., Array]] = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "abssum": lambda x, axis: np.abs(x).sum(axis),
    "absmax": lambda x, axis: np.abs(x).max(axis),
}
INTEGER_KINDS: dict[str, Callable[..., Array]] = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "any": lambda x, axis: (x != 0).any(axis).astype(np.int32),
    "all": lambda x, axis: (x != 0).all(axis).astype(np.int32),
    "bitand": lambda x, axis: np.bitwise_and.reduce(x, axis),
    "bitor": lambda x, axis: np.bitwise_or.reduce(x, axis),
    "bitxor": lambda x, axis: np.bitwise_xor.reduce(x, axis),
}
WIDTHS = [
    (96, 4, 128),
    (100, 1, 128),
    (127, 1, 128),
    (229, 4, 128),
    (64, 3, 96),
    (1000, 2, 64),
    (1003, 1, 128),
    (4096, 1, 256),
    (5000, 1, 256),
]


@pytest.mark.parametrize("kind", FLOAT_KINDS)
def test_float_reductions(kind: str) -> None:
    target = TARGETS[list(FLOAT_KINDS).index(kind) % len(TARGETS)]
    x = _single(6, 229) if kind != "prod" else 1 + _single(6, 229) / 100
    (result,) = emulated(programs.row_reduction, target, [x], kind=kind)
    assert relative_error(result, FLOAT_KINDS[kind](x.astype(np.float64), axis=1)) < 1e-5


@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_integer_reductions(kind: str) -> None:
    x = np.random.default_rng(5).integers(-(2**20), 2**20, (6, 100)).astype(np.int32)
    x[1] = 0
    x[2, 7] = 0
    x[3:] |= 5
    (result,) = emulated(programs.integer_reduction, "sm_90a", [x], kind=kind)
    assert np.array_equal(result, INTEGER_KINDS[kind](x, axis=1).astype(np.int32))


@pytest.mark.parametrize("target", ["sm_90a", "gfx942"])
@pytest.mark.parametrize(("columns", "rows", "threads"), WIDTHS)
def test_widths_that_threads_do_not_divide(columns: int, rows: int, threads: int, target: str) -> None:
    if threads % 64 and target == "gfx942":
        threads = 192
    x = _single(7, columns)
    (result,) = emulated(programs.row_reduction, target, [x], cols=columns, bm=rows, threads=threads)
    assert relative_error(result, x.astype(np.float64).sum(1)) < 1e-5


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_along_the_first_axis_across_warps_in_half_precision(kind: str) -> None:
    x = np.random.default_rng(6).standard_normal((100, 130)).astype(np.float16)
    (result,) = emulated(programs.column_reduction, "sm_80", [x], kind=kind)
    assert relative_error(result, FLOAT_KINDS[kind](x.astype(np.float64), axis=0)) < 1e-3


@pytest.mark.parametrize("schedule", ["fifo", "reverse", "random"])
@pytest.mark.parametrize("kind", ["sum", "max", "prod"])
def test_the_old_value_counts_once(kind: str, schedule: str) -> None:
    x = 1 + _single(3, 144) / 100
    options = {"schedule": schedule, "seed": 2}
    (result,) = emulated(programs.running_reduction, "sm_80", [x], options, kind=kind)
    exact = x.astype(np.float64)
    expected = {"sum": 1 + exact.sum(1), "max": np.maximum(1, exact.max(1)), "prod": exact.prod(1)}[kind]
    assert relative_error(result, expected) < 1e-5


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("kind", ["any", "all"])
def test_whether_elements_differ_from_zero(kind: str, dtype: type, target: str) -> None:
    """Of floats as well; an old value counts as 0 or 1, whatever number it is."""
    rng = np.random.default_rng(9)
    for dim, clear in ((0, True), (1, True), (0, False), (1, False)):
        x = (rng.integers(0, 3, (16, 40)) * (rng.random((16, 40)) < 0.05)).astype(dtype)
        if kind == "all":
            x = np.where(x == 0, 2, 0).astype(dtype)
        old = rng.integers(0, 3, x.shape[1 - dim]).astype(dtype)
        parameters = {"kind": kind, "dim": dim, "clear": clear, "dtype": np.dtype(dtype).name}
        (found,) = emulated(programs.logical_reduction, target, [x, old], **parameters)
        expected = (x != 0).any(dim) if kind == "any" else (x != 0).all(dim)
        if not clear:
            expected = expected | (old != 0) if kind == "any" else expected & (old != 0)
        np.testing.assert_array_equal(found, expected.astype(dtype))


@pytest.mark.parametrize("target", TARGETS)
def test_softmax(target: str) -> None:
    x = _single(6, 1024).astype(ml_dtypes.bfloat16)
    (result,) = emulated(programs.softmax, target, [x])
    exact = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    assert relative_error(result, exact / exact.sum(1, keepdims=True)) < 5e-3


@pytest.mark.parametrize("columns", [229, 1000])
def test_layer_norm(columns: int) -> None:
    x = np.random.default_rng(7).standard_normal((3, columns)).astype(np.float16)
    gain = np.random.default_rng(8).standard_normal(columns).astype(np.float16)
    (result,) = emulated(programs.layer_norm, "sm_90a", [x, gain], cols=columns)
    exact = x.astype(np.float64)
    normal = (exact - exact.mean(1, keepdims=True)) / np.sqrt(exact.var(1, keepdims=True) + 1e-5)
    assert relative_error(result, normal * gain.astype(np.float64)) < 1e-3


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("stages", [1, 2])
def test_attention(stages: int, target: str) -> None:
    rng = np.random.default_rng(9)
    q, k, v = (rng.standard_normal((rows, 64)).astype(np.float16) for rows in (150, 200, 200))
    output, log_sum = emulated(programs.attention, target, [q, k, v], stages=stages)
    scores = q.astype(np.float64) @ k.astype(np.float64).T / 8
    top = scores.max(1, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(1, keepdims=True)
    assert relative_error(output, weights @ v.astype(np.float64) / total) < 1e-3
    assert relative_error(log_sum, (top + np.log(total))[:, 0]) < 1e-5


# ------------------------------------------------------------------------------------------- text


def test_whole_warps_on_rows_need_no_shared_memory() -> None:
    text = kernel_text(generated(programs.row_reduction, "sm_90a", [_single(8, 4096)], cols=4096))
    assert "shared" not in text and "__shfl_xor_sync" in text


def test_two_warps_meet_in_one_statement() -> None:
    """Two waves of 64 share a row of 128 threads, four warps of 32 take a loop."""
    waves = kernel_text(generated(programs.row_reduction, "gfx942", [_single(8, 4096)], cols=4096, bm=1))
    assert re.search(r"(\w+)\[0\] = shared\.\1_partials\[0\] \+ shared\.\1_partials\[1\];", waves)
    assert "int share" not in waves
    warps = kernel_text(generated(programs.row_reduction, "sm_90a", [_single(8, 4096)], cols=4096, bm=1))
    assert "for (int share = 1; share < 4; ++share)" in warps


def test_registers_beyond_the_tile_count_as_the_identity() -> None:
    text = kernel_text(generated(programs.row_reduction, "sm_90a", [_single(8, 229)], kind="max"))
    assert "column < kCols ? x[r] : -infinity()" in text


def test_reductions_across_warps_take_turns_and_wait_once_each() -> None:
    text = kernel_text(
        generated(programs.softmax, "sm_90a", [_single(8, 1024).astype(ml_dtypes.bfloat16)], bm=1)
    )
    assert text.count("__syncthreads();") == 2
    assert "top_partials[warp] = top[0]" in text and "total_partials[warp] = total[0]" in text


def test_a_tail_between_groups_of_registers_is_guarded_once_a_group() -> None:
    text = kernel_text(generated(programs.row_reduction, "sm_90a", [_single(8, 5000)], cols=5000, bm=1))
    assert "if (column < kCols) y[0] += x[mi][0] + x[mi][1] + (x[mi][2] + x[mi][3]);" in text
    assert "?" not in text[text.index("T.reduce(") : text.index("shfl")]
