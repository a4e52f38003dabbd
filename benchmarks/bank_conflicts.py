"""Counts shared-memory bank conflicts of one launch with Nsight Compute."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.cases import GemmCase
from benchmarks.schedules import Schedule

METRICS = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "sm__inst_executed_pipe_tensor.sum",
)
_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Conflicts:
    """The metrics of one launch, or why there are none."""

    case: str
    schedule: str
    values: tuple[tuple[str, float], ...]
    error: str

    @property
    def conflicts(self) -> float | None:
        return dict(self.values).get(METRICS[0])


def command(case: GemmCase, schedule: Schedule | None, backend: str) -> list[str]:
    """The words that profile one launch."""
    size = f"{case.problem.M}x{case.problem.N}x{case.problem.K}"
    kernel = "matmul_relu" if case.kind == "quick_start" else "matmul"
    words = ["ncu", "--csv", "--clock-control", "none", "--metrics", ",".join(METRICS)]
    words += ["--kernel-name", kernel, "--launch-count", "1", sys.executable, "-m", "benchmarks.one_launch"]
    words += ["--size", size, "--dtype", case.dtype, "--layout", case.layout, "--kind", case.kind]
    words += ["--target", case.target, "--backend", backend]
    return words if schedule is None else [*words, "--schedule", str(schedule)]


def parse(output: str) -> tuple[tuple[str, float], ...]:
    """The metrics in ncu's CSV; what the program printed before it is skipped."""
    lines = output.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return ()
    rows = csv.DictReader(lines[start:])
    values = {row["Metric Name"]: row["Metric Value"] for row in rows if row.get("Metric Name")}
    return tuple((name, float(values[name].replace(",", ""))) for name in METRICS if name in values)


def count(case: GemmCase, schedule: Schedule | None, backend: str, limit: float = _SECONDS) -> Conflicts:
    """Profiles one launch in a process of its own."""
    label = "as written" if schedule is None else str(schedule)
    if shutil.which("ncu") is None:
        return Conflicts(case.name, label, (), "ncu is not on PATH")
    try:
        done = subprocess.run(
            command(case, schedule, backend),
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
            env=dict(os.environ),
        )
    except subprocess.TimeoutExpired:
        return Conflicts(case.name, label, (), f"killed after {limit:.0f} s")
    values = parse(done.stdout)
    error = "" if values else (done.stdout + done.stderr).strip()[-400:]
    return Conflicts(case.name, label, values, error)


def lines(found: Sequence[Conflicts]) -> list[str]:
    """A line a launch."""
    return [
        f"{c.case}, {c.schedule}: "
        + (", ".join(f"{name.removesuffix('.sum')} {value:.0f}" for name, value in c.values) or c.error)
        for c in found
    ]
