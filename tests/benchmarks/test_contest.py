"""A case from admission to ratios, and the runner's retries, without a GPU."""

from __future__ import annotations

import json

import pytest

from benchmarks.contest import DEFAULT, OWN, Contest, Options, admit, hold
from benchmarks.correctness import Tolerance, Verdict
from benchmarks.gemm import results_table
from benchmarks.isolation import Deadline, Limits, Outcome
from benchmarks.program import results_table as example_table
from benchmarks.results import Report, table
from benchmarks.runner import entry_line, measure_case, run_cases
from tilegen.diagnostics import ProgramError
from tilegen.errors import TilegenError
from tilegen.location import NOWHERE

TOLERANCE = Tolerance(1e-3, 0.0, 0.0)


class PretendedTimer:
    """Takes a run's own word for how long it takes."""

    def each(self, runs):
        return [run() for run in runs]


def launch(milliseconds, norm=1e-4):
    def run():
        return milliseconds

    run.norm = norm
    return lambda: run


def refusing():
    raise TilegenError("no such compiler\n  remedy: …")


def unfit():
    raise ProgramError(NOWHERE, "the kernel needs 300,000 bytes of shared memory", remedy="…")


def contest(competitors):
    def check(name, run):
        return Verdict(run.norm, 0, 0, True, TOLERANCE)

    return Contest("8x8x8", 0.99, "cuBLAS", competitors, check, 2.0e9, "teraflops")


COMPETITORS = {
    "cuBLAS": {"torch.matmul": launch(2.0)},
    "Triton": {"a": launch(2.5), "b": launch(1.9)},
    OWN: {
        "fast": launch(1.0, norm=0.5),
        "good": launch(1.6),
        "slow": launch(4.0),
        "too large": unfit,
        "refused": refusing,
        "hung": launch(0.1),
    },
    DEFAULT: {"good": launch(2.0)},
}


def test_the_best_right_candidate_of_each_competitor_is_timed():
    heard = []
    entry = hold(contest(COMPETITORS), Options(skip=("tilegen: hung",)), PretendedTimer(), heard.append)
    assert entry["chosen"] == {"cuBLAS": "torch.matmul", "Triton": "b", OWN: "good", DEFAULT: "good"}
    assert entry["ratios"][OWN] == pytest.approx(1.25)
    assert entry["ratio_to_best"] == pytest.approx(1.9 / 1.6)
    assert entry["alternating"]["ratios"][OWN] == pytest.approx(1.25)
    assert entry["default_to_search"] == pytest.approx(0.8)
    assert entry["teraflops"][OWN] == pytest.approx(2 / 1.6)
    assert set(entry["wrong"]) == {"tilegen: fast", "tilegen: refused", "tilegen: hung"}
    assert entry["wrong"]["tilegen: refused"] == "refused: no such compiler"
    assert entry["unfit"] == {
        "tilegen: too large": "refused: the kernel needs 300,000 bytes of shared memory"
    }
    assert "tilegen: good" in heard
    json.dumps(entry)


def test_a_wrong_baseline_is_noted_and_takes_part():
    attempt = admit("cuBLAS", {"torch.matmul": launch(2.0, norm=1.0)}, contest({}), (), lambda text: None)
    assert list(attempt.runs) == ["torch.matmul"]
    assert "norm 1.0e+00" in attempt.wrong["torch.matmul"]


@pytest.mark.parametrize("made", [refusing, unfit])
def test_a_case_without_a_right_candidate_is_incomplete(made):
    entry = hold(
        contest({"cuBLAS": {"x": launch(1.0)}, OWN: {"y": made}}),
        Options(),
        PretendedTimer(),
        lambda t: None,
    )
    assert entry["status"] == "incomplete"
    assert entry["ratios"] == {}
    assert "refused" in entry_line(entry)


class Case:
    name = "a case"


def outcomes(*results):
    """A stand-in for run_isolated; records the options that it is given."""
    pending, seen = list(results), []

    def isolated(function, arguments, limits):
        seen.append(arguments[1])
        return pending.pop(0)

    return isolated, seen


def ended(status, step, value=None):
    return Outcome(status, value, "it broke", step, (step,), 1.0)


def test_a_hanging_candidate_is_left_out_of_the_next_attempt():
    isolated, seen = outcomes(
        ended("timeout", "tilegen: bad"),
        ended("crashed", "Triton: worse"),
        ended("done", "rounds", {"case": "a case"}),
    )
    entry = measure_case(Case(), print, Options(), Deadline(1000.0), Limits(10, 10), isolated)
    assert entry == {"case": "a case", "seconds": 1.0}
    assert [options.skip for options in seen] == [(), ("tilegen: bad",), ("tilegen: bad", "Triton: worse")]


def test_what_is_no_candidates_fault_is_not_tried_again():
    isolated, seen = outcomes(ended("failed", "inputs"))
    entry = measure_case(Case(), print, Options(), Deadline(1000.0), Limits(10, 10), isolated)
    assert entry["status"] == "failed"
    assert entry["message"] == "it broke"
    assert len(seen) == 1


def test_the_same_step_twice_ends_the_case():
    isolated, seen = outcomes(ended("timeout", "tilegen: finalists"), ended("timeout", "tilegen: finalists"))
    entry = measure_case(Case(), print, Options(), Deadline(1000.0), Limits(10, 10), isolated)
    assert entry["status"] == "timeout"
    assert len(seen) == 2


def test_cases_are_left_out_when_time_is_up_and_the_file_is_written_after_each(tmp_path):
    now = [0.0]
    report = Report("gemm", tmp_path, {"device": "NVIDIA H200", "date": "2026-01-01"}, {})
    entry = hold(contest(COMPETITORS), Options(), PretendedTimer(), lambda text: None)

    def isolated(function, arguments, limits):
        now[0] += 95.0
        return Outcome("done", entry, "", "rounds", (), 95.0)

    said = []
    run_cases(
        [Case(), Case()],
        print,
        Options(),
        report,
        Deadline(100.0, lambda: now[0]),
        said.append,
        isolated=isolated,
    )
    assert [e.get("status") for e in report.cases] == ["measured", "left out: no time"]
    stored = json.loads((tmp_path / "gemm-nvidia_h200-2026-01-01.json").read_text())
    assert len(stored["cases"]) == 2
    assert stored["circumstances"]["device"] == "NVIDIA H200"
    text = results_table(report)
    assert "tilegen/cuBLAS" in text
    assert "geometric mean" in text
    assert "left out: no time" in text
    assert "copy" not in example_table(report)


@pytest.mark.parametrize(("judged", "verdict"), [("rounds", "MISSED"), ("alternating", "ok")])
def test_a_bar_is_about_the_ratios_that_the_contest_names(tmp_path, judged, verdict):
    """Here tilegen is slower in rounds of its own than launch by launch."""
    at_its_own_clocks = {"cuBLAS": 1.0, OWN: 1.2}
    competitors = {name: {"as given": lambda name=name: lambda: name} for name in ("cuBLAS", OWN)}

    class Timer:
        def each(self, runs):
            names = [run() for run in runs]
            return [1.0 if len(set(names)) > 1 else at_its_own_clocks[name] for name in names]

    right = Verdict(0.0, 0, 0, True, TOLERANCE)
    judging = Contest("8x8x8", 0.99, "cuBLAS", competitors, lambda *_: right, 1.0, "teraflops", judged)
    entry = hold(judging, Options(), Timer(), lambda text: None)
    report = Report("attention", tmp_path, {}, {})
    report.add(entry)
    assert example_table(report).splitlines()[1].endswith(verdict)


def test_table_cells_are_aligned():
    assert table(["case", "x"], [["a", "1.000"], ["long", "-"]]) == "case      x\na     1.000\nlong      -"
