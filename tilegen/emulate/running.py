"""Runs an emitted file on NumPy arrays."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tilegen.emulate.debug_lines import DebugLines
from tilegen.emulate.errors import EmulationError
from tilegen.emulate.facts import Facts, facts_of
from tilegen.emulate.launch import Array, Launch, Number, Settings
from tilegen.emulate.programs import build
from tilegen.emulate.sections import file_name, resident_blocks, user_line
from tilegen.manifest import Manifest

Schedule = Literal["fifo", "reverse", "random"]
Asynchronous = Literal["eager", "lazy", "random"]
_GRACE = 10.0  # seconds that the program has to report its own time-out


def run(
    source_text: str,
    manifest: Manifest | Mapping[str, Any],
    arrays: Sequence[Array] | Mapping[str, Array],
    schedule: Schedule = "fifo",
    asynchronous: Asynchronous = "eager",
    seed: int = 0,
    multiprocessors: int = 3,
    *,
    scalars: Mapping[str, Number] | None = None,
    timeout: float = 300.0,
) -> Array | tuple[Array, ...]:
    """Runs an emitted file, whose type aliases and sections "device primitives" and "host" the emulator replaces.

    arrays           the inputs, in the manifest's order or by name; copied, never changed
    schedule         in which order threads run where the device leaves it open
    asynchronous     when copies and tensor-core work land: as early or as late as they may, or at random
    multiprocessors  blocks that are resident at a time
    scalars          values of the names that no shape gives
    timeout          seconds

    Returns the output, a tuple if there are several; what the kernel left unwritten is NaN. The kernel runs in a
    process of its own. Raises EmulationError with the kind, the emitted line and the user's line; UnusableText,
    CompilerMissing.
    """
    settings = Settings(schedule, asynchronous, seed, multiprocessors, timeout)
    facts = facts_of(manifest)
    with tempfile.TemporaryDirectory(prefix="tilegen-") as folder:
        job, data, report = (Path(folder, name) for name in ("job", "data", "report"))
        try:
            launch = Launch(facts, arrays, scalars or {}, settings, resident_blocks(source_text))
            program = build(source_text, facts)
            launch.write(job, data)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise EmulationError(
                "manifest", f"a field is missing or garbled: {type(error).__name__}: {error}"
            ) from error
        if 0 not in launch.grid:
            _run_program(program, (job, data, report), timeout, source_text, facts)
        outputs = launch.read(data)
    return outputs[0] if len(outputs) == 1 else outputs


def _run_program(
    program: Path, files: tuple[Path, Path, Path], timeout: float, source: str, facts: Facts
) -> None:
    command = [str(program), *map(str, files)]
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout + _GRACE
        )
    except subprocess.TimeoutExpired:
        raise EmulationError(
            "timeout", f"the emulated kernel was still running after {timeout:g} seconds"
        ) from None
    except OSError as error:
        raise EmulationError(
            "crash", f"the emulator's program cannot be started ({error.strerror}): remove {program}"
        ) from None
    report = files[2]
    if report.exists():
        raise _error_of(json.loads(report.read_text(encoding="utf-8")), program, source, facts)
    if result.returncode != 0:
        raise EmulationError("crash", f"the emulator's program ended with status {result.returncode}")


def _error_of(report: Mapping[str, Any], program: Path, source: str, facts: Facts) -> EmulationError:
    """The report as an error, its places as lines of the emitted file with the user's line behind each."""
    name = file_name(facts)
    code_lines: DebugLines | None = None
    lines: list[int | None] = []
    for site in report["sites"]:
        line: int | None = site.get("line") or None
        if site.get("code"):
            code_lines = code_lines or DebugLines(program)
            line = code_lines.line_of(int(site["code"]), name)
        lines.append(line)
    origins = [None if line is None else user_line(source, line) for line in lines]

    def describe(match: re.Match[str]) -> str:
        number = int(match.group(1))
        line, origin = (lines[number], origins[number]) if number < len(lines) else (None, None)
        place = "an unknown line" if line is None else f"{name}:{line}"
        return f"{place} [{origin}]" if origin else place

    message = report["message"]
    if lines and "{0}" not in message:
        message += " (at {0})"
    message = re.sub(r"\{(\d+)\}", describe, message)
    return EmulationError(
        report["kind"], message, lines[0] if lines else None, origins[0] if origins else None
    )
