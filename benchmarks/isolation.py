"""Runs functions in processes of their own under time limits: a kernel that hangs never returns to its process.

The processes are forked from a server that has imported the heavy libraries but has not touched a GPU, so that a fresh
process costs the making of a CUDA context and no imports.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Literal

Status = Literal["done", "failed", "timeout", "crashed"]
Progress = Callable[[str], None]
_PRELOADED = ("benchmarks.preload",)
_KILL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a child ended.

    `value` is what the function returned ("done"); `message` is the traceback ("failed"), or says how the child ended;
    `step` is what it last announced, `notes` everything that it announced.
    """

    status: Status
    value: Any
    message: str
    step: str
    notes: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that a child may take in all, and between two announcements."""

    total: float
    silence: float


class Deadline:
    """The time that a whole run has left."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def remaining(self) -> float:
        """Seconds left, 0 when none are."""
        return max(0.0, self._end - self._clock())

    def limits(self, limits: Limits) -> Limits:
        """The limits, cut to what is left."""
        return Limits(min(limits.total, self.remaining()), limits.silence)


def run_isolated(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    limits: Limits,
    method: Literal["forkserver", "spawn"] = "forkserver",
) -> Outcome:
    """Calls `function(progress, *arguments)` in a process of its own and waits for it.

    `progress(text)` announces the next step. A child that exceeds a limit is killed. The function must be importable,
    and its result picklable.
    """
    context: Any = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(list(_PRELOADED))
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, function, tuple(arguments)), daemon=True)
    start = time.monotonic()
    process.start()
    sender.close()
    try:
        return _follow(receiver, process, limits, start)
    finally:
        if process.is_alive():
            process.kill()
        process.join(_KILL_SECONDS)
        receiver.close()


def _follow(receiver: Connection, process: Any, limits: Limits, start: float) -> Outcome:
    """Reads announcements until the child has ended or exceeded a limit."""
    notes: list[str] = []
    heard = start

    def outcome(status: Status, value: Any, message: str) -> Outcome:
        step = notes[-1] if notes else "start"
        return Outcome(status, value, message, step, tuple(notes), time.monotonic() - start)

    while True:
        now = time.monotonic()
        total, silence = limits.total - (now - start), limits.silence - (now - heard)
        if min(total, silence) <= 0:
            limit = (
                f"{limits.total:.0f} s" if total <= 0 else f"{limits.silence:.0f} s without an announcement"
            )
            return outcome("timeout", None, f"killed after {limit}")
        if not receiver.poll(min(total, silence)):
            continue
        try:
            kind, content = receiver.recv()
        except EOFError:
            process.join(_KILL_SECONDS)
            return outcome("crashed", None, f"the process ended with exit code {process.exitcode}")
        heard = time.monotonic()
        if kind == "progress":
            notes.append(content)
        else:
            done = kind == "done"
            return outcome("done" if done else "failed", content if done else None, "" if done else content)


def _child(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    def progress(text: str) -> None:
        sender.send(("progress", text))

    try:
        value = function(progress, *arguments)
    except BaseException:
        with contextlib.suppress(OSError):
            sender.send(("failed", traceback.format_exc()))
        return
    sender.send(("done", value))
