"""One case: competitors with their candidates, the gate, each one's search, and the rounds that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.correctness import Verdict
from benchmarks.isolation import Progress
from benchmarks.measure import (
    FEWEST,
    ROUNDS,
    SETTLING_MILLISECONDS,
    Run,
    Timer,
    Timing,
    alternating,
    fastest,
    interleaved,
    ratio_to_best,
    ratios,
)
from tilegen.diagnostics import ProgramError
from tilegen.errors import TilegenError
from tilegen.runtime.compilation import Backend

OWN = "tilegen"
DEFAULT = "tilegen default"

Candidates = Mapping[str, Callable[[], Run]]


@dataclass(frozen=True, slots=True)
class Options:
    """How cases are measured. `skip` names candidates that hung in an earlier attempt."""

    search: int = 16  # schedules tried; 0 runs the default schedule alone
    backend: Backend = "nvrtc"
    rounds: int = ROUNDS
    peers: tuple[str, ...] = ("triton", "tilelang")
    skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contest:
    """Who competes in a case, and how results are judged.

    `competitors` maps a competitor to its candidates, a candidate to what makes its launch (which may compile).
    `check` runs a launch once and compares its result. The baseline takes part whatever its verdict, which is noted.
    `work` is what a launch does, in `unit`s a millisecond times 1e-9: floating-point operations or bytes.
    `judged` says which ratios the bar is about: those of rounds, or of launches that alternate.
    """

    case: str
    bar: float
    baseline: str
    competitors: Mapping[str, Candidates]
    check: Callable[[str, Run], Verdict]
    work: float
    unit: str
    judged: Literal["rounds", "alternating"] = "rounds"


@dataclass(slots=True)
class Attempt:
    """What became of a competitor's candidates."""

    runs: dict[str, Run] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    unfit: dict[str, str] = field(default_factory=dict)  # schedules that do not fit the target at this size
    norms: dict[str, float] = field(default_factory=dict)


def hold(contest: Contest, options: Options, timer: Timer, progress: Progress) -> dict[str, Any]:
    """Admits, searches and times.

    Returns:
        the entry for the results file: times, ratios, what each competitor settled on, who was wrong, and what does
        not fit the target at this size.
    """
    chosen: dict[str, str] = {}
    finals: dict[str, Run] = {}
    norms: dict[str, float] = {}
    wrong: dict[str, str] = {}
    unfit: dict[str, str] = {}
    searches: dict[str, dict[str, float]] = {}
    for name, candidates in contest.competitors.items():
        attempt = admit(name, candidates, contest, options.skip, progress)
        wrong |= {f"{name}: {key}": text for key, text in attempt.wrong.items()}
        unfit |= {f"{name}: {key}": text for key, text in attempt.unfit.items()}
        if not attempt.runs:
            continue
        best = next(iter(attempt.runs))
        if len(attempt.runs) > 1:
            best, searches[name] = fastest(attempt.runs, timer, _prefixed(progress, name))
        chosen[name], finals[name], norms[name] = best, attempt.runs[best], attempt.norms[best]
    progress("rounds")
    timings = (
        interleaved(finals, timer, options.rounds, settling=SETTLING_MILLISECONDS, fewest=FEWEST)
        if finals
        else {}
    )
    progress("alternation")
    entry = _entry(contest, timings) | {"alternating": _alternation(contest, finals, timer, options.rounds)}
    return entry | {"chosen": chosen, "norms": norms, "wrong": wrong, "unfit": unfit, "searches": searches}


def admit(
    name: str, candidates: Candidates, contest: Contest, skip: Sequence[str], progress: Progress
) -> Attempt:
    """Makes and runs each candidate once, and lets those through whose result is right."""
    attempt = Attempt()
    for key, make in candidates.items():
        if f"{name}: {key}" in skip:
            attempt.wrong[key] = "it hung, or broke its process"
            continue
        progress(f"{name}: {key}")
        run = _made(key, make, attempt)
        if run is None:
            continue
        verdict = contest.check(name, run)
        if not verdict.passed:
            attempt.wrong[key] = str(verdict)
        if verdict.passed or name == contest.baseline:
            attempt.runs[key], attempt.norms[key] = run, verdict.norm
    return attempt


def _made(key: str, make: Callable[[], Run], attempt: Attempt) -> Run | None:
    """The candidate's launch, or None with the reason noted: a schedule that does not fit, a peer that cannot."""
    try:
        return make()
    except ProgramError as error:
        attempt.unfit[key] = f"refused: {error.message}"
    except TilegenError as error:
        attempt.wrong[key] = f"refused: {str(error).splitlines()[0]}"
    except Exception as error:  # a peer's compiler may fail in any way
        attempt.wrong[key] = f"failed: {type(error).__name__}: {error}"[:300]
    return None


def _prefixed(progress: Progress, name: str) -> Callable[[str], None]:
    return lambda text: progress(f"{name}: {text}")


def _alternation(contest: Contest, finals: Mapping[str, Run], timer: Timer, rounds: int) -> dict[str, Any]:
    """The same competitors launch by launch: how long, and as multiples of the baseline."""
    timings = alternating(finals, timer, rounds)
    measured = contest.baseline in timings and OWN in timings
    return {
        "milliseconds": {name: timing.milliseconds for name, timing in timings.items()},
        "ratios": ratios(timings, contest.baseline) if measured else {},
    }


def _entry(contest: Contest, timings: Mapping[str, Timing]) -> dict[str, Any]:
    measured = contest.baseline in timings and OWN in timings
    others = {name: timing for name, timing in timings.items() if name != DEFAULT}
    to_search = (
        timings[OWN].milliseconds / timings[DEFAULT].milliseconds if measured and DEFAULT in timings else None
    )
    return {
        "case": contest.case,
        "status": "measured" if measured else "incomplete",
        "bar": contest.bar,
        "judged": contest.judged,
        "baseline": contest.baseline,
        "milliseconds": {name: timing.milliseconds for name, timing in timings.items()},
        "rounds": {name: list(timing.rounds) for name, timing in timings.items()},
        "spread": {name: timing.spread for name, timing in timings.items()},
        contest.unit: {name: contest.work / timing.milliseconds / 1e9 for name, timing in timings.items()},
        "ratios": ratios(timings, contest.baseline) if measured else {},
        "ratio_to_best": ratio_to_best(others, OWN) if measured else None,
        "default_to_search": to_search,
    }
