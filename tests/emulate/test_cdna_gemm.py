"""Emitted GEMMs for CDNA in the emulator: operand orders, types, ragged sizes, block shapes, stages, schedules."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cdna_programs import gemm

import tilegen.language as T

DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
TOLERANCE = {"float16": 4e-4, "bfloat16": 4e-3, "float32": 1e-5}
FEW = [("fifo", "eager", 0), ("reverse", "lazy", 0), ("random", "random", 1)]
SIX = [
    *itertools.product(("fifo", "reverse"), ("eager", "lazy"), (0,)),
    ("random", "random", 1),
    ("random", "lazy", 2),
]

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def operands(
    m: int, n: int, k: int, dtype: str, transpose_a: bool, transpose_b: bool
) -> tuple[Array, Array, Array]:
    """A and B as the kernel takes them, and A B in binary64."""
    rng = np.random.default_rng(m + 3 * n + 7 * k)
    a = rng.standard_normal((m, k)).astype(DTYPES[dtype])
    b = rng.standard_normal((k, n)).astype(DTYPES[dtype])
    expected = a.astype(np.float64) @ b.astype(np.float64)
    return a.T.copy() if transpose_a else a, b.T.copy() if transpose_b else b, expected


def check(target: str, shape: tuple[int, int, int], schedules: list[Any], **parameters: Any) -> None:
    transpose_a, transpose_b = parameters.get("transpose_A", False), parameters.get("transpose_B", False)
    dtype, out = parameters.get("dtype", T.float16), parameters.get("out_dtype", T.float16)
    a, b, expected = operands(*shape, dtype.name, transpose_a, transpose_b)
    emission = gemm.emit(T.Tensor(a.shape, dtype), T.Tensor(b.shape, dtype), target=target, **parameters)
    for schedule, asynchronous, seed in schedules:
        c = emission.emulate(a, b, schedule=schedule, asynchronous=asynchronous, seed=seed)
        assert c.dtype == DTYPES[out.name]
        error = np.linalg.norm(c.astype(np.float64) - expected)
        assert error <= TOLERANCE[out.name] * np.linalg.norm(expected)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_the_quick_start_in_six_schedules(target: str) -> None:
    check(target, (256, 256, 256), SIX)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
def test_operand_orders(target: str, transpose_a: bool, transpose_b: bool) -> None:
    check(target, (200, 136, 72), FEW, transpose_A=transpose_a, transpose_B=transpose_b)


@pytest.mark.parametrize(
    ("dtype", "out_dtype"),
    [(T.bfloat16, T.bfloat16), (T.float16, T.float32), (T.bfloat16, T.float16)],
)
def test_element_types(dtype: Any, out_dtype: Any) -> None:
    check("gfx942", (136, 200, 72), FEW, dtype=dtype, out_dtype=out_dtype)


@pytest.mark.parametrize("shape", [(1, 8, 8), (131, 77, 65), (131, 78, 66), (129, 132, 36), (128, 128, 0)])
@pytest.mark.parametrize("transpose_a", [False, True])
def test_ragged_sizes(shape: tuple[int, int, int], transpose_a: bool) -> None:
    check("gfx942", shape, FEW, transpose_A=transpose_a)


@pytest.mark.parametrize(
    ("target", "blocks", "threads"),
    [
        ("gfx942", (256, 128, 64), 256),
        ("gfx942", (256, 256, 64), 512),
        ("gfx950", (256, 128, 64), 256),
        ("gfx942", (64, 64, 16), 128),
        ("gfx942", (64, 256, 32), 256),
        ("gfx942", (64, 96, 48), 192),
        ("gfx950", (16, 64, 64), 64),
        ("gfx942", (64, 80, 64), 64),
        ("gfx942", (128, 128, 128), 256),
        ("gfx950", (64, 64, 8), 64),
    ],
)
@pytest.mark.parametrize("transpose_a", [False, True])
def test_block_shapes(target: str, blocks: tuple[int, int, int], threads: int, transpose_a: bool) -> None:
    block_m, block_n, block_k = blocks
    check(
        target,
        (264, 200, 136),
        FEW[2:],
        block_M=block_m,
        block_N=block_n,
        block_K=block_k,
        threads=threads,
        transpose_A=transpose_a,
    )


@pytest.mark.parametrize("num_stages", range(7))
def test_stages(num_stages: int) -> None:
    check("gfx942", (130, 104, 100), FEW, num_stages=num_stages)


@pytest.mark.parametrize("num_stages", [0, 2, 3])
def test_a_persistent_kernel_reuses_its_tiles(num_stages: int) -> None:
    check("gfx942", (300, 200, 96), FEW, persistent=True, block_M=64, block_N=64, num_stages=num_stages)


def test_infinities_and_nans_stay_in_their_rows_and_columns() -> None:
    """The row behind a ragged one, and the columns behind the last: none may be multiplied with a zero."""
    a, b, _ = operands(200, 136, 72, "float16", False, False)
    a[5, 69], a[199, 0], b[71, 3] = np.inf, np.nan, -np.inf
    emission = gemm.emit(T.Tensor(a.shape, T.float16), T.Tensor(b.shape, T.float16), target="gfx942")
    c = emission.emulate(a, b)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(c), np.isnan(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(c[finite], expected[finite], atol=5e-2)


def test_extents_left_open() -> None:
    emission = gemm.emit(T.Tensor(("M", "K"), T.float16), T.Tensor(("K", "N"), T.float16), target="gfx942")
    for shape in [(200, 136, 72), (1, 8, 8), (130, 264, 0)]:
        a, b, expected = operands(*shape, "float16", False, False)
        c = emission.emulate(a, b, schedule="random", seed=1)
        assert np.linalg.norm(c - expected) <= 4e-4 * np.linalg.norm(expected)
