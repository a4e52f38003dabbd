"""W4A16 products beside cuBLAS on the fp16 weights:  python -m benchmarks.dequant_gemm

The kernels are examples/dequant_gemm.py and, for few rows of A, examples/dequant_gemv.py too: `kernel(A, *packed)` with
A fp16 [M, K], returning fp16 [M, N]. The first also defines `quantise(weight)`, from fp32 NumPy weights [K, N] to the
tuple of packed arrays, `dequantise(*packed)`, the fp32 weights [K, N] that they stand for, and `schedules_for(M)`, what
to try.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy

from benchmarks import own
from benchmarks.contest import OWN, Candidates, Contest, Options, hold
from benchmarks.correctness import Output, Tolerance, judge, product
from benchmarks.isolation import Progress
from benchmarks.measure import CudaTimer
from benchmarks.program import benchmark_main

BASELINE = "fp16 cuBLAS"
# Kernels may round a scaled weight to fp16 before the product, in another order than the reference.
_TOLERANCE = Tolerance(norm=2e-3, relative=2.0**-9, absolute=4e-3)


@dataclass(frozen=True, slots=True)
class DequantCase:
    rows: int
    columns: int
    depth: int
    bar: float

    @property
    def name(self) -> str:
        return f"W4A16 M{self.rows} N{self.columns} K{self.depth}"


CASES = (
    DequantCase(1, 8192, 8192, 2.6),
    DequantCase(16, 8192, 8192, 2.3),
    DequantCase(64, 8192, 8192, 1.45),
    DequantCase(256, 8192, 8192, 1.0),
    DequantCase(4096, 8192, 8192, 0.98),
)


def run_case(progress: Progress, case: DequantCase, options: Options) -> dict[str, Any]:
    """Measures one case on the GPU; returns its entry for the results file."""
    import torch

    from tilegen.calls.arrays import framework_named

    progress("inputs")
    module = own.example("dequant_gemm")
    generator = numpy.random.default_rng(0)
    weight = generator.standard_normal((case.depth, case.columns), dtype=numpy.float32)
    packed = module.quantise(weight)
    dense = torch.from_numpy(numpy.asarray(module.dequantise(*packed), numpy.float32)).cuda()
    on_device = tuple(framework_named("torch").from_numpy(numpy.asarray(array)).cuda() for array in packed)
    a = (
        torch.from_numpy(generator.standard_normal((case.rows, case.depth), dtype=numpy.float32))
        .cuda()
        .half()
    )
    half = dense.half()
    output = Output((case.rows, case.columns), torch.float16, "cuda")
    blocks = product(a, dense)
    competitors: dict[str, Candidates] = {
        BASELINE: {"torch.matmul": lambda: lambda: torch.matmul(a, half, out=output.tensor)},
        OWN: _candidates(case, (a, *on_device), output, options),
    }
    contest = Contest(
        case=case.name,
        bar=case.bar,
        baseline=BASELINE,
        competitors=competitors,
        check=lambda name, run: judge(run, output, blocks, _TOLERANCE),
        work=2 * case.rows * case.columns * case.depth,
        unit="teraflops",
    )
    return hold(contest, options, CudaTimer(), progress)


def _candidates(case: DequantCase, inputs: tuple[Any, ...], output: Output, options: Options) -> Candidates:
    """The schedules of the example, and for few rows those of the one that reads W straight to registers."""
    schedules = own.example("dequant_gemm").schedules_for(case.rows)
    found = own.candidates("dequant_gemm", inputs, output, {}, options.backend, schedules)
    if case.rows <= own.example("dequant_gemv").MOST_ROWS:
        direct = own.candidates("dequant_gemv", inputs, output, {}, options.backend)
        found |= {f"dequant_gemv {name}": making for name, making in direct.items()}
    return found


def main() -> int:
    return benchmark_main("dequant_gemm", CASES, run_case, __doc__)


if __name__ == "__main__":
    sys.exit(main())
