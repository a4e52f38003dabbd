"""Products on the GPU: every layout, type and target, ragged shapes, schedules, and how kernels are called."""

from __future__ import annotations

import gpu_work
import pytest

import tilegen.language as T

# Multiples of nothing, smaller than a tile, of one row or column, just over a tile.
RAGGED = [
    (1, 1, 1), (1, 8, 8), (7, 13, 5), (8, 264, 16), (64, 64, 64), (129, 257, 65), (200, 264, 136), (333, 999, 77),
    (1000, 1000, 1000), (2049, 136, 1025), (136, 2056, 520), (512, 512, 4096),
]  # fmt: skip
EVEN = [(200, 264, 136), (1024, 768, 512), (4104, 1000, 520)]
LAYOUTS = ["NN", "NT", "TN", "TT"]
TARGETS = ["sm_90a", "sm_80", "sm_89"]
_FULL = {"block_M": 128, "block_N": 256, "threads": 256}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_ragged_shapes(on_gpu, dtype, layout, target):
    on_gpu(gpu_work.gemm_shapes, RAGGED, dtype, layout, target, {})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_file_for_all_shapes(on_gpu, layout, target):
    shapes = [(200, 264, 136), (1024, 768, 512), (8, 16, 8), (4104, 1000, 520)]
    on_gpu(gpu_work.gemm_shapes, shapes, "float16", layout, target, {}, True)


HOPPER = {
    "persistent": {**_FULL, "persistent": True},
    "grid": {**_FULL, "persistent": False},
    "cluster": {**_FULL, "cluster_dims": (1, 2), "persistent": True},
    "cluster of four": {**_FULL, "cluster_dims": (1, 4), "persistent": True},
    "k shared by two": {"block_M": 128, "block_N": 128, "threads": 256, "split_K": 2},
    "k shared by five": {"block_M": 64, "block_N": 128, "threads": 128, "split_K": 5},
    "cluster of a grid": {**_FULL, "cluster_dims": (1, 2), "persistent": False},
    "cluster along columns": {"block_M": 256, "block_N": 128, "threads": 256, "cluster_dims": (2, 1)},
    "tall": {"block_M": 256, "block_N": 128, "threads": 256},
    "three consumers": {"block_M": 192, "block_N": 128, "threads": 384},
    "one consumer": {"block_M": 64, "block_N": 256, "threads": 128},
    "two atoms a warpgroup": {"block_M": 128, "block_N": 128, "threads": 128},
    "split columns": {"block_M": 64, "block_N": 256, "threads": 256, "policy": T.GemmWarpPolicy.FullCol},
    "odd width": {"block_M": 128, "block_N": 192, "threads": 256},
    "odd width in clusters": {"block_M": 128, "block_N": 192, "threads": 256, "cluster_dims": (1, 2)},
    "exchanged operands": {"block_M": 144, "block_N": 256, "threads": 256},
    "exchanged in clusters": {"block_M": 208, "block_N": 128, "threads": 256, "cluster_dims": (2, 1)},
    "exchanged without staging": {"block_M": 152, "block_N": 192, "threads": 384},
    "long steps": {"block_M": 128, "block_N": 128, "block_K": 128, "threads": 256},
    "short steps": {"block_M": 128, "block_N": 128, "block_K": 32, "threads": 256},
    "columns first": {**_FULL, "order": "column", "panel": 4},
    "no overlap": {"block_M": 128, "block_N": 128, "threads": 256, "num_stages": 0},
    "one stage": {"block_M": 128, "block_N": 128, "threads": 256, "num_stages": 1},
    "six stages": {"block_M": 128, "block_N": 128, "threads": 256, "num_stages": 6},
    "fp32 output": {**_FULL, "out_dtype": "float32", "num_stages": 3},
    "bf16 output": {**_FULL, "out_dtype": "bfloat16"},
}  # fmt: skip


# Of a stored A^T 152 columns are no whole rows of any swizzle.
HOPPER_CASES = [(one, kind) for one in HOPPER for kind in ("NN", "TN")]
HOPPER_CASES.remove(("exchanged without staging", "TN"))


@pytest.mark.parametrize(("schedule", "layout"), HOPPER_CASES)
def test_hopper_schedules(on_gpu, schedule, layout):
    on_gpu(gpu_work.gemm_shapes, EVEN, "float16", layout, "sm_90a", HOPPER[schedule])


AMPERE = {
    "default": {},
    "quick start": {"block_M": 128, "block_N": 128, "block_K": 32, "threads": 128},
    "wide": {"block_M": 128, "block_N": 256, "block_K": 32, "threads": 256},
    "small": {"block_M": 64, "block_N": 64, "block_K": 32, "threads": 128},
    "no overlap": {"block_M": 128, "block_N": 128, "block_K": 32, "threads": 128, "num_stages": 0},
    "two stages": {"block_M": 128, "block_N": 128, "block_K": 32, "threads": 128, "num_stages": 2},
    "five stages": {"block_M": 128, "block_N": 128, "block_K": 32, "threads": 128, "num_stages": 5},
    "full rows": {"block_M": 128, "block_N": 128, "threads": 128, "policy": T.GemmWarpPolicy.FullRow},
    "full columns": {"block_M": 128, "block_N": 128, "threads": 128, "policy": T.GemmWarpPolicy.FullCol},
    "persistent": {"block_M": 128, "block_N": 128, "block_K": 32, "threads": 128, "persistent": True},
    "fp32 output": {"out_dtype": "float32"},
}


@pytest.mark.parametrize("layout", ["NN", "NT"])
@pytest.mark.parametrize("schedule", AMPERE)
def test_ampere_schedules(on_gpu, schedule, layout):
    on_gpu(gpu_work.gemm_shapes, EVEN, "float16", layout, "sm_80", AMPERE[schedule])


@pytest.mark.parametrize(
    "schedule",
    ["persistent", "cluster", "cluster of four", "k shared by five", "three consumers", "one stage"],
)
def test_launches_repeat_bit_by_bit_on_hopper(on_gpu, schedule):
    on_gpu(gpu_work.gemm_repeats, (2048, 2048, 2048), "sm_90a", HOPPER[schedule])


@pytest.mark.parametrize("schedule", ["quick start", "two stages"])
def test_launches_repeat_bit_by_bit_on_ampere(on_gpu, schedule):
    on_gpu(gpu_work.gemm_repeats, (2048, 2048, 2048), "sm_80", AMPERE[schedule])


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("parameters", [{}, {"split_K": 2}], ids=["plain", "k shared by two"])
def test_a_launch_is_captured_into_a_graph(on_gpu, target, parameters):
    on_gpu(gpu_work.gemm_in_graph, target, parameters)


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_the_quick_start_is_called_on_arrays_of(on_gpu, framework):
    on_gpu(gpu_work.quick_start_everywhere, framework)
