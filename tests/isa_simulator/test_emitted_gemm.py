"""Emitted GEMMs for CDNA, compiled and run: operand orders, element types, ragged sizes, pipelines, block shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emission_runner import simulate_emission
from gemm_programs import gemm

import tilegen.language as T

CASES: list[tuple[str, tuple[int, int, int], dict[str, Any]]] = [
    ("gfx942", (128, 64, 64), {}),
    ("gfx942", (100, 72, 88), {"transpose_B": True}),
    ("gfx90a", (70, 136, 40), {"transpose_A": True, "num_stages": 1}),
    ("gfx942", (64, 130, 96), {"transpose_A": True, "transpose_B": True, "num_stages": 3}),
    ("gfx90a", (96, 96, 64), {"dtype": "bfloat16", "out_dtype": "bfloat16"}),
    ("gfx942", (65, 63, 33), {"dtype": "bfloat16", "transpose_B": True, "num_stages": 0}),
    ("gfx942", (200, 136, 72), {"block_M": 128, "block_N": 64, "block_K": 64, "threads": 256}),
    ("gfx90a", (40, 200, 200), {"block_M": 64, "block_N": 128, "threads": 256, "out_dtype": "float16"}),
]  # fmt: skip
TOLERANCE = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 6e-3}


@pytest.mark.parametrize(("target", "shape", "parameters"), CASES)
def test_gemm(
    require_tool: Callable[[str], None],
    tmp_path: Path,
    target: str,
    shape: tuple[int, int, int],
    parameters: dict[str, Any],
) -> None:
    require_tool("hip")
    require_tool("llvm_objdump")
    m, n, k = shape
    dtype, out_dtype = parameters.get("dtype", "float16"), parameters.get("out_dtype", "float32")
    rng = np.random.default_rng(m + n + k)
    numpy_dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    a = rng.standard_normal((k, m) if parameters.get("transpose_A") else (m, k)).astype(numpy_dtype)
    b = rng.standard_normal((n, k) if parameters.get("transpose_B") else (k, n)).astype(numpy_dtype)
    element = getattr(T, dtype)
    emission = gemm.emit(
        T.Tensor(a.shape, element),
        T.Tensor(b.shape, element),
        target=target,
        **{**parameters, "dtype": element, "out_dtype": getattr(T, out_dtype)},
    )
    (c,), report = simulate_emission(emission, tmp_path, a, b, order="random", seed=m)
    left = a.astype(np.float64).T if parameters.get("transpose_A") else a.astype(np.float64)
    right = b.astype(np.float64).T if parameters.get("transpose_B") else b.astype(np.float64)
    expected = left @ right
    tolerance = TOLERANCE[out_dtype]
    assert np.linalg.norm(c.astype(np.float64) - expected) <= tolerance * np.linalg.norm(expected)
    assert np.abs(c.astype(np.float64) - expected).max() <= 8 * tolerance * np.abs(expected).max()
    assert report.bank_conflicts == 0, report.banks
