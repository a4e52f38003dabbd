"""What all commands share: consoles, and errors printed for people."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from tilegen.diagnostics import ProgramError
from tilegen.errors import TilegenError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

output = Console(soft_wrap=True, highlight=False)
errors = Console(stderr=True, soft_wrap=True, highlight=False)


def fail(message: str) -> typer.Exit:
    """Prints an error; raise what it returns. The exit code is 1."""
    errors.print(Text.assemble(("error: ", "bold red"), message))
    return typer.Exit(1)


def friendly(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A command whose errors, and those of files, are printed without a traceback and end it with exit code 1."""

    @functools.wraps(command)
    def wrapped(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return command(*args, **kwargs)
        except ProgramError as error:
            error.render(errors)
            raise typer.Exit(1) from None
        except TilegenError as error:
            raise fail(str(error)) from None
        except OSError as error:  # a folder that cannot be written, say
            raise fail(f"{error.filename2 or error.filename}: {error.strerror}") from None

    return wrapped
