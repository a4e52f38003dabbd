"""Breaks logical lines at column 120 and aligns trailing comments, as clang-format does with the shipped style."""

from __future__ import annotations

import re

from tilegen.emit.lines import COLUMNS, Line

CONTINUATION = 4


def physical_lines(lines: list[Line]) -> list[str]:
    """The text of the lines: long ones broken, trailing comments of neighbouring lines aligned."""
    broken: list[Line] = []
    for line in lines:
        broken += wrap(line)
    return [line.text for line in broken]


def wrap(line: Line) -> list[Line]:
    if len(line.text) <= COLUMNS or not line.code or line.code.startswith("#"):
        return [line]
    result: list[Line] = []
    indent, rest = line.indent, line.code
    stack: list[int] = []
    while indent + len(rest) > COLUMNS:
        cut, depth_columns = 0, stack
        columns = list(stack)
        for position, character in enumerate(rest):
            if indent + position >= COLUMNS:
                break
            if character in "([":
                columns.append(indent + position + 1)
            elif character in ")]" and columns:
                columns.pop()
            elif character == " " and re.search(r"(,|&&|\|\||[-+*/%?:=])$", rest[:position]):
                cut, depth_columns = position + 1, list(columns)
        if not cut:
            break
        result.append(Line(rest[:cut].rstrip(), "", indent))
        rest = rest[cut:]
        stack = depth_columns
        indent = stack[-1] if stack else line.indent + CONTINUATION
    return [*result, Line(rest, line.comment, indent)]
