"""Launches tilegen's kernel for one GEMM case once, for a profiler to watch.

ncu … python -m benchmarks.one_launch --size 4096x4096x4096 --layout NN --schedule "128x256x64 s3 t256 grid c1 p8"
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.cases import GemmCase, parse_dtypes, parse_layouts, parse_size
from benchmarks.correctness import TOLERANCES, judge
from benchmarks.gemm_case import make_arrays, own_launch
from benchmarks.schedules import Schedule, default_schedule


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.one_launch", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--size", default="4096x4096x4096")
    parser.add_argument("--dtype", default="fp16")
    parser.add_argument("--layout", default="NN")
    parser.add_argument("--kind", default="matmul", choices=("matmul", "quick_start"))
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--backend", default="nvrtc")
    parser.add_argument("--schedule", help="as the search prints it; the default schedule otherwise")
    options = parser.parse_args(arguments)
    problem = parse_size(options.size)
    (dtype,), (layout,) = parse_dtypes(options.dtype), parse_layouts(options.layout)
    case = GemmCase(problem, dtype, layout, options.kind, options.target)
    schedule = None
    if case.kind == "matmul":
        chosen = options.schedule
        schedule = Schedule.parse(chosen) if chosen else default_schedule(case.stored, case.target)
    arrays = make_arrays(case)
    run = own_launch(case, schedule, arrays, options.backend)
    verdict = judge(run, arrays.output, arrays.reference, TOLERANCES[dtype])
    print(f"{case.name}, {schedule or 'as written'}: {verdict}")
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    sys.exit(main())
