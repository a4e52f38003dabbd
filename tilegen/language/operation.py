"""Marks the words of the language: the frontend reads calls of them instead of running them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tilegen.errors import TilegenError

Function = TypeVar("Function", bound=Callable[..., Any])

_ATTRIBUTE = "__tile_operation__"


class OutsideKernelError(TilegenError):
    """A word of the tile language was called by Python itself."""


def operation(function: Function) -> Function:
    """Makes `function` a word of the language. Its signature is the word's; its body is what Python does when the
    word is called outside a tile program."""
    setattr(function, _ATTRIBUTE, function.__name__)
    return function


def operation_name(value: object) -> str | None:
    """The word's name, or None for anything else."""
    name = getattr(value, _ATTRIBUTE, None)
    return name if isinstance(name, str) else None


def outside_kernel(word: str) -> OutsideKernelError:
    return OutsideKernelError(
        f"T.{word} was called by Python itself; it only has a meaning inside a tile program. Decorate the function "
        "that calls it with @tilegen.jit or @T.prim_func, or with @T.macro if a tile program calls that function"
    )
