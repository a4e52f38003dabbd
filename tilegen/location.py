"""Where a node comes from in the user's source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Location:
    """A span of source text. `file` is a path relative to the project root, lines count from 1, columns from 0."""

    file: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    text: str = ""  # the source statement on one line, as it is quoted in emitted comments

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def place(self) -> str:
        """`matmul.py:21`, as comments of emitted files name it."""
        return f"{PurePosixPath(self.file).name}:{self.line}"


NOWHERE = Location("<generated>", 0)
