"""Errors in a tile program: the user's line with a caret, what clashes, and what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilegen.errors import TilegenError
from tilegen.location import Location

if TYPE_CHECKING:
    from rich.console import Console

_SOURCES: dict[str, dict[int, str]] = {}


def register_source(file: str, first_line: int, lines: Sequence[str]) -> None:
    """Remembers source text, so that errors can quote it. `file` is spelled as in `Location.file`."""
    known = _SOURCES.setdefault(file, {})
    for number, line in enumerate(lines, first_line):
        known[number] = line.rstrip("\r\n")


def closest(name: str, candidates: Iterable[str], count: int = 1) -> list[str]:
    """The candidates that a misspelt name most likely means: equal but for case, then those that it begins, then the
    similar ones."""
    known = list(dict.fromkeys(candidates))
    found = [known_name for known_name in known if known_name.lower() == name.lower()]
    if len(name) > 2:
        found += [known_name for known_name in known if known_name.startswith(name)]
    found += difflib.get_close_matches(name, known, n=count, cutoff=0.6)
    return list(dict.fromkeys(found))[:count]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A quoted span: the place, a sentence about it, and its source lines with their numbers."""

    location: Location
    sentence: str
    lines: tuple[tuple[int, str], ...]

    @staticmethod
    def of(location: Location, sentence: str) -> Excerpt:
        """The excerpt with its lines as they are known now; a span of many lines shows its first and last two."""
        known = _SOURCES.get(location.file, {})
        last = max(location.line, location.end_line)
        numbers = [number for number in range(location.line, last + 1) if number in known]
        if len(numbers) > 4:
            numbers = numbers[:2] + numbers[-2:]
        lines = tuple((number, known[number]) for number in numbers)
        if not lines and location.text:
            lines = ((location.line, location.text),)
        return Excerpt(location, sentence, lines)

    def underline(self, number: int, line: str) -> str:
        """The line of carets below source line `number` (empty where the span does not touch it)."""
        place = self.location
        if line == place.text and place.line not in _SOURCES.get(place.file, {}):
            return "^" * len(line)
        start = place.column if number == place.line else len(line) - len(line.lstrip())
        last = max(place.line, place.end_line)
        end = place.end_column if number == last and place.end_column else len(line.rstrip())
        margin = "".join("\t" if character == "\t" else " " for character in line[:start])
        return margin + "^" * max(1, end - start)


class ProgramError(TilegenError):
    """A tile program that cannot be honoured.

    `location` is the span at fault, `message` says what clashes, `related` are other places that take part
    (each with a sentence), and `remedy` says what to write instead. `str(error)` shows all of it with the
    source lines; `render` prints the same in colour.
    """

    def __init__(
        self,
        location: Location,
        message: str,
        *,
        remedy: str = "",
        related: Iterable[tuple[Location, str]] = (),
    ) -> None:
        super().__init__(message)
        self.location = location
        self.message = message
        self.remedy = remedy
        self.related = list(related)
        self._excerpts = [Excerpt.of(location, message)]
        self._excerpts += [Excerpt.of(place, sentence) for place, sentence in self.related]

    def add_related(self, location: Location, sentence: str) -> None:
        """Adds a place, such as the call through which a macro was inlined."""
        self.related.append((location, sentence))
        self._excerpts.append(Excerpt.of(location, sentence))

    def __str__(self) -> str:
        return "\n".join(text for text, _ in self._styled_lines())

    def render(self, console: Console) -> None:
        """Prints the error in colour on a rich console."""
        from rich.text import Text

        for text, style in self._styled_lines():
            console.print(Text(text, style=style), soft_wrap=True)

    def _styled_lines(self) -> list[tuple[str, str]]:
        """The lines of the message with rich styles."""
        width = max(
            len(str(number)) for excerpt in self._excerpts for number, _ in excerpt.lines or ((0, ""),)
        )
        gutter = " " * width
        lines: list[tuple[str, str]] = []
        for position, excerpt in enumerate(self._excerpts):
            head, style = ("error", "bold red") if position == 0 else ("note", "bold cyan")
            place = excerpt.location
            lines.append((f"{head}: {excerpt.sentence}", style))
            lines.append((f"{gutter}--> {place.file}:{place.line}:{place.column + 1}", "blue"))
            if excerpt.lines:
                lines.append((f"{gutter} |", "blue"))
            previous = None
            for number, line in excerpt.lines:
                if previous is not None and number > previous + 1:
                    lines.append((f"{gutter} …", "blue"))
                lines.append((f"{number:>{width}} | {line.rstrip()}", "default"))
                lines.append((f"{gutter} | {excerpt.underline(number, line)}", style))
                previous = number
        if self.remedy:
            lines.append((f"{gutter} = help: {self.remedy}", "bold green"))
        return lines
