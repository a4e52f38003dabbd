"""Times competitors in turns: rounds in which each of them runs, the L2 cache flushed before every launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Any, Protocol

FLUSH_BYTES = 512 << 20  # several times any L2; reading it outlasts the launch overhead of any competitor
ROUND_MILLISECONDS = 60.0
SETTLING_MILLISECONDS = (
    40.0  # before a turn counts: a card at its power limit runs on what the one before has left
)
ROUNDS = 5
ALTERNATIONS = 20  # launches of each competitor in a round where they alternate
FEWEST = 60  # launches of a round that counts: power and clocks of long launches vary by more than schedules differ
_FEWEST_IN_SEARCH = 20
_FEWEST, _MOST = 3, 50
_AS_GOOD_AS_EQUAL, _MOST_EQUAL = 1.015, 3  # times of the best, and candidates
_ALWAYS = 2  # candidates, those that were named first, which are finalists whatever the short turns say

Run = Callable[[], Any]


class Timer(Protocol):
    """Times launches on a device."""

    def each(self, runs: Sequence[Run]) -> Sequence[float]:
        """Milliseconds of each of these launches, enqueued one behind the other, the cache flushed before each."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A competitor's rounds: the median launch of each, in milliseconds."""

    name: str
    rounds: tuple[float, ...]

    @property
    def milliseconds(self) -> float:
        """The median of the rounds."""
        return median(self.rounds)

    @property
    def spread(self) -> float:
        """(slowest − fastest) / median: differences below it are noise."""
        return (max(self.rounds) - min(self.rounds)) / self.milliseconds


class CudaTimer:
    """CUDA events on torch's current stream.

    The flush reads, rather than writes, so that no dirty lines are left whose write-back would fall into what is timed.
    """

    def __init__(self, flush_bytes: int = FLUSH_BYTES) -> None:
        import torch

        self._torch = torch
        self._flush = torch.zeros(flush_bytes // 4, dtype=torch.float32, device="cuda")
        self._sum = torch.zeros((), dtype=torch.float32, device="cuda")

    def each(self, runs: Sequence[Run]) -> list[float]:
        torch = self._torch
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in runs]
        for run, (start, end) in zip(runs, events, strict=True):
            torch.sum(self._flush, dim=0, out=self._sum)
            start.record()
            run()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in events]


def launches(milliseconds: float, budget: float = ROUND_MILLISECONDS, fewest: int = _FEWEST) -> int:
    """How many launches of this length fill a round, `fewest` at least."""
    return max(fewest, min(_MOST, round(budget / max(milliseconds, 1e-3))))


def estimate(timer: Timer, run: Run) -> float:
    """A launch's milliseconds, roughly: the median of three after a warm-up."""
    timer.each([run])
    return median(timer.each([run] * 3))


def interleaved(
    competitors: Mapping[str, Run],
    timer: Timer,
    rounds: int = ROUNDS,
    budget: float = ROUND_MILLISECONDS,
    settling: float = 0.0,
    fewest: int = _FEWEST,
) -> dict[str, Timing]:
    """Times the competitors in `rounds` rounds; who begins changes from round to round, so that none always follows
    the same neighbour. Each round gives a competitor about `budget` milliseconds and `fewest` launches, after
    `settling`, half as many at least, that do not count: a card at its power limit runs on what the one before has left
    of it."""
    names = list(competitors)
    estimates = {name: estimate(timer, competitors[name]) for name in names}
    counts = {name: launches(estimates[name], budget, fewest) for name in names}
    ahead = {name: launches(estimates[name], settling, fewest // 2) if settling else 0 for name in names}
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            measured = timer.each([competitors[name]] * (ahead[name] + counts[name]))
            times[name].append(median(measured[ahead[name] :]))
    return {name: Timing(name, tuple(values)) for name, values in times.items()}


def alternating(
    competitors: Mapping[str, Run], timer: Timer, rounds: int = ROUNDS, count: int = ALTERNATIONS
) -> dict[str, Timing]:
    """Times the competitors launch by launch, `count` each in a round: all on the power and the clocks that they leave
    the card with together, where `interleaved` lets it settle on each of them alone."""
    names = list(competitors)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        order = [names[(turn + place) % len(names)] for place in range(len(names))] * count
        measured = timer.each([competitors[name] for name in order])
        for name in names:
            times[name].append(median(time for who, time in zip(order, measured, strict=True) if who == name))
    return {name: Timing(name, tuple(values)) for name, values in times.items()}


def fastest(
    candidates: Mapping[str, Run],
    timer: Timer,
    announce: Callable[[str], None] = lambda text: None,
    finalists: int = 4,
) -> tuple[str, dict[str, float]]:
    """The fastest candidate, and what each took in milliseconds.

    Every candidate runs once alone, then all in short turns, for a card that has just rested, or has not, runs faster
    or slower by more than schedules differ. The first `finalists`, and the two candidates that were named first, are
    timed again in longer turns: what is fast in a burst need not be where power is the limit. Those that are then
    as good as equal run against each other once more, in rounds like those that count. `announce` hears a candidate's
    name before it runs for the first time.
    """
    for name, run in candidates.items():
        announce(name)
        timer.each([run])
    announce("turns")
    short = interleaved(candidates, timer, rounds=3, budget=5.0, settling=5.0)
    times = {name: timing.milliseconds for name, timing in short.items()}
    ranked = sorted(times, key=lambda name: times[name])
    announce("finalists")
    chosen = dict.fromkeys([*ranked[:finalists], *list(candidates)[:_ALWAYS]])
    final = interleaved(
        {name: candidates[name] for name in chosen},
        timer,
        rounds=5,
        budget=30.0,
        settling=SETTLING_MILLISECONDS,
        fewest=_FEWEST_IN_SEARCH,
    )
    times |= {name: timing.milliseconds for name, timing in final.items()}
    ranked = sorted(final, key=lambda name: times[name])
    equal = [name for name in ranked if times[name] <= times[ranked[0]] * _AS_GOOD_AS_EQUAL][:_MOST_EQUAL]
    if len(equal) == 1:
        return equal[0], times
    announce("run-off")
    last = interleaved(
        {name: candidates[name] for name in equal}, timer, settling=SETTLING_MILLISECONDS, fewest=FEWEST
    )
    return min(last, key=lambda name: last[name].milliseconds), times


def ratios(timings: Mapping[str, Timing], baseline: str) -> dict[str, float]:
    """How many times as fast as the baseline each competitor is: the ratio of medians, above 1 is faster."""
    return {name: timings[baseline].milliseconds / timing.milliseconds for name, timing in timings.items()}


def ratio_to_best(timings: Mapping[str, Timing], name: str) -> float:
    """How fast a competitor is as a multiple of the fastest other one."""
    others = [timing.milliseconds for other, timing in timings.items() if other != name]
    return min(others) / timings[name].milliseconds if others else 1.0


def mean_ratio(values: Sequence[float]) -> float:
    """The geometric mean."""
    return geometric_mean(values)
