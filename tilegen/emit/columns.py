"""Long flat lists in braces, laid out in columns as clang-format does it."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.emit.layout import CONTINUATION
from tilegen.emit.lines import COLUMNS
from tilegen.emit.tokens import bracket_balance, spaced_tokens

_FEWEST = 6  # items of a list in columns
_UNEVEN = 10  # how much longer than the shortest an item of a column may be
_LONGEST_HEAD = 60  # columns before the list, beyond which other breaks are cheaper


@dataclass(frozen=True, slots=True)
class _Format:
    widths: tuple[int, ...]
    rows: int

    @property
    def total(self) -> int:
        return sum(self.widths) + len(self.widths) - 1


def in_columns(code: str, indent: int) -> list[tuple[int, str]]:
    """Column and text of each line of a statement that ends in a list of six items or more, such as
    `const fp16x8 x = {a, b, …};`; nothing where it is no such statement or no columns fit."""
    split = _split(code)
    if split is None or indent + len(split[0]) > _LONGEST_HEAD:
        return []
    head, items = split
    cells = [f"{item}," for item in items[:-1]] + items[-1:]
    for slack in (0, len("};")):  # the last row may be the longest
        lines = _laid_out(head, items, cells, indent, slack)
        if all(column + len(text) <= COLUMNS for column, text in lines):
            return lines
    return []


def _laid_out(
    head: str, items: list[str], cells: list[str], indent: int, slack: int
) -> list[tuple[int, str]]:
    """The rows behind the brace, or below it where that saves two rows: a break there costs as much as a row."""
    behind = _choose(cells, COLUMNS - indent - len(head) - slack)
    below = _choose(cells, COLUMNS - indent - CONTINUATION - slack)
    if behind is None or below is None or len(behind.widths) < 2:
        return []
    if below.rows + 1 < behind.rows:
        return [(indent, head), *((indent + CONTINUATION, row) for row in _rows(items, below))]
    first, *others = _rows(items, behind)
    return [(indent, head + first), *((indent + len(head), row) for row in others)]


def _rows(items: list[str], format: _Format) -> list[str]:
    """The text of each row; the statement ends with the last one."""
    across = len(format.widths)
    ends = [","] * (len(items) - 1) + ["};"]
    cells = [
        f"{item + end:<{format.widths[position % across]}}"
        for position, (item, end) in enumerate(zip(items, ends, strict=True))
    ]
    return [" ".join(cells[at : at + across]).rstrip() for at in range(0, len(cells), across)]


def _split(code: str) -> tuple[str, list[str]] | None:
    """The text up to the opening brace of a list that ends the statement, and the list's items."""
    if not code.endswith("};") or " = {" not in code:
        return None
    head, rest = code.split(" = {", 1)
    items: list[str] = []
    current = ""
    for text, spaces in spaced_tokens(rest.removesuffix("};")):
        if text in "{}":
            return None
        if text == "," and bracket_balance(current) == 0:
            items.append(current)
            current = ""
        else:
            current += " " * spaces * bool(current) + text
    items.append(current)
    return (f"{head} = {{", items) if len(items) >= _FEWEST else None


def _choose(cells: list[str], room: int) -> _Format | None:
    """The fewest columns among those that take as few rows as the most columns that fit."""
    best: _Format | None = None
    for format in reversed(_formats(cells)):
        if format.total <= room or len(format.widths) == 1:
            if best is not None and format.rows > best.rows:
                break
            best = format
    return best


def _formats(cells: list[str]) -> list[_Format]:
    found = []
    for columns in range(1, min(len(cells), COLUMNS // 3) + 1):
        lengths = [[len(cell) for cell in cells[place::columns]] for place in range(columns)]
        even = all(max(column) - min(column) <= _UNEVEN for column in lengths)
        format = _Format(tuple(max(column) for column in lengths), -(-len(cells) // columns))
        if even and (format.total <= COLUMNS or columns == 1):
            found.append(format)
    return found
