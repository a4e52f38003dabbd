"""What an error about a wrong program shows, for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tilegen.diagnostics import ProgramError
from tilegen.frontend import parse
from tilegen.ir.verify import verify


@dataclass(frozen=True)
class Fault:
    """An error as its text shows it: the quoted source line, what the carets underline, message, remedy, and the
    quoted lines of the related places."""

    line: str
    underlined: str
    message: str
    remedy: str
    related: list[str]


def fault(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Fault:
    """Parses and verifies a wrong program and reads the error's text."""
    with pytest.raises(ProgramError) as caught:
        verify(parse(function, *arguments, **keywords))
    return read(caught.value)


def read(error: ProgramError) -> Fault:
    """Takes an error's text apart, and checks it against the source file on the way."""
    text = str(error)
    rows = text.split("\n")
    quotes = [i for i, row in enumerate(rows) if set(row.partition("| ")[2]) <= set(" ^\t") and "^" in row]
    lines = [rows[i - 1].partition(" | ")[2] for i in quotes]
    carets = rows[quotes[0]].partition(" | ")[2]
    start = carets.index("^")
    underlined = lines[0][start : start + carets.count("^")]
    assert rows[0] == f"error: {error.message}"
    assert f"{error.location.file}:{error.location.line}:" in rows[1]
    assert rows[quotes[0] - 1].lstrip().startswith(str(error.location.line))
    remedy = next((row.partition("= help: ")[2] for row in rows if "= help: " in row), "")
    assert remedy, f"no remedy is proposed: {error.message}"
    return Fault(lines[0].strip(), underlined, error.message, remedy, [line.strip() for line in lines[1:]])
