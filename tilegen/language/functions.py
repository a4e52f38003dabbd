"""Functions of a tile program: whole programs in the lazy style, and macros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilegen.language.operation import OutsideKernelError


class PrimFunc:
    """A tile program in the lazy style: a Python function whose annotations declare its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise OutsideKernelError(
            f"{self.__name__} is a tile program; compile it first: tilegen.compile({self.__name__})(…)"
        )

    def __repr__(self) -> str:
        return f"<tile program {self.__name__}>"


class Macro:
    """A Python function that is inlined where a tile program calls it; it may take and return tile values."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise OutsideKernelError(f"{self.__name__} is a tile macro; it can only be called by a tile program")

    def __repr__(self) -> str:
        return f"<tile macro {self.__name__}>"


def prim_func(function: Callable[..., Any]) -> PrimFunc:
    """Declares a tile program in the lazy style; tensors are its annotated arguments."""
    return PrimFunc(function)


def macro(function: Callable[..., Any]) -> Macro:
    """Declares a helper that is inlined where a tile program calls it."""
    return Macro(function)
