"""Programs of the emulator's tests on the GPU: places that tensors name, eviction policies, tiles over rings."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import gpu_work
import numpy as np
import pytest

PLACES_FROM_MEMORY = "lower/pipelines/test_places_from_memory.py"
OVERLAYS = "lower/pipelines/test_overlays.py"
EVICTION = "lower/copies/test_eviction.py"
TARGETS = ["sm_90a", "sm_80"]
Arrays = tuple[np.ndarray, ...]


@pytest.mark.parametrize("file", [PLACES_FROM_MEMORY, OVERLAYS, EVICTION])
def test_files_of_programs_are_found(file: str) -> None:
    """Without a GPU too, so that moving one is noticed where the others skip."""
    assert gpu_work.program_named(file)


def integers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float16)


def grouped() -> tuple[Arrays, np.ndarray]:
    a, w = integers((1500, 520), 1), integers((5, 520, 264), 2)
    groups = np.random.default_rng(3).integers(0, 5, 24).astype(np.int32)
    parts = [a[64 * i : 64 * i + 64].astype(np.float64) @ w[group] for i, group in enumerate(groups)]
    return (a, w, groups), np.concatenate(parts)


def segments() -> tuple[Arrays, np.ndarray]:
    x = integers((5000, 64), 4)
    starts = np.array([0, 7, 7, 400, 4999], np.int32)
    return (x, starts), np.stack([x[a:b].astype(np.float64).sum(axis=0) for a, b in pairwise(starts)])


def paged() -> tuple[Arrays, np.ndarray]:
    a, w = integers((1000, 1280), 5), integers((40, 64, 264), 6)
    pages = np.random.default_rng(7).integers(0, 40, (16, 20)).astype(np.int32)
    rows = [
        a[64 * i : 64 * i + 64].astype(np.float64) @ np.concatenate(list(w[p])) for i, p in enumerate(pages)
    ]
    return (a, w, pages), np.concatenate(rows)


def sequences(causal: bool) -> tuple[Arrays, np.ndarray]:
    generator = np.random.default_rng(8)
    starts = np.array([0, 30, 31, 160, 200], np.int32)
    q, k, v = (generator.standard_normal((200, 2, 64)).astype(np.float16) for _ in range(3))
    return (q, k, v, starts), gpu_work.program_named(PLACES_FROM_MEMORY).attended(q, k, v, starts, causal)


PLACES = {
    "an expert's matrix": ("grouped", {}, grouped),
    "an expert's matrix, persistent": ("grouped", {"persistent": True}, grouped),
    "an expert's matrix, clusters": ("grouped", {"cluster": (2, 1)}, grouped),
    "sums of segments": ("segments", {}, segments),
    "pages": ("paged", {}, paged),
    "packed sequences": ("attention", {}, lambda: sequences(False)),
    "packed sequences, causal": ("attention", {"causal": True}, lambda: sequences(True)),
    "packed sequences, persistent": (
        "attention",
        {"causal": True, "persistent": True},
        lambda: sequences(True),
    ),
}


PLACE_CASES = [(case, target) for case in PLACES for target in TARGETS]
PLACE_CASES.remove(("an expert's matrix, clusters", "sm_80"))  # which has none


@pytest.mark.parametrize(("case", "target"), PLACE_CASES)
def test_places_that_tensors_name(on_gpu: Callable[..., object], case: str, target: str) -> None:
    name, parameters, made = PLACES[case]
    on_gpu(gpu_work.program, PLACES_FROM_MEMORY, name, target, *made(), parameters, 1e-3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [512, 516, 514, 513])
def test_eviction_policies_of_threads(on_gpu: Callable[..., object], columns: int, target: str) -> None:
    x = integers((300, columns), 9)
    hints = {"load": "evict_last", "store": "evict_first"}
    on_gpu(gpu_work.program, EVICTION, "rows", target, (x,), 2.0 * x, hints, 0.0)


@pytest.mark.parametrize(("target", "cluster"), [("sm_90a", (1, 1)), ("sm_90a", (2, 1)), ("sm_80", (1, 1))])
def test_eviction_policies_of_tiles(
    on_gpu: Callable[..., object], cluster: tuple[int, int], target: str
) -> None:
    a, b = integers((520, 328), 10), integers((328, 264), 11)
    hints = {"a": "evict_last", "b": "evict_first", "c": "evict_first", "cluster": cluster}
    expected = a.astype(np.float64) @ b
    on_gpu(gpu_work.program, EVICTION, "product", target, (a, b), expected, hints, 1e-3)


@pytest.mark.parametrize(
    "case", ["two warpgroups", "one warpgroup", "three warpgroups", "a cluster", "stages left open"]
)
def test_tiles_over_rings(on_gpu: Callable[..., object], case: str) -> None:
    module = gpu_work.program_named(OVERLAYS)
    a, b, expected = module.operands(
        (1000, 1032, 4104) if case != "a cluster" else (1024, 1024, 4104), **module.CASES[case]
    )
    on_gpu(gpu_work.program, OVERLAYS, "product", "sm_90a", (a, b), expected, module.CASES[case], 0.0)
