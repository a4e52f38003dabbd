"""The row kernels on every target: any width, dtype and number of threads, under adversarial schedules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from example_cases import example

from tilegen.emission import Emission
from tilegen.language.tensors import spec_of_array
from tilegen.toolchain import compile_cuda, compile_hip

Array = np.ndarray[Any, Any]
KERNELS = ("softmax", "rms_norm", "layer_norm")
TARGETS = ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950")
# What storing the result, and elements on the way to it, in the type costs.
ROUNDING = {np.float16: 1e-3, ml_dtypes.bfloat16: 6e-3, np.float32: 1e-6}
# columns, rows, keyword arguments, dtype, schedule
CASES: list[tuple[int, int, dict[str, int], Any, str]] = [
    (96, 5, {"threads": 128}, np.float16, "reverse"),
    (96, 9, {"threads": 256, "rows": 8}, np.float32, "random"),
    (100, 3, {"threads": 128}, ml_dtypes.bfloat16, "random"),
    (127, 4, {"threads": 128, "rows": 2}, np.float16, "random"),
    (229, 3, {"threads": 256}, np.float32, "reverse"),
    (229, 6, {"threads": 128, "rows": 4}, ml_dtypes.bfloat16, "random"),
    (4096, 3, {}, ml_dtypes.bfloat16, "random"),
    (4096, 2, {"threads": 1024}, np.float16, "random"),
    (16384, 2, {}, np.float16, "reverse"),
    (16384, 1, {"threads": 128}, ml_dtypes.bfloat16, "fifo"),
    # Tiles of rows loaded ahead.
    (1024, 11, {"stages": 3, "threads": 128}, np.float16, "random"),
    (1000, 21, {"stages": 2, "rows": 2, "threads": 128}, ml_dtypes.bfloat16, "reverse"),
    (512, 37, {"stages": 4, "rows": 4, "threads": 128}, np.float32, "random"),
]


AHEAD = [case for case in CASES if "stages" in case[2]]


def inputs(name: str, rows: int, columns: int, dtype: Any) -> tuple[Array, ...]:
    rng = np.random.default_rng(columns + rows)
    count = {"softmax": 0, "rms_norm": 1, "layer_norm": 2}[name]
    shapes = [(rows, columns)] + [(columns,)] * count
    return tuple(rng.standard_normal(shape, dtype=np.float32).astype(dtype) for shape in shapes)


def emitted(name: str, target: str, arrays: tuple[Array, ...], **parameters: Any) -> Emission:
    specs = [spec_of_array(array.shape, array.dtype) for array in arrays]
    return example(name).kernel.emit(*specs, target=target, **parameters)


def kernel_text(emission: Emission) -> str:
    text = emission.source
    return text[text.index("- kernel\n") : text.index("- host\n")]


def runs() -> Iterator[Any]:
    """Every kernel in every case on two targets, in turn, so that every kernel meets four widths on every target."""
    for kernel, name in enumerate(KERNELS):
        for position, (columns, rows, parameters, dtype, schedule) in enumerate(CASES):
            for target in (TARGETS[(position + kernel) % 5], TARGETS[(position + kernel + 2) % 5]):
                what = "-".join(
                    [name, target, str(columns), str(np.dtype(dtype)), *map(str, parameters.values())]
                )
                yield pytest.param(name, columns, rows, parameters, dtype, schedule, target, id=what)
        for columns, rows, parameters, dtype, schedule in AHEAD:
            what = f"{name}-producer-{columns}-{np.dtype(dtype)}"
            yield pytest.param(name, columns, rows, parameters, dtype, schedule, "sm_90a", id=what)


@pytest.mark.parametrize(
    ("name", "columns", "rows", "parameters", "dtype", "schedule", "target"), list(runs())
)
def test_any_width_is_right(
    require_tool: Callable[[str], None],
    name: str,
    columns: int,
    rows: int,
    parameters: dict[str, int],
    dtype: Any,
    schedule: Any,
    target: str,
) -> None:
    require_tool("host_compiler")
    arrays = inputs(name, rows, columns, dtype)
    emission = emitted(name, target, arrays, **parameters)
    result = emission.emulate(*arrays, schedule=schedule, asynchronous="lazy", seed=columns)
    expected = example(name).reference(*(array.astype(np.float64) for array in arrays))
    assert result.dtype == np.dtype(dtype)
    error = np.linalg.norm(result.astype(np.float64) - expected) / np.linalg.norm(expected)
    assert error < ROUNDING[dtype]


# ------------------------------------------------------------------------------------------- compiled


@pytest.mark.parametrize(
    ("columns", "dtype", "threads"),
    [
        (4096, np.float16, 0),
        (16384, np.float16, 512),
        (16384, ml_dtypes.bfloat16, 0),
        (16384, ml_dtypes.bfloat16, 1024),
        (16384, np.float32, 512),
        (16380, np.float16, 128),
    ],
)
@pytest.mark.parametrize("name", KERNELS)
def test_nothing_spills_where_blocks_share_a_multiprocessor(
    require_tool: Callable[[str], None], name: str, columns: int, dtype: Any, threads: int
) -> None:
    require_tool("nvcc")
    emission = emitted(name, "sm_90a", inputs(name, 8, columns, dtype), threads=threads)
    kernel = compile_cuda(emission.source, emission.target).kernel(emission.name)
    assert (kernel.spills, kernel.stack_bytes) == (0, 0)


BLOCKS = {  # a multiprocessor, by columns and threads: what nvcc compiles without spilling
    (4096, 128): (8, 8, 8),
    (4096, 256): (4, 4, 4),
    (4096, 512): (2, 2, 2),
    (4096, 1024): (2, 2, 2),
    (16384, 128): (3, 3, 3),
    (16384, 256): (3, 3, 2),
    (16384, 512): (2, 2, 2),
    (16384, 1024): (2, 2, 1),
}


@pytest.mark.parametrize(("columns", "threads"), BLOCKS)
@pytest.mark.parametrize("name", KERNELS)
def test_blocks_that_share_a_multiprocessor(name: str, columns: int, threads: int) -> None:
    emission = emitted(name, "sm_90a", inputs(name, 8, columns, np.float16), threads=threads)
    blocks = BLOCKS[columns, threads][KERNELS.index(name)]
    assert f"__launch_bounds__(kThreads, {blocks})" in kernel_text(emission)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("name", KERNELS)
def test_cdna_reads_and_writes_16_bytes_a_lane(
    require_tool: Callable[[str], None], name: str, target: str
) -> None:
    require_tool("hip_gfx950" if target == "gfx950" else "hip")
    emission = emitted(name, target, inputs(name, 8, 16384, ml_dtypes.bfloat16))
    result = compile_hip(emission.source, emission.target)
    assert result.kernel(emission.name).spills == 0
    accesses = re.findall(r"\b(?:global|buffer|flat)_(?:load|store)\w*", result.assembly)
    assert accesses and all(access.endswith("dwordx4") for access in accesses)


# ------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_row_is_read_and_written_once_in_16_byte_accesses(name: str, target: str) -> None:
    emission = emitted(name, target, inputs(name, 8, 4096, np.float16))
    text = kernel_text(emission)
    vector = "uint4" if target.startswith("sm") else "fp16x8"
    assert text.count(f"reinterpret_cast<const {vector}*>(&X[") == 1
    assert text.count(f"reinterpret_cast<{vector}*>(&Y[") == 1
    assert "X[" not in text.replace(f"reinterpret_cast<const {vector}*>(&X[", "").replace("T.copy(X[", "")


@pytest.mark.parametrize(("name", "barriers"), [("softmax", 2), ("rms_norm", 1), ("layer_norm", 2)])
def test_threads_wait_once_for_each_reduction(name: str, barriers: int) -> None:
    text = kernel_text(emitted(name, "sm_90a", inputs(name, 8, 4096, np.float16)))
    assert text.count("__syncthreads();") == barriers


@pytest.mark.parametrize("name", KERNELS)
def test_rows_of_whole_warps_need_no_shared_memory(name: str) -> None:
    text = kernel_text(emitted(name, "sm_90a", inputs(name, 64, 512, np.float16), rows=16, threads=128))
    assert "shared" not in text and "__syncthreads" not in text


@pytest.mark.parametrize("name", KERNELS)
def test_tails_take_predicates_in_place_of_branches_around_loads(name: str) -> None:
    text = kernel_text(emitted(name, "sm_90a", inputs(name, 8, 5000, np.float16), threads=256))
    for line in text.splitlines():
        assert not ("if (" in line and "const uint4*>(&X" in line)
    assert "&X[bx * kN + column]), column < kN)" in text


@pytest.mark.parametrize("name", KERNELS)
def test_a_producer_loads_whole_rows_at_once(name: str) -> None:
    for columns, rows in ((16384, 1), (4096, 4)):
        text = kernel_text(
            emitted(name, "sm_90a", inputs(name, 300, columns, np.float16), rows=rows, stages=4)
        )
        assert text.count("tma_load_3d(shared.ahead[ring.stage], X, 0, ") == 1
        assert "for (int group" not in text and "tma_load_2d" not in text
