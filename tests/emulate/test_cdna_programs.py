"""Emitted CDNA kernels beyond one gemm in one loop, and bugs seeded into the text: each is reported."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cdna_programs import batched, both_ways, chained, gated, gemm, scaled, split, squares, through_shared

import tilegen.language as T
from tilegen.emulate import EmulationError, run

FEW = [("fifo", "eager", 0), ("reverse", "lazy", 0), ("random", "random", 1)]
DTYPES = {"float16": T.float16, "float32": T.float32, "int8": T.int8}

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def halves(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float16)


def wide(array: Array) -> Array:
    return array.astype(np.float64)


def check(
    kernel: Any,
    inputs: list[Array],
    expected: Array,
    tolerance: float,
    target: str = "gfx942",
    **parameters: Any,
) -> str:
    specs = [T.Tensor(array.shape, DTYPES[array.dtype.name]) for array in inputs]
    emission = kernel.emit(*specs, target=target, **parameters)
    for schedule, asynchronous, seed in FEW:
        result = emission.emulate(*inputs, schedule=schedule, asynchronous=asynchronous, seed=seed)
        assert np.linalg.norm(wide(result) - expected) <= tolerance * np.linalg.norm(expected)
    return str(emission.source)


def test_two_gemms_share_an_operand() -> None:
    a, b, d = halves(100, 72), halves(72, 136), halves(136, 72)
    expected = (wide(a) @ wide(b)) * (wide(a) @ wide(d).T)
    source = check(gated, [a, b, d], expected, 1e-5)
    assert "no prefetch" not in source


def test_threads_change_a_tile_before_the_gemm() -> None:
    a = halves(100, 96)
    b = np.random.default_rng(1).integers(-8, 8, (72, 96)).astype(np.int8)
    check(scaled, [a, b], wide(a) @ (wide(b) * 0.5).T, 4e-4)


def test_tiles_past_the_last_matrix_are_not_read() -> None:
    a, b = halves(3, 64, 64), halves(3, 64, 72)
    check(batched, [a, b], np.einsum("gmk,gkn->mn", wide(a), wide(b)), 1e-5)


def test_partial_sums() -> None:
    a, b = halves(100, 256), halves(256, 72)
    check(split, [a, b, np.zeros((100, 72), np.float32)], wide(a) @ wide(b), 1e-5)


@pytest.mark.parametrize("num_stages", [0, 2])
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_accumulators_become_an_operand_without_moving(target: str, num_stages: int) -> None:
    q, k, v = halves(100, 64), halves(130, 64), halves(130, 64)
    expected = np.maximum(wide(q) @ wide(k).T, 0) @ wide(v)
    source = check(chained, [q, k, v], expected, 5e-4, target, num_stages=num_stages)
    assert "__shfl" not in source
    assert "weights_shared" not in source


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_one_tile_is_read_along_both_axes(target: str) -> None:
    a, b = halves(64, 64), halves(64, 136)
    check(both_ways, [a, b], wide(a) @ wide(b) + wide(a).T @ wide(b), 1e-5, target)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_one_tile_is_both_operands(target: str) -> None:
    a = halves(32, 136)
    check(squares, [a], wide(a) @ wide(a).T, 1e-5, target)


def test_a_copy_without_a_gemm() -> None:
    x = halves(70, 136)
    check(through_shared, [x], 2 * wide(x), 1e-6)


# ---- Seeded bugs ------------------------------------------------------------------------------------------------

BLOCKS = {"large": {"block_M": 256, "block_N": 128, "block_K": 64, "threads": 256}, "small": {}}


def emitted_gemm(blocks: str) -> tuple[Any, list[Array], Array]:
    a, b = halves(264, 136), halves(136, 200)
    emission = gemm.emit(
        T.Tensor(a.shape, T.float16), T.Tensor(b.shape, T.float16), target="gfx942", **BLOCKS[blocks]
    )
    return emission, [a, b], wide(a) @ wide(b)


def findings(source: str, manifest: Any, inputs: list[Array], expected: Array) -> list[str]:
    """The kinds of the reports over a few schedules, "wrong" for a wrong result."""
    kinds = []
    for schedule, asynchronous, seed in FEW:
        try:
            result = run(source, manifest, inputs, schedule, asynchronous, seed=seed)
        except EmulationError as error:
            kinds.append(error.kind)
        else:
            assert isinstance(result, np.ndarray)
            if not np.linalg.norm(wide(result) - expected) <= 4e-4 * np.linalg.norm(expected):
                kinds.append("wrong")
    return kinds


@pytest.mark.parametrize("blocks", list(BLOCKS))
def test_every_barrier_is_needed(blocks: str) -> None:
    emission, inputs, expected = emitted_gemm(blocks)
    lines = emission.source.splitlines()
    barriers = [n for n, line in enumerate(lines) if re.match(r"\s+(block|wave)_sync_lds\(\);", line)]
    assert len(barriers) >= 4
    for barrier in barriers:
        text = "\n".join(line for n, line in enumerate(lines) if n != barrier) + "\n"
        found = findings(text, emission.manifest, inputs, expected)
        assert "race" in found or "poison" in found, lines[barrier]


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("load_A(k + 2);", "load_A(k + 1);", {"wrong"}),
        ("outside = column < columns ? 0 : kOutOfRange;", "outside = 0;", {"wrong", "out-of-bounds", "race"}),
        ("const int elements = (min(rows, kRows) - 1)", "const int elements = (kRows - 1)", {"wrong", "out-of-bounds"}),
        ("[8 * ((lane % 4) ^ (row / 2 % 4))]) = A_next", "[8 * (lane % 4)]) = A_next", {"wrong"}),
    ],
)  # fmt: skip
def test_other_bugs(old: str, new: str, kinds: set[str]) -> None:
    emission, inputs, expected = emitted_gemm("small")
    assert old in emission.source
    text = emission.source.replace(old, new)
    found = findings(text, emission.manifest, inputs, expected)
    assert found
    assert set(found) <= kinds
