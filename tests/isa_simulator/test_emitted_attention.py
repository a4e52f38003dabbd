"""Emitted attention for CDNA, compiled and run: two gemms, a softmax between them, ragged, causal, grouped heads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emission_runner import simulate_emission

import tilegen.language as T
from tilegen.cli.loading import load_kernel

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "attention.py"


def reference(q: Any, k: Any, v: Any, causal: bool) -> tuple[Any, Any]:
    """Output [batch, query, head, D] and log-sum-exp [batch, head, query], in binary64."""
    groups = q.shape[2] // k.shape[2]
    q, k, v = (array.astype(np.float64) for array in (q, np.repeat(k, groups, 2), np.repeat(v, groups, 2)))
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if causal:
        queries, keys = scores.shape[2:]
        visible = np.arange(keys)[None, :] <= np.arange(queries)[:, None] + (keys - queries)
        scores = np.where(visible, scores, -np.inf)
    maximum = scores.max(-1, keepdims=True)
    weights = np.exp(scores - maximum)
    total = weights.sum(-1, keepdims=True)
    return np.einsum("bhqk,bkhd->bqhd", weights / total, v), (maximum + np.log(total))[..., 0]


@pytest.mark.parametrize(
    ("target", "depth", "queries", "keys", "parameters"),
    [
        ("gfx90a", 64, 64, 64, {"block_M": 64, "block_N": 64, "num_stages": 1, "threads": 128}),
        (
            "gfx942",
            64,
            100,
            130,
            {"block_M": 64, "block_N": 64, "num_stages": 1, "threads": 256, "causal": True},
        ),
        ("gfx942", 128, 77, 90, {"block_M": 64, "block_N": 32, "num_stages": 0, "threads": 256}),
    ],
)
def test_attention(
    require_tool: Callable[[str], None],
    tmp_path: Path,
    target: str,
    depth: int,
    queries: int,
    keys: int,
    parameters: dict[str, Any],
) -> None:
    require_tool("hip")
    require_tool("llvm_objdump")
    rng = np.random.default_rng(queries)
    q = rng.standard_normal((1, queries, 2, depth)).astype(np.float16)
    k, v = (rng.standard_normal((1, keys, 1, depth)).astype(np.float16) for _ in range(2))
    specs = [T.Tensor(array.shape, T.float16) for array in (q, k, v)]
    emission = load_kernel(str(EXAMPLE)).emit(*specs, target=target, **parameters)
    (output, log_sum), report = simulate_emission(emission, tmp_path, q, k, v, order="random", seed=1)
    expected, expected_log_sum = reference(q, k, v, parameters.get("causal", False))
    assert np.linalg.norm(output - expected) <= 1e-3 * np.linalg.norm(expected)
    np.testing.assert_allclose(log_sum, expected_log_sum, atol=1e-5)
    assert report.banks["read_b128"].conflict_cycles == 0
