"""The benchmarks' tile programs give the right product: emitted for each layout and type, run in the emulator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from benchmarks import kernels
from benchmarks.cases import GemmCase
from benchmarks.schedules import Problem

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def operands(case, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(shape).astype(NUMPY[case.dtype]) for shape in case.stored_shapes]


def expected(case, a, b):
    transpose_a, transpose_b = case.transposes
    left, right = a.astype(np.float64), b.astype(np.float64)
    return (left.T if transpose_a else left) @ (right.T if transpose_b else right)


CASES = [
    GemmCase(Problem(200, 264, 136), "float16", "NN"),
    GemmCase(Problem(200, 264, 136), "bfloat16", "NT"),
    GemmCase(Problem(200, 264, 136), "float16", "TN"),
    GemmCase(Problem(136, 192, 72), "float16", "NN", target="sm_80"),
    GemmCase(Problem(136, 192, 72), "bfloat16", "TN", target="sm_80"),
]
SCHEDULES = {
    "sm_90a": {"block_M": 128, "block_N": 128, "threads": 256, "persistent": True, "cluster_dims": (1, 2)},
    "sm_80": {"block_M": 64, "block_N": 64, "block_K": 32, "threads": 128},
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_product_is_right(require_tool, case):
    require_tool("host_compiler")
    a, b = operands(case)
    emission = kernels.matmul.emit(
        *case.specs(), target=case.target, **case.fixed_parameters(), **SCHEDULES[case.target]
    )
    result = emission.emulate(a, b, schedule="random", asynchronous="random", seed=1).astype(np.float64)
    reference = expected(case, a, b)
    error = np.linalg.norm(result - reference) / np.linalg.norm(reference)
    assert error < (1e-3 if case.dtype == "float16" else 5e-3)


def test_the_quick_start_is_the_readmes(require_tool):
    require_tool("host_compiler")
    case = GemmCase(Problem(136, 144, 72), kind="quick_start")
    a, b = operands(case)
    result = kernels.matmul_relu.emit(*case.specs(), target="sm_90a").emulate(a, b).astype(np.float64)
    reference = np.maximum(expected(case, a, b), 0)
    assert np.linalg.norm(result - reference) / np.linalg.norm(reference) < 1e-3
