"""Device functions, matrix instructions and wgmma's operand layouts against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from device_record import LAYOUTS, function_inputs, layout_inputs
from kernels import FUNCTION_BIT_ROWS, FUNCTION_ROWS, functions, source_of, wgmma_layouts

from tilegen.emulate import run

Array = np.ndarray[Any, Any]
_HALF, _BFLOAT = np.float16, ml_dtypes.bfloat16


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def _rounded(value: Array, dtype: Any) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(dtype).astype(np.float32)


def _wide(value: Array, dtype: Any) -> Array:
    with np.errstate(over="ignore"):
        return value.astype(dtype).astype(np.float64)


def _by_lane(x: Array, source: Callable[[int], int]) -> Array:
    """Lane l of each warp gets the value of lane source(l)."""
    sources = [source(lane) for lane in range(32)]
    return x.reshape(-1, 32)[:, sources].reshape(-1)


def _warp_value(values: Array, function: Callable[[Array], Any]) -> Array:
    """Every lane gets function(the values of its warp)."""
    return np.concatenate([np.full(32, function(warp)) for warp in values.reshape(-1, 32)])


def _expected_floats(x: Array, y: Array) -> list[Array]:
    hx, hy, bx, by = _wide(x, _HALF), _wide(y, _HALF), _wide(x, _BFLOAT), _wide(y, _BFLOAT)
    wide = [v.astype(np.float64) for v in (x, y)]
    rows = [
        _rounded(v, _HALF)
        for v in (x, hx + hy, hx - hy, hx * hy, hx * hy + hx, np.fmax(hx, hy), np.fmin(hx, hy))
    ]
    rows += [_rounded(hx * hy + hx, _HALF), _rounded(hy * hy + hx, _HALF)]
    rows += [_rounded(v, _BFLOAT) for v in (x, bx + by, bx * by, bx * by + bx, bx * by, by * bx)]
    with np.errstate(over="ignore", divide="ignore"):
        rows += [np.exp2(wide[0]), np.exp(wide[0]), 1 / np.sqrt(np.abs(wide[0])), np.tanh(wide[0])]
        rows += [np.array([math.erf(v) for v in wide[0]]), wide[0] * wide[1] + 1, wide[0] / wide[1]]
        rows += [np.log(np.abs(wide[0])), np.minimum(x, y), np.maximum(x, y)]
    shuffles: list[Callable[[int], int]] = [
        lambda lane: 5,
        lambda lane: lane // 2,
        lambda lane: lane ^ 3,
        lambda lane: lane - 2 if lane >= 2 else lane,
        lambda lane: lane + 7 if lane + 7 < 32 else lane,
        lambda lane: lane ^ 1,
        lambda lane: lane + 3 if lane % 8 + 3 < 8 else lane,
        lambda lane: lane - 3 if lane % 16 >= 3 else lane,
    ]
    return rows + [_by_lane(x, source) for source in shuffles]


def _byte_permute(a: int, b: int, selector: int) -> int:
    data = (b << 32 | a).to_bytes(8, "little")
    result = []
    for position in range(4):
        nibble = selector >> 4 * position & 15
        byte = data[nibble & 7]
        result.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
    return int.from_bytes(bytes(result), "little")


def _dot(a: int, b: int) -> int:
    signed = [[v - 256 if v > 127 else v for v in word.to_bytes(4, "little")] for word in (a, b)]
    return sum(p * q for p, q in zip(*signed, strict=True)) + 7


def _expected_bits(x: Array, i: Array, j: Array) -> list[Array]:
    powers = np.uint64(1) << np.arange(32, dtype=np.uint64)
    rows = [_warp_value(x, lambda v: int(powers[v > 0].sum()))]
    rows += [_warp_value(x, lambda v: int((v > 1.5).any())), _warp_value(x, lambda v: int((v > -1.5).all()))]
    rows += [_warp_value(i, lambda v: int(v.astype(np.uint64).sum()) % 2**32), _warp_value(i, np.max)]
    rows += [_warp_value(i, np.bitwise_xor.reduce)]
    matches = [[int(powers[warp % 4 == own % 4].sum()) for own in warp] for warp in i.reshape(-1, 32)]
    rows += [np.array(matches).reshape(-1)]
    rows += [i & j | np.uint32(0x0F0F0F0F), i ^ j ^ (i >> 3)]
    pairs = [(int(a), int(b)) for a, b in zip(i, j, strict=True)]
    scalar: list[Callable[[int, int], int]] = [
        lambda a, b: _byte_permute(a, b, 0x5140),
        lambda a, b: _byte_permute(a, b, 0xC3A1),
        lambda a, b: _dot(a, b) % 2**32,
        lambda a, b: a.bit_count(),
        lambda a, b: 32 - a.bit_length(),
        lambda a, b: int(f"{a:032b}"[::-1], 2),
        lambda a, b: a * b >> 32,
    ]
    rows += [np.array([function(a, b) for a, b in pairs], dtype=np.uint64) for function in scalar]
    return [
        *rows,
        x.view(np.uint32),
        np.array([(b << 32 | a) >> 5 & 0xFFFFFFFF for a, b in pairs], dtype=np.uint64),
    ]


def _matrices(registers: list[Array]) -> Array:
    """[warp, matrix, 8, 8] of 16-bit elements: register r of lane l is row l / 4, columns 2 (l % 4) and one more."""
    warps = np.stack([register.reshape(-1, 32) for register in registers], axis=1)
    return np.ascontiguousarray(warps).view(np.uint16).reshape(len(warps), len(registers), 8, 8)


def _expected_matrix_rows(i: Array, j: Array) -> list[Array]:
    with np.errstate(over="ignore"):
        stored = _matrices([i, j, i ^ j, i + j])

    def registers(matrices: Array) -> list[Array]:
        packed = np.ascontiguousarray(matrices).view(np.uint32).reshape(*matrices.shape[:2], 32)
        return [packed[:, r].reshape(-1) for r in range(packed.shape[1])]

    turned = stored.swapaxes(2, 3)
    return [
        *registers(stored),
        *registers(turned),
        *registers(stored[:, 1:3]),
        *registers(turned[:, 3:]),
        *registers(turned),
    ]


def _product(a: list[Array], b: list[Array], d: list[Array], dtype: Any) -> list[Array]:
    """mma.m16n8k16 of 32-bit registers that hold pairs; PTX ISA 9.7.14.5.8."""
    a_blocks = _matrices(a).view(dtype).astype(np.float64)  # rows 0-7 | 8-15 of columns 0-7, then of 8-15
    left = np.concatenate(
        [
            np.concatenate([a_blocks[:, 0], a_blocks[:, 2]], 2),
            np.concatenate([a_blocks[:, 1], a_blocks[:, 3]], 2),
        ],
        1,
    )
    b_blocks = _matrices(b).view(dtype).astype(np.float64).swapaxes(2, 3)
    product = left @ np.concatenate([b_blocks[:, 0], b_blocks[:, 1]], 1)
    lanes = np.arange(32)
    return [
        d[v] + product[:, lanes // 4 + 8 * (v // 2), 2 * (lanes % 4) + v % 2].reshape(-1).astype(np.float64)
        for v in range(4)
    ]


def _pair(x: Array, y: Array, dtype: Any) -> Array:
    with np.errstate(over="ignore"):
        return (
            np.stack([x.astype(dtype), y.astype(dtype)], axis=1)
            .view(np.uint16)
            .copy()
            .view(np.uint32)
            .reshape(-1)
        )


def test_device_functions_match_numpy() -> None:
    x, y, i, j = function_inputs()
    result = run(source_of(functions()), functions(), [x, y, i, j], "random", seed=2)
    assert isinstance(result, tuple)
    floats, bits, totals = result

    expected = _expected_floats(x, y)
    exact = {*range(15), 23, 24, *range(25, 33)}
    for row, values in enumerate(expected):
        close = np.array_equal(floats[row], values.astype(np.float32), equal_nan=True)
        if row not in exact:
            close = np.allclose(floats[row], values, rtol=1e-5, atol=1e-7, equal_nan=True)
        assert close, f"row {row} of the floats"
    ab, ba, cd = _pair(x, y, _HALF), _pair(y, -x, _HALF), _pair(x, y, _BFLOAT)
    d = _product([ba, ab, ba, ab], [ab, ba], [v.astype(np.float64) for v in (x, y, -x, -y)], _HALF)
    e = _product([cd] * 4, [cd] * 2, d, _BFLOAT)
    assert len(expected) + len(d) + len(e) == FUNCTION_ROWS
    for row, values in enumerate([*d, *e], start=len(expected)):
        assert np.allclose(floats[row], values, rtol=1e-4, atol=1e-4, equal_nan=True), (
            f"row {row} of the floats"
        )

    expected_bits = [*_expected_bits(x, i, j), *_expected_matrix_rows(i, j)]
    assert len(expected_bits) == FUNCTION_BIT_ROWS
    for row, values in enumerate(expected_bits):
        assert np.array_equal(bits[row], values.astype(np.uint32)), f"row {row} of the bits"

    by_thread = [256.0, float((i % 8).sum()), 256.0, 512.0, 256.0, 512.0, 768.0, float((j % 4).sum())]
    assert totals.tolist() == by_thread


@pytest.mark.parametrize("number", range(len(LAYOUTS)))
def test_wgmma_reads_every_layout(number: int) -> None:
    a_mn, b_mn, *_ = LAYOUTS[number]
    a, b = layout_inputs(number)
    facts = wgmma_layouts(*LAYOUTS[number])
    result = run(source_of(facts), facts, [a, b], "reverse", "lazy")
    assert isinstance(result, np.ndarray)
    left = a.astype(np.float64).T if a_mn else a.astype(np.float64)
    right = b.astype(np.float64) if b_mn else b.astype(np.float64).T
    assert np.allclose(result, left @ right, rtol=1e-5, atol=1e-4)
