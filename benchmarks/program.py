"""The command line of the benchmarks that run the repository's examples, and their table."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.compiling import backend_of
from benchmarks.contest import OWN, Options
from benchmarks.isolation import Deadline, Limits
from benchmarks.results import RESULTS, Report, ratio_cell, require_device, table
from benchmarks.runner import CASE_LIMITS, Case, run_cases
from tilegen.errors import TilegenError

_FACT_LIMITS = Limits(total=60.0, silence=60.0)


def benchmark_main(
    name: str, cases: Sequence[Case], function: Callable[..., Any], documentation: str | None
) -> int:
    """Runs the cases whose names contain `--cases`, prints the table, and returns an exit code."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}", description=(documentation or "").split("\n\n")[0]
    )
    parser.add_argument("--cases", default="", help="run the cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--time-limit", type=float, default=CASE_LIMITS.total, help="seconds a case")
    parser.add_argument("--budget", type=float, default=600.0, help="seconds for everything")
    parser.add_argument("--backend", choices=("nvrtc", "nvcc"))
    parser.add_argument("--cache", type=Path, help="folder of compiled kernels (see benchmarks.prepare)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.cache is not None:
        os.environ["TILEGEN_CACHE_DIR"] = str(arguments.cache.resolve())
    options = Options(backend=backend_of(arguments.cache, arguments.backend), rounds=arguments.rounds)
    limits = Limits(arguments.time_limit, min(CASE_LIMITS.silence, arguments.time_limit))
    chosen = [case for case in cases if arguments.cases in case.name]
    try:
        report = run_benchmark(
            name, chosen, function, options, arguments.results, Deadline(arguments.budget), limits
        )
    except TilegenError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(results_table(report))
    print(f"written to {report.path}")
    return 0


def run_benchmark(
    name: str,
    cases: Sequence[Case],
    function: Callable[..., Any],
    options: Options,
    folder: Path,
    deadline: Deadline,
    limits: Limits = CASE_LIMITS,
) -> Report:
    """Measures the cases into a report.

    Raises:
        TilegenError: when the GPU cannot be used.
    """
    facts = require_device(deadline.limits(_FACT_LIMITS))
    report = Report(name, folder, facts, {"backend": options.backend, "rounds": options.rounds})
    run_cases(cases, function, options, report, deadline, lambda text: print(text, flush=True), limits)
    return report


def results_table(report: Report) -> str:
    """The cases: tilegen's rate, each competitor's ratio to the baseline in rounds, tilegen's where launches alternate,
    the bar, and whether the ratio that it is about meets it."""
    names = list(dict.fromkeys(name for entry in report.cases for name in entry.get("ratios", {})))
    rates = {"teraflops": "TFLOP/s", "terabytes": "TB/s"}
    rows = []
    for entry in report.cases:
        ratios = entry.get("ratios", {})
        unit = next((unit for unit in rates if unit in entry), None)
        rate = entry[unit].get(OWN) if unit else None
        rows.append([
            entry["case"],
            "-" if rate is None or unit is None else f"{rate:.2f} {rates[unit]}",
            *(ratio_cell(ratios.get(name)) for name in names),
            ratio_cell(entry.get("alternating", {}).get("ratios", {}).get(OWN)),
            f"{entry['bar']:.2f}" if entry.get("bar") else "-",
            _verdict(entry),
        ])  # fmt: skip
    lines = [table(["case", "rate", *names, "alternating", "bar", ""], rows)]
    wrong = [
        f"{entry['case']}: {key}: {text}"
        for entry in report.cases
        for key, text in entry.get("wrong", {}).items()
    ]
    return "\n".join([*lines, *(f"wrong: {text}"[:200] for text in wrong[:8])])


def _verdict(entry: dict[str, Any]) -> str:
    if OWN not in entry.get("ratios", {}):
        return str(entry.get("status", ""))
    if not entry["bar"]:
        return ""
    judged = entry["alternating"]["ratios"] if entry["judged"] == "alternating" else entry["ratios"]
    return "ok" if judged[OWN] >= entry["bar"] else "MISSED"
