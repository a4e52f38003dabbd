"""Reads TOML tables key by key and complains in full: file, table, key, what is expected, what was found."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tilegen.errors import TilegenError


class TargetError(TilegenError):
    """A target that does not exist, a description that breaks the schema, or a question it cannot answer."""


Nested = int | tuple["Nested", ...]
Scalar = str | int | bool

_MISSING: Final = object()


def read_toml(path: Path) -> dict[str, object]:
    """The parsed file.

    Raises:
        TargetError: when it cannot be read or is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TargetError(f"{path.name}: cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise TargetError(f"{path.name}: not valid TOML: {error}") from error


class Table:
    """One TOML table under reading; `finish` refuses the keys that nobody asked for."""

    def __init__(self, file: str, name: str, content: Mapping[str, object]) -> None:
        self._file = file
        self._name = name
        self._content = content
        self._read: set[str] = set()

    @property
    def file(self) -> str:
        return self._file

    def has(self, key: str) -> bool:
        return key in self._content

    def integer(self, key: str, minimum: int = 0) -> int:
        value = self._take(key, f"an integer of at least {minimum}")
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise self.error(key, f"an integer of at least {minimum}", value)
        return value

    def one_of(self, key: str, choices: tuple[int, ...]) -> int:
        expected = "one of " + ", ".join(map(str, choices))
        value = self._take(key, expected)
        if type(value) is not int or value not in choices:
            raise self.error(key, expected, value)
        return value

    def flag(self, key: str) -> bool:
        value = self._take(key, "true or false")
        if not isinstance(value, bool):
            raise self.error(key, "true or false", value)
        return value

    def number(self, key: str) -> float:
        value = self._take(key, "a positive number")
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise self.error(key, "a positive number", value)
        return float(value)

    def text(self, key: str, default: str | None = None) -> str:
        value = self._take(key, "a text", default)
        if not isinstance(value, str) or (not value and default is None):
            raise self.error(key, "a text", value)
        return value

    def choice(self, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
        expected = "one of " + ", ".join(choices)
        value = self._take(key, expected, default)
        if not isinstance(value, str) or value not in choices:
            raise self.error(key, expected, value)
        return value

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        value = self._take(key, "a list of texts", default)
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise self.error(key, "a list of texts", value)
        return tuple(value)

    def integers(self, key: str, length: int | None = None) -> tuple[int, ...]:
        expected = "a list of integers" if length is None else f"a list of {length} integers"
        value = self._take(key, expected)
        well_formed = isinstance(value, list) and all(type(item) is int for item in value)
        if not well_formed or (length is not None and len(value) != length):  # type: ignore[arg-type]
            raise self.error(key, expected, value)
        return tuple(value)  # type: ignore[arg-type]

    def nested(self, key: str, n: int | None) -> Nested:
        """Nested lists of integers as tuples; the texts "n" and "n/8" stand for the atom's n."""
        return self._nested(key, self._take(key, "nested lists of integers"), n)

    def scalars(self, key: str) -> tuple[tuple[str, Scalar], ...]:
        value = self._take(key, "a table of texts, integers and booleans", {})
        if not isinstance(value, dict) or not all(isinstance(item, str | int) for item in value.values()):
            raise self.error(key, "a table of texts, integers and booleans", value)
        return tuple(value.items())

    def numbers(self, key: str) -> tuple[tuple[str, float], ...]:
        table = self.table(key)
        return tuple((name, table.number(name)) for name in table._content)

    def table(self, key: str) -> Table:
        value = self._take(key, "a table")
        if not isinstance(value, dict):
            raise self.error(key, "a table", value)
        return Table(self._file, f"{self._name}.{key}" if self._name else key, value)

    def tables(self, key: str) -> tuple[Table, ...]:
        value = self._take(key, "a list of tables", [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.error(key, "a list of tables", value)
        return tuple(self._entry(key, index, item) for index, item in enumerate(value))

    def finish(self) -> None:
        """Refuses keys that were not read: a misspelt key must not be ignored."""
        unknown = [key for key in self._content if key not in self._read]
        if unknown:
            known = ", ".join(sorted(self._read))
            raise TargetError(f"{self._where(unknown[0])}: unknown key; the keys here are {known}")

    def error(self, key: str, expected: str, found: object) -> TargetError:
        return TargetError(f"{self._where(key)}: expected {expected}, found {found!r}")

    def _entry(self, key: str, index: int, item: Mapping[str, object]) -> Table:
        label = item.get("name", index)
        return Table(self._file, f"{self._name}.{key}[{label}]" if self._name else f"{key}[{label}]", item)

    def _where(self, key: str) -> str:
        return f"{self._file}: [{self._name}] {key}" if self._name else f"{self._file}: {key}"

    def _take(self, key: str, expected: str, default: object = _MISSING) -> object:
        self._read.add(key)
        if key in self._content:
            return self._content[key]
        if default is None or default is _MISSING:
            raise TargetError(f"{self._where(key)}: missing; expected {expected}")
        return default

    def _nested(self, key: str, value: object, n: int | None) -> Nested:
        match value:
            case list():
                return tuple(self._nested(key, item, n) for item in value)
            case "n" if n is not None:
                return n
            case "n/8" if n is not None:
                return n // 8
            case int() if not isinstance(value, bool):
                return value
            case _:
                raise self.error(key, 'nested lists of integers, or "n" and "n/8" beside n_range', value)
