"""A hand-written GEMM for CDNA, compiled and executed: right for any shape, no bank conflict, every barrier needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cdna_simulator import SimulationError, simulate
from cdna_simulator.simulate import Report

from tilegen.target import load_target
from tilegen.toolchain import compile_hip

SOURCE = (Path(__file__).parent / "data" / "matmul_relu.gfx942.hip").read_text()


@pytest.fixture(scope="module", params=["gfx90a", "gfx942"])
def kernel(
    request: pytest.FixtureRequest,
    require_tool: Callable[[str], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    require_tool("hip")
    require_tool("llvm_objdump")
    result = compile_hip(SOURCE, load_target(request.param))
    assert result.spills == 0
    path = tmp_path_factory.mktemp("matmul") / f"{request.param}.hsaco"
    path.write_bytes(result.binary)
    return path


def multiply(
    path: Path, a: np.ndarray, b: np.ndarray, order: str = "forward", seed: int = 0
) -> tuple[np.ndarray, Report]:
    (m, k), n = a.shape, b.shape[1]
    c = np.full((m, n), 7, np.float16)
    grid = -(-m // 256) * -(-n // 128)
    report = simulate(path, "matmul_relu", (grid,), (256,), [a, b, c, m, n, k], order=order, seed=seed)  # type: ignore[arg-type]
    return c.astype(np.float64), report


def operands(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m * n * k)
    return rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((256, 128, 64), "forward"),
        ((256, 256, 128), "reverse"),
        ((200, 136, 72), "random"),
        ((1, 8, 8), "forward"),
        ((300, 264, 200), "reverse"),
        ((129, 128, 320), "random"),
    ],
)
def test_shapes(kernel: Path, shape: tuple[int, int, int], order: str) -> None:
    a, b = operands(*shape)
    c, report = multiply(kernel, a, b, order, seed=1)
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    assert np.abs(c - expected).max() <= 1e-3 * (1 + np.abs(expected).max())
    assert np.linalg.norm(c - expected) <= 4e-4 * np.linalg.norm(expected)
    assert report.bank_conflicts == 0


def test_infinities_and_nans_stay_in_their_rows(kernel: Path) -> None:
    a, b = operands(200, 136, 72)
    a[5, 69], a[199, 0] = np.inf, np.nan
    c, _ = multiply(kernel, a, b)
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    expected = np.where(np.isnan(expected), 0, np.maximum(expected, 0))  # fmaxf(NaN, 0) is 0
    np.testing.assert_array_equal(np.isposinf(c), np.isposinf(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(c[finite], expected[finite], atol=2e-2)


@pytest.mark.parametrize("barrier", range(5))
def test_each_barrier_is_needed(require_tool: Callable[[str], None], tmp_path: Path, barrier: int) -> None:
    require_tool("hip")
    require_tool("llvm_objdump")
    calls = list(re.finditer(r"(?m)^ +block_sync_lds\(\);.*$", SOURCE))
    assert len(calls) == 5
    start, end = calls[barrier].span()
    path = tmp_path / "mutant.hsaco"
    path.write_bytes(compile_hip(SOURCE[:start] + SOURCE[end:], load_target("gfx942")).binary)
    with pytest.raises(SimulationError, match="LDS race"):
        multiply(path, *operands(256, 128, 192))
