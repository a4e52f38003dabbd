"""No GEMM template can pass for an engine: programs drawn from the words of a matrix product, on every target.

Each case is drawn from its number: block shapes, element types, orders of operands, ring depths, policies, threads, the
order of the statements and of the epilogue, extents that no tile divides, fixed or open.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import engine_programs as programs
import numpy as np
import pytest
from engine_running import DTYPES, TARGETS, TOLERANCE, Array, chooser, compare, exact, matrix, results

from tilegen.target import load_target

STEPS = ("bias", "relu", "scale", "residual", "residual_tile", "round", "through_shared")


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def epilogue(values: Array, steps: tuple[str, ...], bias: Array, residual: Array, dtype: str) -> Array:
    for step in steps:
        match step:
            case "bias":
                values = values + bias
            case "relu":
                values = np.maximum(values, 0)
            case "scale":
                values = values * 0.25
            case "residual" | "residual_tile":
                values = values + residual
            case "round":
                values = exact(values.astype(DTYPES[dtype]))
    return values


def drawn(target: str, choose: Random) -> tuple[dict[str, Any], tuple[int, int, int], bool]:
    """A schedule that fits the target, and extents."""
    warpgroups = load_target(target).has("wgmma")
    shapes = [(64, 64), (128, 64), (64, 128), (128, 128), (64, 96), (128, 32), (192, 64), (256, 64)]
    block_M, block_N = choose.choice(shapes)
    threads = choose.choice([128, 256] if block_M % 128 == 0 or not warpgroups else [128])
    threads = 384 if block_M == 192 and warpgroups else threads
    if not warpgroups and block_M * block_N < 64 * 96:
        threads = choose.choice([64, 128])
    parameters: dict[str, Any] = {
        "dtype": choose.choice(["float16", "float16", "bfloat16"]),
        "out_dtype": choose.choice(["float16", "bfloat16", "float32"]),
        "transpose_A": choose.random() < 0.4,
        "transpose_B": choose.random() < 0.5,
        "block_M": block_M,
        "block_N": block_N,
        "block_K": choose.choice([32, 64]),
        "num_stages": choose.randrange(7),
        "threads": threads,
        "policy": choose.choice(["square", "square", "full_row", "full_col"]),
        "panel": choose.choice([0, 0, 3]),
        "persistent": choose.choice([None, None, True]),
        "cluster": choose.choice([None, None, (2, 1), (1, 2)]) if warpgroups else None,
        "b_first": choose.random() < 0.3,
        "start": choose.choice([0.0, 0.0, 0.0, -1.5]),
        "epilogue": tuple(choose.sample(STEPS, choose.randrange(5))),
    }
    extents = tuple(choose.choice([1, 8, 40, 56, 63, 64, 127, 128, 136, 200]) for _ in "MN")
    depth = choose.choice([0, 8, 24, 32, 63, 64, 100, 128, 160, 321])
    dynamic = choose.random() < 0.25
    if dynamic:  # what the launcher requires of a text that knows no extents
        extents = tuple(max(8, extent // 8 * 8) for extent in extents)
        depth = depth // 8 * 8
    ring = 2 * (block_M + block_N) * parameters["block_K"]
    room = load_target(target).limits.shared_bytes_per_block - 8192
    if room < ring + 4 * block_M * block_N:
        parameters["epilogue"] = tuple(step for step in parameters["epilogue"] if step != "through_shared")
    if "through_shared" in parameters["epilogue"]:
        room -= 4 * block_M * block_N
    parameters["num_stages"] = min(parameters["num_stages"], room // ring)
    return parameters, (*extents, depth), dynamic


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(14))
def test_drawn(number: int, target: str) -> None:
    choose = chooser(1000 * TARGETS.index(target) + number)
    parameters, (m, n, k), dynamic = drawn(target, choose)
    dtype = parameters["dtype"]
    a = matrix(1, *((k, m) if parameters["transpose_A"] else (m, k)), dtype=dtype)
    b = matrix(2, *((n, k) if parameters["transpose_B"] else (k, n)), dtype=dtype)
    bias, residual = matrix(3, n, dtype=dtype), matrix(4, m, n, dtype=dtype)
    (found,) = results(
        programs.product, target, [a, b, bias, residual], parameters, seed=number, dynamic=dynamic
    )
    left = exact(a).T if parameters["transpose_A"] else exact(a)
    right = exact(b).T if parameters["transpose_B"] else exact(b)
    values = parameters["start"] + left @ right
    values = epilogue(values, parameters["epilogue"], exact(bias), exact(residual), dtype)
    rounded = [dtype] if "round" in parameters["epilogue"] else []
    compare(found, values, max(TOLERANCE[name] for name in (*rounded, parameters["out_dtype"])))
