"""Element-wise statements, copies in every direction and exchanges, run as emitted text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tile_programs as programs
from emulation import TARGETS, emulated, generated, kernel_text, relative_error

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def _half(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float16)


def _single(*shape: int) -> Array:
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32)


def _mirrored(x: Array) -> Array:
    padded = np.pad(x, ((0, 0), (0, -x.shape[1] % 32)))
    return sum(padded[:, k : k + 32][:, ::-1] for k in range(0, padded.shape[1], 32))


def _dequantised(packed: Array, scales: Array) -> Array:
    values = np.stack([packed.astype(int) & 15, packed.astype(int) >> 4], -1).reshape(packed.shape[0], -1)
    return values * np.repeat(scales.astype(np.float64), 32, 1)


_PACKED = np.random.default_rng(3).integers(0, 256, (40, 32)).astype(np.uint8)


def test_what_is_known_of_an_element_is_not_asked_again() -> None:
    """Rows that no vector divides: what guards the store of an element guards its loads as well."""
    text = kernel_text(generated(programs.broadcast, "sm_80", [_single(2, 9, 37), _single(37)]))
    body = text[text.index("// tile_programs.py") :]
    stores = [line for line in body.splitlines() if line.lstrip().startswith("Y[")]
    assert stores and " ? " not in body and " < 37" not in "".join(stores)


CASES: list[tuple[str, list[Array], Callable[..., Array], dict[str, Any]]] = [
    ("scale", [_half(10, 512)], lambda x: np.exp2(2 * x), {}),
    ("add_one", [_single(10, 229)], lambda x: x + 1, {}),
    ("add_one", [_single(3, 127)], lambda x: x + 1, {"cols": 127, "bm": 1}),
    ("add_one", [_single(7, 100)], lambda x: x + 1, {"cols": 100, "threads": 96}),
    ("multiply", [_half(3000), _half(3000)], lambda x, z: x * z + 1, {}),
    ("multiply", [_half(3001), _half(3001)], lambda x, z: x * z + 1, {}),
    ("broadcast", [_single(3, 10, 40), _single(40)], lambda x, b: x * b, {}),
    ("broadcast", [_single(2, 9, 37), _single(37)], lambda x, b: x * b, {}),
    ("transpose", [_half(200, 136)], lambda x: x.T, {}),
    ("transpose", [_half(130, 96)], lambda x: x.T, {"bm": 128, "bn": 32}),
    ("all_paths", [_half(100, 64)], lambda x: x, {}),
    ("halves", [_half(100, 128)], lambda x: x[:, :64] + x[:, 64:], {}),
    ("add_transposed", [_single(128, 64)], lambda x: x + 1 + np.concatenate([x[:64].T, x[64:].T]), {}),
    ("gram", [_single(40, 24)], lambda x: x @ x.T, {}),
    ("mirrored_sum", [_single(40, 80)], _mirrored, {}),
    ("dequantise", [_PACKED, _half(40, 2)], _dequantised, {}),
    ("column_windows", [_half(100, 64), _half(64, 136)], lambda a, b: a @ b, {}),
    ("folded", [_half(100, 128)], lambda x: x[:, :64] + x[:, 64:], {}),
]
ON_EVERY_TARGET = ("scale", "transpose", "add_transposed", "column_windows")
RUNS = [
    (target, *case)
    for position, case in enumerate(CASES)
    for target in (TARGETS if case[0] in ON_EVERY_TARGET else (TARGETS[position % len(TARGETS)],))
]


@pytest.mark.parametrize(("target", "name", "arrays", "reference", "parameters"), RUNS)
def test_result_equals_numpy(
    target: str, name: str, arrays: list[Array], reference: Callable[..., Array], parameters: dict[str, Any]
) -> None:
    (result,) = emulated(getattr(programs, name), target, arrays, **parameters)
    expected = reference(*(array.astype(np.float64) for array in arrays))
    assert relative_error(result, expected) < 5e-4


@pytest.mark.parametrize("schedule", ["reverse", "random"])
def test_barriers_between_phases_hold_in_any_order_of_threads(schedule: str) -> None:
    x = _single(40, 80)
    (result,) = emulated(programs.mirrored_sum, "sm_80", [x], {"schedule": schedule, "seed": 5})
    assert relative_error(result, _mirrored(x.astype(np.float64))) < 1e-6


# ------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_rows_move_in_16_byte_vectors(target: str) -> None:
    text = kernel_text(generated(programs.scale, target, [_half(8, 512)]))
    vector = "fp16x8" if target == "gfx942" else "uint4"
    assert text.count(f"reinterpret_cast<{vector}*>") == 2
    assert "Y_vector[8]" in text


def test_conversions_to_half_go_in_pairs_on_cuda() -> None:
    text = kernel_text(generated(programs.scale, "sm_90a", [_half(8, 512)]))
    assert "__floats2half2_rn(exp2_approx(f[mi][v] * 2.0f), exp2_approx(f[mi][v + 1] * 2.0f))" in text


def test_guards_that_ranges_decide_are_dropped() -> None:
    exact = kernel_text(generated(programs.scale, "sm_90a", [_half(8, 512)]))
    ragged = kernel_text(generated(programs.scale, "sm_90a", [_half(10, 512)]))
    assert "if (" not in exact
    assert "< 10" in ragged or "< kM" in ragged


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx90a", "gfx942"])
def test_transposes_meet_no_bank_conflict(target: str) -> None:
    files = generated(programs.transpose, target, [_half(256, 128)])
    assert files.decisions.conflicts["s"] == 0
    assert files.decisions.shared["s"].xors


def test_barriers_are_none_missing_and_none_redundant() -> None:
    text = kernel_text(generated(programs.mirrored_sum, "sm_80", [_single(32, 64)]))
    # One before the tile is read, one before the next iteration overwrites it.
    assert text.count("__syncthreads();") == 2
    assert "__syncthreads();" not in kernel_text(generated(programs.scale, "sm_80", [_half(8, 512)]))


def test_windows_of_a_fragment_stay_in_registers() -> None:
    text = kernel_text(generated(programs.column_windows, "sm_90a", [_half(64, 64), _half(64, 128)]))
    assert "&c[r + 16 * q]" in text
    assert "exchange" not in text


def test_an_exchange_is_noted() -> None:
    files = generated(programs.add_transposed, "sm_90a", [_single(64, 64)])
    assert any("x passes through shared memory" in note for note in files.decisions.notes)
    assert "shared.x_exchange" in kernel_text(files)
