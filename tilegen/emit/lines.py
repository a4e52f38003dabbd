"""Logical lines of C++: what the printers and templates make, before it is broken at 120 columns."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, replace

from tilegen.emit.tokens import bracket_balance

COLUMNS = 120
NO_BREAK = "\N{NO-BREAK SPACE}"  # a space at which no comment is broken
_QUOTE = re.compile(r"\S+\.\w+:\d+  ")  # matmul.py:21  T.gemm(A, B, C)


@dataclass(frozen=True, slots=True)
class Line:
    """One statement, opening or closing of a block, comment or directive: `code`, then `// comment`.

    `indent` counts columns. An empty line has neither code nor comment.
    """

    code: str = ""
    comment: str = ""
    indent: int = 0

    @property
    def text(self) -> str:
        parts = [part for part in (self.code, f"// {self.comment}" if self.comment else "") if part]
        return (" " * self.indent + "  ".join(parts)).rstrip()

    @property
    def blank(self) -> bool:
        return not self.code and not self.comment


def comment_lines(text: str, indent: int = 0) -> list[Line]:
    """A comment, split at its own newlines and where it passes column 120; a quoted source line that goes on below
    hangs by two columns."""
    lines = []
    for paragraph in text.split("\n"):
        hang = "  " if _QUOTE.match(paragraph) else ""
        wrapped = textwrap.wrap(
            paragraph,
            COLUMNS - indent - 3,
            subsequent_indent=hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += [Line("", part.replace(NO_BREAK, " "), indent) for part in wrapped or [" "]]
    return lines


def shifted(lines: list[Line], columns: int) -> list[Line]:
    """The lines, moved right; directives (`#pragma …`) and empty lines stay at column 0."""
    return [
        line if line.blank or line.code.startswith("#") else replace(line, indent=line.indent + columns)
        for line in lines
    ]


def logical_lines(text: str) -> list[Line]:
    """The lines of rendered template text, with statements that the template broke joined again."""
    lines: list[Line] = []
    pending: Line | None = None
    for physical in text.split("\n"):
        code, comment = _split_comment(physical)
        stripped = code.strip()
        if pending is not None and (stripped or comment):
            joint = "" if pending.code.endswith(("(", "[")) or stripped.startswith((")", "]")) else " "
            both = " ".join(part for part in (pending.comment, comment) if part)
            pending = replace(pending, code=pending.code + joint + stripped, comment=both)
        else:
            indent = len(physical) - len(physical.lstrip(" ")) if physical.strip() else 0
            pending = Line(stripped, comment, indent)
        if _continues(pending.code):
            continue
        lines.append(pending)
        pending = None
    if pending is not None:
        lines.append(pending)
    return lines


def _continues(code: str) -> bool:
    if not code or code.startswith("#"):
        return False
    return bracket_balance(code) > 0 or code.endswith((",", "=", "&&", "||", "?", "+"))


def _split_comment(physical: str) -> tuple[str, str]:
    """Code and comment text of a physical line; a `//` inside a string literal is none."""
    inside = False
    for position, character in enumerate(physical):
        if character == '"' and (position == 0 or physical[position - 1] != "\\"):
            inside = not inside
        if not inside and physical.startswith("//", position):
            return physical[:position].rstrip(), physical[position + 2 :].removeprefix(" ").rstrip()
    return physical.rstrip(), ""
