"""Transposition beside the device's copy bandwidth:  python -m benchmarks.transpose

The kernel is examples/transpose.py: `kernel(X)` on a matrix.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from benchmarks import own
from benchmarks.contest import OWN, Candidates, Contest, Options, hold
from benchmarks.correctness import Block, Output, Tolerance, Verdict, judge
from benchmarks.isolation import Progress
from benchmarks.measure import CudaTimer, Run
from benchmarks.program import benchmark_main

BASELINE = "copy"
_STEP = 1024
_EXACT = Tolerance(norm=0.0, relative=0.0, absolute=0.0)


@dataclass(frozen=True, slots=True)
class TransposeCase:
    rows: int
    columns: int
    dtype: str
    bar: float = 0.90

    @property
    def name(self) -> str:
        return f"transpose {self.rows}x{self.columns} {self.dtype}"


CASES = (TransposeCase(16384, 16384, "float16"), TransposeCase(16384, 16384, "float32"))

SCHEDULES = tuple(
    {"block": block, "threads": threads} for block in (32, 64, 128) for threads in (128, 256, 512)
)


def run_case(progress: Progress, case: TransposeCase, options: Options) -> dict[str, Any]:
    """Measures one case on the GPU; returns its entry for the results file."""
    import torch

    progress("inputs")
    generator = torch.Generator("cuda").manual_seed(0)
    dtype = getattr(torch, case.dtype)
    x = torch.randn((case.rows, case.columns), generator=generator, device="cuda", dtype=torch.float32).to(
        dtype
    )
    output = Output((case.columns, case.rows), dtype, "cuda")
    target = torch.empty_like(x)

    def check(name: str, run: Run) -> Verdict:
        if name == BASELINE:
            run()
            return judge(lambda: target.T, output, blocks, _EXACT)
        return judge(run, output, blocks, _EXACT)

    blocks = [
        Block((slice(start, min(start + _STEP, case.columns)),), x[:, start : start + _STEP].T.double())
        for start in sorted({0, case.columns // 3, max(0, case.columns - _STEP)})
    ]
    competitors: dict[str, Candidates] = {
        BASELINE: {"torch copy_": lambda: lambda: target.copy_(x)},
        "torch": {"copy_ of the transpose": lambda: lambda: output.tensor.copy_(x.T)},
        OWN: own.candidates("transpose", (x,), output, {}, options.backend, SCHEDULES),
    }
    contest = Contest(
        case=case.name,
        bar=case.bar,
        baseline=BASELINE,
        competitors={name: found for name, found in competitors.items() if found},
        check=check,
        work=2 * x.numel() * x.element_size(),
        unit="terabytes",
    )
    return hold(contest, options, CudaTimer(), progress)


def main() -> int:
    return benchmark_main("transpose", CASES, run_case, __doc__)


if __name__ == "__main__":
    sys.exit(main())
