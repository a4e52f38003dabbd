"""Runs clang-format with the repository's style."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

STYLE = Path(__file__).resolve().parents[2] / ".clang-format"


def clang_format(require_tool: Callable[[str], None], text: str) -> str:
    """The text as clang-format would have it; skips (or fails with --require-tools) where there is none."""
    beside = Path(sys.executable).with_name("clang-format")
    program = str(beside) if beside.exists() else shutil.which("clang-format")
    if program is None:
        require_tool("clang_format")
        pytest.fail("clang-format was found and lost again")
    command = [program, f"--style=file:{STYLE}", "--assume-filename=kernel.cpp"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
