"""Rounds, medians and ratios, on a timer that only pretends."""

from __future__ import annotations

import pytest

from benchmarks.measure import (
    Timing,
    alternating,
    estimate,
    fastest,
    interleaved,
    launches,
    mean_ratio,
    ratio_to_best,
    ratios,
)


class PretendedTimer:
    """Every launch adds its milliseconds to a list that the runs fill."""

    def __init__(self):
        self.current = 0.0
        self.order = []

    def run(self, name, milliseconds):
        def launch():
            self.current = milliseconds() if callable(milliseconds) else milliseconds
            self.order.append(name)

        return launch

    def each(self, runs):
        times = []
        for run in runs:
            run()
            times.append(self.current)
        return times


def test_rounds_are_interleaved_and_begin_with_another_each_time():
    timer = PretendedTimer()
    competitors = {name: timer.run(name, 20.0) for name in "abc"}
    timings = interleaved(competitors, timer, rounds=3, budget=60.0)
    assert {name: timing.rounds for name, timing in timings.items()} == dict.fromkeys(
        "abc", (20.0, 20.0, 20.0)
    )
    rounds = timer.order[3 * 4 :]  # after each one's warm-up and estimate
    assert "".join(rounds[::3]) == "abc" + "bca" + "cab"


def test_alternating_launches_begin_with_another_each_round():
    timer = PretendedTimer()
    values = iter([1.0, 5.0, 3.0] * 2)
    competitors = {"a": timer.run("a", lambda: next(values)), "b": timer.run("b", 4.0)}
    timings = alternating(competitors, timer, rounds=2, count=3)
    assert "".join(timer.order) == "ababab" + "bababa"
    assert timings["a"].rounds == (3.0, 3.0) and timings["b"].milliseconds == 4.0


def test_a_round_is_the_median_of_its_launches_and_a_timing_the_median_of_its_rounds():
    timer = PretendedTimer()
    values = iter([1.0] * 4 + [1.0, 9.0, 2.0] + [5.0, 5.0, 5.0] + [3.0, 3.0, 90.0])
    timing = interleaved({"a": timer.run("a", lambda: next(values))}, timer, rounds=3, budget=3.0)["a"]
    assert timing.rounds == (2.0, 5.0, 3.0)
    assert timing.milliseconds == 3.0
    assert timing.spread == pytest.approx(1.0)


def test_launches_fill_a_round_within_bounds():
    assert launches(1.0, 60.0) == 50
    assert launches(6.0, 60.0) == 10
    assert launches(100.0, 60.0) == 3
    assert launches(0.0, 60.0) == 50
    assert launches(100.0, 60.0, fewest=60) == 60


def test_an_estimate_leaves_the_first_launch_out():
    timer = PretendedTimer()
    values = iter([100.0, 3.0, 1.0, 2.0])
    assert estimate(timer, timer.run("a", lambda: next(values))) == 2.0


def test_the_fastest_candidate_is_found_among_finalists_timed_again():
    timer = PretendedTimer()
    noise = iter([1.0] * 20)  # looks fastest at first, and is not
    lucky = timer.run("lucky", lambda: next(noise, 4.0))
    candidates = {"lucky": lucky, "slow": timer.run("slow", 9.0), "good": timer.run("good", 2.0)}
    heard = []
    best, times = fastest(candidates, timer, heard.append, finalists=2)
    assert best == "good"
    assert times == {"slow": 9.0, "lucky": 4.0, "good": 2.0}
    assert heard == ["lucky", "slow", "good", "turns", "finalists"]


def test_the_first_candidates_are_finalists_whatever_bursts_say():
    """A card at its power limit: what draws little runs well in bursts on what is left, and is slower for long."""
    timer = PretendedTimer()
    spell = {}

    def bursty(name, burst, steady):
        def launch():
            spell[name] = spell.get(name, 0) + 1 if timer.order[-1:] == [name] else 1
            return burst if spell[name] <= 6 else steady

        return timer.run(name, launch)

    candidates = {"first": bursty("first", 3.0, 3.0)}
    candidates |= {f"{i}": bursty(f"{i}", 2.0, 4.0) for i in range(6)}
    best, times = fastest(candidates, timer, finalists=2)
    assert best == "first" and times["first"] == 3.0


def test_those_that_are_as_good_as_equal_run_against_each_other_once_more():
    timer = PretendedTimer()
    spell = {}

    def tiring(name, fresh, tired):
        """Slower from its 50th launch in a row on, as long rounds have them."""

        def launch():
            spell[name] = spell.get(name, 0) + 1 if timer.order[-1:] == [name] else 1
            return fresh if spell[name] < 50 else tired

        return timer.run(name, launch)

    candidates = {"lasts": tiring("lasts", 3.0, 3.0), "tires": tiring("tires", 2.98, 3.2)}
    candidates["slow"] = timer.run("slow", 4.0)
    heard = []
    best, times = fastest(candidates, timer, heard.append, finalists=3)
    assert best == "lasts" and heard[-1] == "run-off"
    assert times == {"lasts": 3.0, "tires": 2.98, "slow": 4.0}


def test_what_settles_a_card_is_not_counted():
    timer = PretendedTimer()
    values = iter([1.0] * 4 + [9.0] * 5 + [2.0] * 5)
    timing = interleaved({"a": timer.run("a", lambda: next(values))}, timer, 1, budget=5.0, settling=5.0)["a"]
    assert timing.rounds == (2.0,)


def test_rounds_of_long_launches_have_launches_enough():
    timer = PretendedTimer()
    values = iter([9.0] * 4 + [5.0] * 20 + [2.0] * 40)
    run = timer.run("a", lambda: next(values))
    timing = interleaved({"a": run}, timer, 1, budget=5.0, settling=5.0, fewest=40)["a"]
    assert timing.rounds == (2.0,)


def test_who_runs_while_the_card_is_cool_is_no_faster_for_it():
    timer = PretendedTimer()
    warm = 0

    def on_a_card_that_warms_up(milliseconds):
        def launch():
            nonlocal warm
            warm += 1
            return milliseconds * (1.0 if warm < 20 else 1.5)

        return launch

    names = [f"{i}" for i in range(8)]
    candidates = {n: timer.run(n, on_a_card_that_warms_up(9.0 if n != "7" else 8.0)) for n in names}
    best, _ = fastest(candidates, timer, finalists=2)
    assert best == "7"


def test_ratios_are_speeds():
    timings = {
        "cuBLAS": Timing("cuBLAS", (2.0,)),
        "tilegen": Timing("tilegen", (1.6,)),
        "Triton": Timing("Triton", (1.8,)),
    }
    assert ratios(timings, "cuBLAS") == {
        "cuBLAS": 1.0,
        "tilegen": pytest.approx(1.25),
        "Triton": pytest.approx(2 / 1.8),
    }
    assert ratio_to_best(timings, "tilegen") == pytest.approx(1.8 / 1.6)
    assert mean_ratio([0.5, 2.0]) == pytest.approx(1.0)
