"""GEMM side by side with cuBLAS, Triton and TileLang:  python -m benchmarks.gemm [options]

Prints a table and writes benchmarks/results/gemm-<device>-<date>.json. Each case runs in a process of its own under a
time limit; kernels are compiled in parallel first.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import bank_conflicts
from benchmarks.cases import (
    LAYOUTS,
    GemmCase,
    acceptance_cases,
    parse_dtypes,
    parse_layouts,
    parse_size,
)
from benchmarks.compiling import backend_of, compile_all, gemm_variants, in_parallel, summary
from benchmarks.contest import OWN, Options
from benchmarks.gemm_case import run_case
from benchmarks.gemm_costs import GENERATION_BAR, LAUNCH_BAR, NVRTC_BAR, generation, launch_overhead
from benchmarks.isolation import Deadline, Limits, Progress, run_isolated
from benchmarks.measure import mean_ratio
from benchmarks.results import RESULTS, Report, ratio_cell, require_device, table
from benchmarks.runner import CASE_LIMITS, run_cases
from benchmarks.schedules import Schedule, default_schedule
from tilegen.errors import TilegenError
from tilegen.runtime.compilation import Backend

_COST_LIMITS = Limits(total=60.0, silence=40.0)
_WARM_JOBS = 10  # processes with a CUDA context each
_NCU_SECONDS = 40.0  # kept for each profiled launch


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.gemm", description=__doc__.split("\n\n")[0])
    made.add_argument(
        "--cases", help="sizes, comma-separated: names or MxNxK; all of the acceptance table otherwise"
    )
    made.add_argument("--dtype", default="fp16,bf16", help="fp16, bf16 or both")
    made.add_argument("--layouts", default=",".join(LAYOUTS), help="of NN, NT, TN, TT (T: stored transposed)")
    made.add_argument("--kind", default="matmul", choices=("matmul", "quick_start"))
    made.add_argument("--target", default="sm_90a", help="whose file runs: sm_90a, sm_89 or sm_80")
    made.add_argument("--search", type=int, default=16, help="schedules that tilegen's search tries")
    made.add_argument("--no-search", action="store_true", help="run the default schedule alone")
    made.add_argument("--peers", default="triton,tilelang")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--quick", action="store_true", help="fp16, 8 schedules and 3 rounds")
    made.add_argument("--ncu", action="store_true", help="also count bank conflicts with Nsight Compute")
    made.add_argument("--no-costs", action="store_true", help="leave out generation time and launch overhead")
    made.add_argument("--no-prepare", action="store_true", help="compile each kernel when its case runs")
    made.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    made.add_argument("--time-limit", type=float, default=CASE_LIMITS.total, help="seconds a case")
    made.add_argument("--budget", type=float, default=1200.0, help="seconds for everything")
    made.add_argument("--backend", choices=("nvrtc", "nvcc"))
    made.add_argument("--cache", type=Path, help="folder of compiled kernels (see benchmarks.prepare)")
    made.add_argument("--results", type=Path, default=RESULTS)
    return made


def chosen_cases(arguments: argparse.Namespace) -> list[GemmCase]:
    """The cases that the options name.

    Raises:
        UnknownCase: for names that there are not.
    """
    dtypes, layouts = parse_dtypes(arguments.dtype), parse_layouts(arguments.layouts)
    if arguments.quick:
        dtypes = dtypes[:1]
    if arguments.cases is None:
        return acceptance_cases(dtypes, layouts)
    return [
        GemmCase(parse_size(size), dtype, layout, arguments.kind, arguments.target, compare_default=True)
        for size in arguments.cases.split(",")
        for dtype in dtypes
        for layout in layouts
    ]


def measuring(arguments: argparse.Namespace) -> Options:
    """How the options say to measure."""
    search = 0 if arguments.no_search else min(arguments.search, 8) if arguments.quick else arguments.search
    return Options(
        search=search,
        backend=backend_of(arguments.cache, arguments.backend),
        rounds=3 if arguments.quick else arguments.rounds,
        peers=tuple(peer for peer in arguments.peers.split(",") if peer),
    )


def run(arguments: argparse.Namespace, deadline: Deadline) -> Report:
    """Everything that the options ask for; the report holds it."""
    cases, options = chosen_cases(arguments), measuring(arguments)
    if arguments.cache is not None:
        os.environ["TILEGEN_CACHE_DIR"] = str(arguments.cache.resolve())
    facts = require_device(_COST_LIMITS)
    settings = {"search": options.search, "backend": options.backend}
    report = Report("gemm", arguments.results, facts, settings)
    if not arguments.no_prepare:
        variants = gemm_variants(cases, options.search)
        compiled, left = compile_all(variants, options.backend, arguments.jobs, deadline)
        print(summary(compiled, left), flush=True)
        if "triton" in options.peers:
            warm_triton(cases, arguments.jobs, deadline)
    if not arguments.no_costs:
        measure_costs(report, options.backend, deadline)
    limits = Limits(arguments.time_limit, min(CASE_LIMITS.silence, arguments.time_limit))
    run_cases(cases, run_case, options, report, deadline, _say, limits)
    if arguments.ncu:
        count_conflicts(report, cases, options.backend, deadline)
    return report


def warm_triton(cases: Sequence[GemmCase], jobs: int, deadline: Deadline) -> None:
    """Compiles the peer's configurations in parallel, as tilegen's are; its cache is on disk."""
    if importlib.util.find_spec("triton") is None:
        return
    outcome = run_isolated(_warm_calls, (list(cases),), deadline.limits(_COST_LIMITS))
    failed, left = in_parallel(_warm, outcome.value or [], min(jobs, _WARM_JOBS), deadline)
    _say(f"{len(failed)} Triton kernels compiled, {left} left out")
    for text in [text for text in failed if text][:4]:
        _say(f"  Triton: {text}")


def _warm_calls(progress: Progress, cases: Sequence[GemmCase]) -> list[tuple[Any, ...]]:
    """The distinct kernels of the peer; in a child, which may import it."""
    from benchmarks import triton_gemm

    found: dict[tuple[Any, ...], None] = {}
    for case in cases:
        rows = case.problem.M
        for position in range(len(triton_gemm.configurations(rows)) if case.kind == "matmul" else 0):
            kind = 64 if rows <= 64 else 256 if rows <= 256 else 512
            found[(case.dtype, *case.transposes, kind, position)] = None
    return list(found)


def _warm(*arguments: Any) -> str:
    from benchmarks import triton_gemm

    return str(triton_gemm.warm(*arguments))


def measure_costs(report: Report, backend: Backend, deadline: Deadline) -> None:
    """Generation, NVRTC and launch overhead into the report."""
    costs: dict[str, Any] = {}
    for name, function, arguments in (
        ("generation", generation, ()),
        ("launch_microseconds", launch_overhead, (backend,)),
    ):
        outcome = run_isolated(function, arguments, deadline.limits(_COST_LIMITS))
        costs[name] = (
            outcome.value if outcome.status == "done" else f"{outcome.status}: {outcome.message[-500:]}"
        )
    report.note("costs", costs)
    for line in cost_lines(costs):
        _say(line)


def cost_lines(costs: dict[str, Any]) -> list[str]:
    """The costs beside their bars."""
    lines = []
    made = costs["generation"]
    if isinstance(made, dict):
        for kind, bar in (("generation_seconds", GENERATION_BAR), ("nvrtc_seconds", NVRTC_BAR)):
            times = ", ".join(f"{name} {value:.3f}" for name, value in made[kind].items())
            lines.append(f"{kind.replace('_', ' ')} (bar {bar}): {times}")
        lines += [f"generation failed: {name}: {text}" for name, text in made.get("failed", {}).items()]
    else:
        lines.append(f"generation: {made}")
    launched = costs["launch_microseconds"]
    if isinstance(launched, dict):
        times = ", ".join(f"{name} {value:.1f}" for name, value in launched.items())
        lines.append(f"launch microseconds (bar {LAUNCH_BAR} beside the driver's): {times}")
    else:
        lines.append(f"launch: {launched}")
    return lines


def count_conflicts(report: Report, cases: Sequence[GemmCase], backend: str, deadline: Deadline) -> None:
    """Bank conflicts of one launch of each kind of case (by layout, type and target), under the schedule that won."""
    chosen = {entry["case"]: entry.get("chosen", {}).get(OWN) for entry in report.cases}
    kinds = {(case.kind, case.dtype, case.layout, case.target): case for case in reversed(cases)}
    found = []
    for case in kinds.values():
        if deadline.remaining() < _NCU_SECONDS:
            break
        schedule = None
        if case.kind == "matmul":
            text = chosen.get(case.name)
            schedule = Schedule.parse(text) if text else default_schedule(case.stored, case.target)
        found.append(bank_conflicts.count(case, schedule, backend, deadline.remaining()))
        _say("\n".join(bank_conflicts.lines(found[-1:])))
    report.note(
        "bank_conflicts",
        [
            {"case": c.case, "schedule": c.schedule, "metrics": dict(c.values), "error": c.error}
            for c in found
        ],
    )


def results_table(report: Report) -> str:
    """The cases as a table, the means of those that carry a bar, and what was wrong."""
    names = list(dict.fromkeys(name for entry in report.cases for name in entry.get("ratios", {})))
    names = [name for name in names if name != "cuBLAS"]
    headings = ["case", "TFLOP/s", *(f"{name}/cuBLAS" for name in names), "to best", "bar", ""]
    rows = []
    for entry in report.cases:
        ratios = entry.get("ratios", {})
        flops = entry.get("teraflops", {}).get(OWN)
        met = (
            "" if OWN not in ratios or not entry["bar"] else "ok" if ratios[OWN] >= entry["bar"] else "MISSED"
        )
        rows.append([
            entry["case"],
            "-" if flops is None else f"{flops:.0f}",
            *(ratio_cell(ratios.get(name)) for name in names),
            ratio_cell(entry.get("ratio_to_best")),
            f"{entry['bar']:.2f}" if entry.get("bar") else "-",
            met or (entry.get("status", "") if entry.get("status") != "measured" else ""),
        ])  # fmt: skip
    lines = [table(headings, rows)]
    large = [e["ratios"][OWN] for e in report.cases if e.get("bar") == 0.99 and OWN in e.get("ratios", {})]
    if large:
        lines.append(
            f"large cases: geometric mean {mean_ratio(large):.3f} (bar 1.02), least {min(large):.3f} (bar 0.99)"
        )
    defaults = [e["default_to_search"] for e in report.cases if e.get("default_to_search")]
    if defaults:
        lines.append(
            f"default schedule to the search's best: {mean_ratio(defaults):.3f}, least {min(defaults):.3f} (0.95)"
        )
    wrong = [
        f"{e['case']}: {k}: {v}"
        for e in report.cases
        for k, v in e.get("wrong", {}).items()
        if "refused" not in v
    ]
    lines += [f"wrong: {text}"[:200] for text in wrong[:12]]
    return "\n".join(lines)


def _say(text: str) -> None:
    print(text, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        report = run(options, Deadline(options.budget))
    except TilegenError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(results_table(report))
    print(f"written to {report.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
