"""Runs a benchmark's cases, each in its own process, within the time that is left; retries what a candidate broke."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from benchmarks.contest import Options
from benchmarks.isolation import Deadline, Limits, Outcome, run_isolated
from benchmarks.results import Report

CASE_LIMITS = Limits(total=150.0, silence=40.0)
_ATTEMPTS = 4
_LEAST_SECONDS = 12.0  # a case is not begun with less

Isolated = Callable[[Callable[..., Any], Sequence[Any], Limits], Outcome]


class Case(Protocol):
    """What a benchmark measures: anything with a name."""

    @property
    def name(self) -> str: ...


def run_cases(
    cases: Sequence[Case],
    function: Callable[..., Any],
    options: Options,
    report: Report,
    deadline: Deadline,
    say: Callable[[str], None] = print,
    limits: Limits = CASE_LIMITS,
    isolated: Isolated = run_isolated,
) -> None:
    """Calls `function(progress, case, options)` for each case, adds its entry to the report and says a line of it."""
    for case in cases:
        if deadline.remaining() < _LEAST_SECONDS:
            entry: dict[str, Any] = {"case": case.name, "status": "left out: no time"}
        else:
            entry = measure_case(case, function, options, deadline, limits, isolated)
        report.add(entry)
        say(entry_line(entry))


def measure_case(
    case: Case,
    function: Callable[..., Any],
    options: Options,
    deadline: Deadline,
    limits: Limits,
    isolated: Isolated = run_isolated,
) -> dict[str, Any]:
    """The case's entry. Where a candidate hangs or breaks the process, the case runs again without it."""
    skipped: list[str] = []
    outcome: Outcome | None = None
    for _ in range(_ATTEMPTS):
        if outcome is not None and deadline.remaining() < _LEAST_SECONDS:
            break
        attempt = dataclasses.replace(options, skip=(*options.skip, *skipped))
        outcome = isolated(function, (case, attempt), deadline.limits(limits))
        if outcome.status == "done":
            entry: dict[str, Any] = outcome.value
            return entry | {"seconds": round(outcome.seconds, 1)}
        if ": " not in outcome.step or outcome.step in skipped:
            break
        skipped.append(outcome.step)
    assert outcome is not None
    return {
        "case": case.name,
        "status": outcome.status,
        "step": outcome.step,
        "skipped": skipped,
        "message": outcome.message[-1500:],
        "seconds": round(outcome.seconds, 1),
    }


def entry_line(entry: dict[str, Any]) -> str:
    """A case in one line, for the log."""
    if entry.get("status") != "measured":
        noted = {**entry.get("unfit", {}), **entry.get("wrong", {})}
        reason = entry.get("message") or "; ".join(f"{k}: {v}" for k, v in noted.items())
        return f"{entry['case']}: {entry.get('status')} at {entry.get('step', '-')} {str(reason)[-400:]}"
    ratios = ", ".join(
        f"{name} {value:.3f}" for name, value in entry["ratios"].items() if name != entry["baseline"]
    )
    chosen = entry["chosen"].get("tilegen", "")
    return f"{entry['case']}: x {entry['baseline']}: {ratios} [{chosen}] {len(entry['wrong'])} wrong"
