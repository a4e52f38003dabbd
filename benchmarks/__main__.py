"""Everything in one command, within a time budget:  python -m benchmarks --budget 1500 --results DIR

Runs, in this order: the preparation of the kernels, the GEMM table, the examples' benchmarks, and the GPU tests, which
also record the primitives' results. Prints a compact table of each at the end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import gemm, program
from benchmarks.attention import kernel_variants
from benchmarks.compiling import backend_of, compile_all, summary
from benchmarks.contest import Options
from benchmarks.isolation import Deadline
from benchmarks.results import RESULTS, Report
from benchmarks.suite import BENCHMARKS
from tilegen.errors import TilegenError
from tilegen.runtime.disk_cache import write_atomically

_PARTS = ("gemm", *(benchmark.name for benchmark in BENCHMARKS), "primitives", "tests")
# What a part may take at most, of the seconds that are left when it begins.
_SHARES = {
    "gemm": 0.5,
    "attention": 0.5,
    "row_kernels": 0.5,
    "dequant_gemm": 0.5,
    "transpose": 0.5,
    "primitives": 0.6,
    "tests": 1.0,
}
_ROOT = Path(__file__).resolve().parent.parent


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n\n")[0])
    made.add_argument("--budget", type=float, default=1500.0, help="seconds for everything")
    made.add_argument("--only", default=",".join(_PARTS), help=f"of {', '.join(_PARTS)}")
    made.add_argument("--results", type=Path, default=RESULTS)
    made.add_argument("--cache", type=Path, help="folder of compiled kernels (see benchmarks.prepare)")
    made.add_argument("--quick", action="store_true", help="fewer GEMM cases, schedules and rounds")
    made.add_argument("--ncu", action="store_true", help="count bank conflicts too")
    made.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    wanted = options.only.split(",")
    unknown = [part for part in wanted if part not in _PARTS]
    if unknown:
        print(f"error: there is no part '{unknown[0]}': {', '.join(_PARTS)}", file=sys.stderr)
        return 2
    if options.cache is not None:
        os.environ["TILEGEN_CACHE_DIR"] = str(options.cache.resolve())
    deadline = Deadline(options.budget)
    tables = []
    for part in _PARTS:
        if part in wanted:
            share = Deadline(deadline.remaining() * _SHARES[part])
            print(f"===== {part}, {share.remaining():.0f} s", flush=True)
            tables.append(f"===== {part}\n{_part(part, options, share)}")
    print("\n".join(tables))
    return 0


def _part(part: str, options: argparse.Namespace, deadline: Deadline) -> str:
    """Runs a part and returns its table, or why there is none."""
    try:
        if part == "gemm":
            return gemm.results_table(_gemm(options, deadline))
        if part == "primitives":
            return _program(["tests/gpu/record_primitives.py", "--out", str(options.results)], deadline)
        if part == "tests":
            return _tests(options, deadline)
        return _example(part, options, deadline)
    except TilegenError as error:
        return f"error: {error}"


def _gemm(options: argparse.Namespace, deadline: Deadline) -> Report:
    words = ["--results", str(options.results), "--jobs", str(options.jobs)]
    words += ["--quick"] if options.quick else []
    words += ["--ncu"] if options.ncu else []
    words += ["--cache", str(options.cache)] if options.cache is not None else []
    return gemm.run(gemm.parser().parse_args(words), deadline)


def _example(name: str, options: argparse.Namespace, deadline: Deadline) -> str:
    (benchmark,) = (b for b in BENCHMARKS if b.name == name)
    missing = benchmark.missing()
    if len(missing) == len(benchmark.examples):
        return f"left out: examples/{missing[0]}.py is not there"
    if name == "attention":
        compiled, left = compile_all(
            kernel_variants(), backend_of(options.cache, None), options.jobs, deadline
        )
        print(summary(compiled, left), flush=True)
    measuring = Options(backend=backend_of(options.cache, None), rounds=3 if options.quick else 5)
    report = program.run_benchmark(
        name, benchmark.cases, benchmark.function, measuring, options.results, deadline
    )
    return program.results_table(report)


def _tests(options: argparse.Namespace, deadline: Deadline) -> str:
    """The GPU tests in parallel: the emulator is not needed for them, so that most processes wait for the GPU."""
    words = ["-m", "pytest", "tests/gpu", "-q", "-p", "no:cacheprovider", "-n", str(min(8, options.jobs))]
    log = options.results / "tests.log"
    return _program([*words, "-rf", "--tb=short", "--timeout=240"], deadline, log, 60)


def _program(words: Sequence[str], deadline: Deadline, log: Path | None = None, last: int = 12) -> str:
    """The last lines of a Python program's output; all of it goes to the log, or is printed."""
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        said, _ = process.communicate(timeout=max(1.0, deadline.remaining()))
        ending = ""
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
        ending = "\nkilled: out of time"
    if log is None:
        print(said, flush=True)
    else:
        write_atomically(log, said.encode())
    return "\n".join(line[:160] for line in said.splitlines()[-last:]) + ending


if __name__ == "__main__":
    sys.exit(main())
