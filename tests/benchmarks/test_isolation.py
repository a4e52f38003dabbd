"""Child processes: results, failures, crashes, hangs, and the time that is left."""

from __future__ import annotations

import os
import time

import pytest

from benchmarks.isolation import Deadline, Limits, run_isolated

GENEROUS = Limits(total=60.0, silence=60.0)


def doubled(progress, value):
    progress("doubling")
    return 2 * value


def failing(progress):
    progress("about to fail")
    raise ValueError("no such thing")


def dying(progress):
    progress("about to die")
    os._exit(7)


def hanging(progress):
    progress("tilegen: a schedule that hangs")
    time.sleep(600)


def busy(progress):
    for step in range(600):
        progress(f"step {step}")
        time.sleep(0.1)


def test_a_result_comes_back():
    outcome = run_isolated(doubled, (21,), GENEROUS)
    assert (outcome.status, outcome.value, outcome.notes) == ("done", 42, ("doubling",))


def test_the_child_is_another_process():
    outcome = run_isolated(process_number, (), GENEROUS)
    assert outcome.value != os.getpid()


def process_number(progress):
    return os.getpid()


def test_a_failure_brings_its_traceback():
    outcome = run_isolated(failing, (), GENEROUS)
    assert outcome.status == "failed"
    assert "ValueError: no such thing" in outcome.message
    assert outcome.step == "about to fail"


def test_a_crash_brings_its_exit_code():
    outcome = run_isolated(dying, (), GENEROUS)
    assert outcome.status == "crashed"
    assert "exit code 7" in outcome.message
    assert outcome.step == "about to die"


def test_a_silent_child_is_killed_and_its_step_known():
    start = time.monotonic()
    outcome = run_isolated(hanging, (), Limits(total=60.0, silence=2.0))
    assert outcome.status == "timeout"
    assert outcome.step == "tilegen: a schedule that hangs"
    assert time.monotonic() - start < 30


def test_announcements_do_not_extend_the_total():
    outcome = run_isolated(busy, (), Limits(total=3.0, silence=2.0))
    assert outcome.status == "timeout"
    assert "after 3 s" in outcome.message


def test_a_deadline_cuts_limits():
    now = [100.0]
    deadline = Deadline(50.0, clock=lambda: now[0])
    assert deadline.limits(Limits(80.0, 10.0)) == Limits(50.0, 10.0)
    now[0] = 145.0
    assert deadline.remaining() == pytest.approx(5.0)
    now[0] = 200.0
    assert deadline.remaining() == 0.0
