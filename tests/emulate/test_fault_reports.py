"""Each kind of mistake is reported with its kind, the emitted line and the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels import faults, source_of

from tilegen.emulate import EmulationError, run

_SOURCE = source_of(faults())
_X = np.arange(128, dtype=np.float32)

# fault: (kind, what the message says)
_FAULTS = {
    1: ("race", "nothing orders the two"),
    2: ("race", "nothing orders the two"),
    3: ("out-of-bounds", "0 bytes past the end of X"),
    4: ("out-of-bounds", "4 bytes before the start of X"),
    5: ("misaligned", "a multiple of 8 bytes"),
    6: ("poison", "reads memory that nothing has written"),
    7: ("read-only", "writes an input"),
    8: ("divergence", "wait for it in"),
    9: ("divergence", "lane 20, which takes no part"),
    10: ("barrier-misuse", "whole warps, not 48 threads"),
    11: ("deadlock", "threads 0-31 wait in named_barrier_sync"),
    13: ("crash", "divides an integer by zero"),
    14: ("trap", "has stopped the kernel"),
    15: ("race", "nothing orders the two"),
    17: ("race", "element"),
    18: ("out-of-bounds", "far from every tensor"),
    19: ("crash", "used up its stack"),
    20: ("barrier-misuse", "no mbarrier has been initialised at byte 512"),
    21: ("race", "nothing orders the two"),
    22: (
        "barrier-misuse",
        "is used for",
    ),  # or a dead-lock, if the second warp is through before the first comes
    23: ("barrier-misuse", "cp.async copies that it has not waited for"),
    24: ("misaligned", "cp.async of 16 bytes"),
    25: ("race", "a cp.async copy of thread"),
    26: ("divergence", "have left the kernel"),
}


def _emulate(fault: int, **options: Any) -> tuple[Any, ...]:
    outputs = run(_SOURCE, faults(), [_X], scalars={"fault": fault}, **options)
    assert isinstance(outputs, tuple)
    return outputs


def _case_line(fault: int) -> int:
    return next(n for n, line in enumerate(_SOURCE.splitlines(), 1) if f"case {fault}:" in line)


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


@pytest.mark.parametrize("fault", sorted(_FAULTS))
@pytest.mark.parametrize("schedule", ["fifo", "reverse", "random"])
def test_fault_is_reported_where_it_is(fault: int, schedule: str) -> None:
    kind, says = _FAULTS[fault]
    with pytest.raises(EmulationError) as caught:
        _emulate(fault, schedule=schedule)
    error = caught.value
    if fault == 22 and error.kind == "deadlock":
        kind, says = "deadlock", "threads 0-31 wait in named_barrier_sync"
    assert error.kind == kind
    assert says in str(error)
    after = _case_line(fault + 1) if f"case {fault + 1}:" in _SOURCE else len(_SOURCE.splitlines())
    if fault == 19:  # inside the function that goes too deep
        assert error.line is not None and error.line < _case_line(0)
        return
    assert error.line is not None and _case_line(fault) < error.line < after
    assert error.user_line is not None and error.user_line.startswith(f"faults.py:{10 + fault}")


@pytest.mark.parametrize("fault", [0, 16, 28])
@pytest.mark.parametrize("schedule", ["fifo", "reverse", "random"])
def test_right_code_gives_no_report(fault: int, schedule: str) -> None:
    y, s = _emulate(fault, schedule=schedule, seed=5)
    assert np.array_equal(y, _X)
    assert s[0] == {0: _X.sum(), 16: 0, 28: 1}[fault]


def test_barrier_object_used_before_its_initialisation_is_seen() -> None:
    kinds = set()
    for schedule in ("fifo", "reverse"):
        with pytest.raises(EmulationError) as caught:
            _emulate(27, schedule=schedule)
        kinds.add(caught.value.kind)
    assert kinds == {"race", "barrier-misuse"}


def test_endless_loop_becomes_a_time_out() -> None:
    with pytest.raises(EmulationError) as caught:
        _emulate(12, timeout=1.0)
    assert caught.value.kind == "timeout"
    assert caught.value.user_line is not None and caught.value.user_line.startswith("faults.py:22")


def test_wrong_arguments() -> None:
    with pytest.raises(EmulationError, match=r"X has the shape \(64,\), not \(128,\)"):
        run(_SOURCE, faults(), [_X[:64]], scalars={"fault": 0})
    with pytest.raises(EmulationError, match="X is float64, not float32"):
        run(_SOURCE, faults(), [_X.astype(np.float64)], scalars={"fault": 0})
    with pytest.raises(EmulationError, match=r"takes 1 array \(X\), not 0"):
        run(_SOURCE, faults(), [], scalars={"fault": 0})
    with pytest.raises(EmulationError, match="fault"):
        run(_SOURCE, faults(), [_X])
    fewer = faults()
    fewer["parameters"] = fewer["parameters"][:-1]
    with pytest.raises(EmulationError, match="the kernel takes 5 arguments, the manifest has 4"):
        run(_SOURCE, fewer, [_X], scalars={"fault": 0})


def test_inputs_are_not_changed_and_views_are_accepted() -> None:
    padded = np.zeros(256, dtype=np.float32)
    padded[::2] = _X
    before = padded.copy()
    y, _ = run(_SOURCE, faults(), {"X": padded[::2]}, scalars={"fault": 0})
    assert np.array_equal(y, _X) and np.array_equal(padded, before)
