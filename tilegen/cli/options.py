"""Options that several commands take, and how their texts become values."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tilegen.errors import TilegenError

KernelReference = Annotated[
    str, typer.Argument(metavar="FILE:KERNEL", help="A Python file and a kernel in it.")
]
ExampleFile = Annotated[str, typer.Argument(metavar="FILE", help="An example module; see the guide.")]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target", "-t", metavar="NAME", help="A target, such as sm_90a or gfx942; may be repeated."
    ),
]
Dims = Annotated[
    list[str] | None,
    typer.Option("--dim", "-d", metavar="M=4096", help="Fixes an extent; the others stay launch arguments."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="block_M=128", help="Sets a generation-time parameter."),
]

_OWN_OPTIONS = {"target": "--target", "name": "--name", "dims": "--dim"}


class OptionError(TilegenError):
    """A command-line value that cannot be read."""


def read_dims(texts: Sequence[str] | None) -> dict[str, int]:
    """`M=4096` as {"M": 4096}.

    Raises:
        OptionError: for anything but a name and an integer.
    """
    dims = {}
    for name, value in _pairs(texts, "--dim"):
        try:
            dims[name] = int(value)
        except ValueError:
            raise OptionError(f"--dim {name}={value}: an extent is an integer") from None
    return dims


def read_settings(texts: Sequence[str] | None) -> dict[str, Any]:
    """`block_M=128` as {"block_M": 128}: a Python literal where it is one, else text.

    Raises:
        OptionError: for anything but a name and a value, and for what has an option of its own.
    """
    settings: dict[str, Any] = {}
    for name, value in _pairs(texts, "--set"):
        if name in _OWN_OPTIONS:
            raise OptionError(f"--set {name}={value}: {_OWN_OPTIONS[name]} says this")
        try:
            settings[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            settings[name] = value
    return settings


def only_target(names: Sequence[str] | None) -> str | None:
    """The target of a command that looks at one.

    Raises:
        OptionError: for several.
    """
    if names and len(set(names)) > 1:
        raise OptionError(f"--target {' and '.join(names)}: one runs at a time\n  remedy: give one of them")
    return names[0] if names else None


def folder(path: Path) -> Path:
    """Where files are to be written: a folder, or what can become one.

    Raises:
        OptionError: for a file, and for what lies in one.
    """
    for place in (path, *path.parents):
        if place.exists():
            if not place.is_dir():
                raise OptionError(f"{place} is no folder\n  remedy: --output names the folder to write to")
            break
    return path


def _pairs(texts: Sequence[str] | None, option: str) -> list[tuple[str, str]]:
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier() or not value:
            raise OptionError(f"{option} {text}: write NAME=VALUE")
        if name in pairs and pairs[name] != value:
            raise OptionError(f"{option} {name} is given twice, as {pairs[name]} and as {value}")
        pairs[name] = value
    return list(pairs.items())
