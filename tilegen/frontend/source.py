"""The source text of a function: its syntax tree, and locations relative to the project root."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import io
import textwrap
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from tilegen.diagnostics import register_source
from tilegen.errors import TilegenError
from tilegen.location import Location

_ROOT_MARKS = ("pyproject.toml", ".git", "setup.py")
_COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.FunctionDef, ast.ClassDef, ast.Try)


@dataclass(frozen=True, slots=True)
class Source:
    """One function's source.

    `lines` are the dedented source lines; `first_line` and `indent` place them in `file`. `digest` is the first
    8 hexadecimal digits of the sha256 of the dedented text.
    """

    file: str
    first_line: int
    indent: int
    lines: tuple[str, ...]
    tree: ast.FunctionDef
    digest: str

    def location(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword, text: str) -> Location:
        """The node's span; `text` is the statement it stands in (see `statement_text`)."""
        shift = self.first_line - 1
        end_line = node.end_lineno or node.lineno
        return Location(
            self.file,
            node.lineno + shift,
            self._column(node.lineno, node.col_offset) + self.indent,
            end_line + shift,
            self._column(end_line, node.end_col_offset or 0) + self.indent,
            text,
        )

    def header_location(self, node: ast.stmt, text: str) -> Location:
        """The span of a statement; of a compound statement, only what stands before its colon."""
        span = self.location(node, text)
        if not isinstance(node, _COMPOUND):
            return span
        line, column = self._header_end(node)
        return Location(
            span.file, span.line, span.column, line + self.first_line - 1, column + self.indent, text
        )

    def statement_text(self, node: ast.stmt) -> str:
        """The statement as written, on one line; of a compound statement, its header without the colon."""
        if isinstance(node, _COMPOUND):
            end_line, end_column = self._header_end(node)
        else:
            end_line = node.end_lineno or node.lineno
            end_column = self._column(end_line, node.end_col_offset or 0)
        start = self._column(node.lineno, node.col_offset)
        if end_line == node.lineno:
            return " ".join(self.lines[node.lineno - 1][start:end_column].split())
        pieces = [self.lines[node.lineno - 1][start:]]
        pieces += self.lines[node.lineno : end_line - 1]
        pieces.append(self.lines[end_line - 1][:end_column])
        joined = " ".join(" ".join(_without_comments(pieces)).split())
        return (
            joined.replace("( ", "(")
            .replace(" )", ")")
            .replace("[ ", "[")
            .replace(" ]", "]")
            .replace(",)", ")")
        )

    def _column(self, line: int, offset: int) -> int:
        """The character column of a UTF-8 byte offset, as the ast module counts."""
        text = self.lines[line - 1]
        return offset if text.isascii() else len(text.encode()[:offset].decode())

    def _header_end(self, node: ast.stmt) -> tuple[int, int]:
        """Line and column of the colon that ends a compound statement's header."""
        match node:
            case ast.For():
                last: ast.AST = node.iter
            case ast.While() | ast.If():
                last = node.test
            case ast.With():
                item = node.items[-1]
                last = item.optional_vars or item.context_expr
            case _:
                return node.lineno, len(self.lines[node.lineno - 1].rstrip().rstrip(":"))
        line: int = last.end_lineno  # type: ignore[attr-defined]
        column = self._column(line, last.end_col_offset)  # type: ignore[attr-defined]
        while ":" not in self.lines[line - 1][column:]:
            line, column = line + 1, 0
        return line, self.lines[line - 1].index(":", column)


def _without_comments(lines: list[str]) -> list[str]:
    """The lines of one statement with comments removed."""
    if not any("#" in line for line in lines):
        return lines
    text = "\n".join(lines) + "\n"
    kept = [list(line) for line in lines]
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                kept[row - 1] = kept[row - 1][:column]
    except (tokenize.TokenError, IndentationError):
        pass  # the end of a header is no whole statement; every comment before it has been seen
    return ["".join(line) for line in kept]


def source_of(function: Callable[..., Any]) -> Source:
    """The source of a Python function, read once per code object.

    Raises:
        TilegenError: when Python has no source for it.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        raise TilegenError(f"{function!r} is not a Python function, so that it has no tile program to read")
    return _read(code, code.co_filename)


@functools.lru_cache(maxsize=512)
def _read(code: CodeType, filename: str) -> Source:
    try:
        lines, first_line = inspect.getsourcelines(code)
    except (OSError, TypeError) as error:
        raise TilegenError(
            f"Python has no source for {code.co_name} ({filename}); tile programs are read from their source, so "
            "define it in a file or in a notebook cell"
        ) from error
    text = "".join(lines).replace("\r\n", "\n")
    dedented = textwrap.dedent(text)
    body = ast.parse(dedented).body
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise TilegenError(
            f"{code.co_name} ({filename}:{first_line}) is not defined by a plain def statement"
        )
    indent = len(text) - len(text.lstrip(" \t")) if text[:1] in " \t" else 0
    file = relative_file(filename)
    register_source(file, first_line, text.split("\n"))
    digest = hashlib.sha256(dedented.encode()).hexdigest()[:8]
    return Source(file, first_line, indent, tuple(dedented.split("\n")), body[0], digest)


def relative_file(filename: str) -> str:
    """The path relative to the nearest folder that holds a project file, else the file's name; a notebook cell's
    made-up path becomes `<notebook>`, so that emitted text does not depend on the session."""
    if "ipykernel_" in filename or filename.startswith("<ipython-input"):
        return "<notebook>"
    if filename.startswith("<"):
        return filename
    path = Path(filename).absolute()
    for folder in path.parents:
        if any((folder / mark).exists() for mark in _ROOT_MARKS):
            return path.relative_to(folder).as_posix()
    return path.name


def annotated_names(tree: ast.FunctionDef) -> frozenset[str]:
    """The parameters that the body declares by an annotation without a value."""
    return frozenset(
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and node.value is None and isinstance(node.target, ast.Name)
    )
