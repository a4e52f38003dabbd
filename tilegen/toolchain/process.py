"""Runs a tool and returns what it says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilegen.toolchain.result import CompileError

_SECONDS = 300.0


def run(
    name: str,
    command: Sequence[str],
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Standard output and error together, of a command that succeeds.

    Raises:
        CompileError: when it fails or takes longer than five minutes.
    """
    try:
        finished = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CompileError(name, f"no answer within {_SECONDS:.0f} seconds") from error
    if finished.returncode != 0:
        raise CompileError(name, finished.stdout)
    return finished.stdout
