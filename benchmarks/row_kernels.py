"""Softmax, RMSNorm and LayerNorm beside torch, torch.compile and plain Triton:  python -m benchmarks.row_kernels

The kernels are examples/softmax.py (`kernel(X)`), rms_norm.py (`kernel(X, W)`) and layer_norm.py (`kernel(X, W, B)`) on
[rows, columns] tensors.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks import own
from benchmarks.contest import OWN, Candidates, Contest, Options, hold
from benchmarks.correctness import Block, Output, Tolerance, judge
from benchmarks.isolation import Progress
from benchmarks.measure import CudaTimer, Run
from benchmarks.program import benchmark_main

BASELINE = "torch.compile"
BANDWIDTH_BAR = 4.0  # TB/s, read and written once
_EPSILON = 1e-6
_STEP = 2048  # rows of the reference at a time
_TOLERANCES = {
    "float16": Tolerance(norm=1e-3, relative=2.0**-9, absolute=1e-3),
    "bfloat16": Tolerance(norm=5e-3, relative=2.0**-6, absolute=1e-3),
}


@dataclass(frozen=True, slots=True)
class RowCase:
    operation: str
    rows: int
    columns: int
    dtype: str
    bar: float = 1.0

    @property
    def name(self) -> str:
        short = {"float16": "fp16", "bfloat16": "bf16"}[self.dtype]
        return f"{self.operation} {self.rows}x{self.columns} {short}"

    @property
    def bytes(self) -> int:
        return 2 * 2 * self.rows * self.columns


CASES = tuple(
    RowCase(operation, rows, columns, dtype)
    for operation in ("rms_norm", "layer_norm", "softmax")
    for rows, columns in ((32768, 4096), (16384, 16384))
    for dtype in ("bfloat16", "float16")
)

_MOST = 64  # elements a thread of tiles of several rows: more of them spill


def schedules(columns: int) -> tuple[dict[str, int], ...]:
    """Tiles of several rows that threads can hold; the examples list those of one row."""
    sizes = ((rows, threads) for rows in (2, 4) for threads in (128, 256, 512))
    return tuple(
        {"rows": rows, "threads": threads} for rows, threads in sizes if rows * columns <= _MOST * threads
    )


def run_case(progress: Progress, case: RowCase, options: Options) -> dict[str, Any]:
    """Measures one case on the GPU; returns its entry for the results file."""
    import torch

    progress("inputs")
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    generator = torch.Generator("cuda").manual_seed(0)
    dtype = getattr(torch, case.dtype)
    shapes = [(case.rows, case.columns)] + [(case.columns,)] * {"softmax": 0, "rms_norm": 1, "layer_norm": 2}[
        case.operation
    ]
    inputs = tuple(
        torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32).to(dtype)
        for shape in shapes
    )
    output = Output((case.rows, case.columns), dtype, "cuda")
    blocks = reference(case.operation, inputs)
    plain = torch_function(case.operation, case.columns)
    compiled = torch.compile(plain, dynamic=False)
    competitors: dict[str, Candidates] = {
        BASELINE: {"default mode": lambda: _called(compiled, inputs)},
        "torch": {"eager": lambda: _called(plain, inputs)},
        OWN: own.candidates(case.operation, inputs, output, {}, options.backend, schedules(case.columns)),
    }
    if importlib.util.find_spec("triton") is not None:
        from benchmarks import triton_rows

        competitors["Triton"] = triton_rows.candidates(case.operation, inputs, output.tensor, _EPSILON)
    contest = Contest(
        case=case.name,
        bar=case.bar,
        baseline=BASELINE,
        competitors={name: found for name, found in competitors.items() if found},
        check=lambda name, run: judge(run, output, blocks, _TOLERANCES[case.dtype]),
        work=case.bytes,
        unit="terabytes",
    )
    return hold(contest, options, CudaTimer(), progress)


def torch_function(operation: str, columns: int) -> Callable[..., Any]:
    """torch's own row kernel."""
    import torch.nn.functional as functional

    match operation:
        case "softmax":
            return lambda x: functional.softmax(x, -1)
        case "rms_norm":
            return lambda x, w: functional.rms_norm(x, (columns,), w, _EPSILON)
        case _:
            return lambda x, w, b: functional.layer_norm(x, (columns,), w, b, _EPSILON)


def reference(operation: str, inputs: tuple[Any, ...]) -> list[Block]:
    """The same in float64, for a sample of the rows: the first, the last and some between."""
    rows, columns = inputs[0].shape
    function = torch_function(operation, columns)
    starts = sorted({0, rows // 3, max(0, rows - _STEP)})
    blocks = []
    for start in starts:
        part = slice(start, min(start + _STEP, rows))
        values = function(inputs[0][part].double(), *(tensor.double() for tensor in inputs[1:]))
        blocks.append(Block((part,), values))
    return blocks


def _called(function: Callable[..., Any], inputs: tuple[Any, ...]) -> Run:
    function(*inputs)
    return lambda: function(*inputs)


def main() -> int:
    return benchmark_main("row_kernels", CASES, run_case, __doc__)


if __name__ == "__main__":
    sys.exit(main())
