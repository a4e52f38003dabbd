"""Breaks logical lines at column 120 and aligns trailing comments, as clang-format does with the shipped style."""

from __future__ import annotations

import heapq
from functools import lru_cache

from tilegen.emit.annotate import Token, annotated
from tilegen.emit.columns import in_columns
from tilegen.emit.layout import State, initial_state, may_break, must_break, put_on_line, put_on_new_line
from tilegen.emit.lines import COLUMNS, Line, comment_lines

_THOROUGH = 50_000
"""Layouts looked at before those of the same place count as one, whatever brackets are broken: clang-format's limit
(OptimizingLineFormatter::analyzeSolutionSpace). Deep nests of calls would take for ever."""


def physical_lines(lines: list[Line]) -> list[str]:
    """The text of the lines: long ones broken, trailing comments of neighbouring lines aligned."""
    broken: list[Line] = []
    for line in _apart_from_directives(lines):
        broken += wrapped(line)
    return _aligned(broken)


def _apart_from_directives(lines: list[Line]) -> list[Line]:
    """A comment above a directive, right below a line with a comment, would be aligned with that one (a directive
    stands at column 0): the upper comment gets a line of its own then, above its code or inside the block it opens."""
    result: list[Line] = []
    for position, line in enumerate(lines):
        result.append(line)
        if line.code and line.comment and _above_directive(lines, position + 1):
            own = Line("", line.comment, line.indent)
            bare = Line(line.code, "", line.indent)
            if line.code.startswith("}"):
                result[-1:] = [bare, Line("", line.comment, line.indent + 2)]
            elif len(result) > 1 and result[-2].code.startswith("#") and not _has_both(result[-3:-2]):
                result[-2:] = [own, result[-2], bare]  # above the loop's own directive
            else:
                result[-1:] = [own, bare]
    return result


def _has_both(lines: list[Line]) -> bool:
    return any(line.code and line.comment for line in lines)


def _above_directive(lines: list[Line], position: int) -> bool:
    """Whether comment lines start here and a directive is the next that is neither comment nor empty."""
    if position == len(lines) or not lines[position].comment or lines[position].code:
        return False
    following = next((line.code for line in lines[position:] if line.code), "")
    return following.startswith("#")


def wrapped(line: Line) -> list[Line]:
    """A line that is too long as several, a comment behind code behind the last; any other line as it is."""
    if not line.code and len(line.text) > COLUMNS:
        return comment_lines(line.comment, line.indent)
    if not line.code or line.code.startswith("#") or line.indent + len(line.code) <= COLUMNS:
        return [line]
    pieces = in_columns(line.code, line.indent) or _broken(line.code, line.comment, line.indent)
    lines = [Line(text, "", column) for column, text in pieces]
    return [*lines[:-1], Line(lines[-1].code, line.comment, lines[-1].indent)]


@lru_cache(maxsize=4096)
def _broken(code: str, comment: str, indent: int) -> tuple[tuple[int, str], ...]:
    """Column and text of each piece of the statement: the cheapest way to lay it out, found best first."""
    tokens = annotated(code, comment)
    breaks = _cheapest(tokens, indent, strict=True) or _cheapest(tokens, indent, strict=False)
    return _pieces(tokens, indent, breaks)


def _cheapest(tokens: list[Token], indent: int, strict: bool) -> tuple[tuple[int, int], ...]:
    """The breaks of the cheapest layout; with `strict` of one within the columns, if there is any."""
    state = initial_state(tokens, indent)
    count = 0
    queue = [(0, count, state)]
    seen: set[tuple[object, ...]] = set()
    places: set[tuple[object, ...]] = set()
    while queue:
        cost, _, state = heapq.heappop(queue)
        if state.done:
            return state.breaks
        breaks = may_break(state)
        if breaks:  # only there can two ways lead to the same state
            key, place = state.key(), state.place()
            if key in seen or (count > 2 * _THOROUGH and place in places):
                continue
            seen.add(key)
            places.add(place)
        stays = not must_break(state) and not (strict and _too_wide(state))
        count += 2
        if breaks:
            below = state.copy()
            heapq.heappush(queue, (cost + put_on_new_line(below), count, below))
        if stays:  # of equally cheap layouts, the one that breaks later wins
            heapq.heappush(queue, (cost + put_on_line(state), count - 1, state))
    return ()


def _too_wide(state: State) -> bool:
    token = state.tokens[state.position]
    return state.column + token.spaces + token.width > COLUMNS


def _pieces(
    tokens: list[Token], indent: int, breaks: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, str], ...]:
    starts = [(0, indent), *breaks]
    ends = [position for position, _ in breaks] + [len(tokens)]
    pieces = []
    for (start, column), end in zip(starts, ends, strict=True):
        parts = [token for token in tokens[start:end] if token.kind != "comment"]
        text = "".join(" " * token.spaces + token.text for token in parts).lstrip(" ")
        pieces.append((column, text))
    return tuple(pieces)


def _aligned(lines: list[Line]) -> list[str]:
    """The lines as text. Comments behind the code of neighbouring lines share a column where all of them fit."""
    texts: list[str] = []
    run: list[Line] = []
    for line in lines:
        if line.code and line.comment and not line.code.startswith("#") and not _closes_block(line):
            if run and not _share_column([*run, line]):
                texts += _run_texts(run)
                run = []
            run.append(line)
            continue
        texts += _run_texts(run)
        run = []
        texts.append(line.text)
    return texts + _run_texts(run)


def _closes_block(line: Line) -> bool:
    return line.code.startswith("}") and line.code.rstrip(";)") == "}"


def _share_column(run: list[Line]) -> bool:
    column = max(_comment_column(line) for line in run)
    return all(column + len(line.comment) + 3 <= COLUMNS for line in run)


def _comment_column(line: Line) -> int:
    return line.indent + len(line.code) + 2


def _run_texts(run: list[Line]) -> list[str]:
    if not run:
        return []
    column = max(_comment_column(line) for line in run)
    return [f"{' ' * line.indent + line.code:<{column}}// {line.comment}" for line in run]
