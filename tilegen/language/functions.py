"""Functions of a tile program: whole programs in the lazy style, and macros."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from tilegen.language.operation import OutsideKernelError


class PrimFunc:
    """A tile program in the lazy style: a Python function whose annotations declare its arguments.

    `annotations` are their values; text that cannot be evaluated where the function is defined stays text.
    """

    def __init__(self, function: Callable[..., Any], surroundings: Mapping[str, Any]) -> None:
        self.function = function
        self.annotations: dict[str, Any] = {
            name: _annotation_value(annotation, function, surroundings)
            for name, annotation in function.__annotations__.items()
        }
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


def _annotation_value(annotation: Any, function: Callable[..., Any], surroundings: Mapping[str, Any]) -> Any:
    """An annotation kept as text (`from __future__ import annotations`) may use names of the factory that the
    function's closure does not hold: it is evaluated among them."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, function.__globals__, dict(surroundings))
    except NameError:
        return annotation


def prim_func(function: Callable[..., Any]) -> PrimFunc:
    """Declares a tile program in the lazy style; tensors are its annotated arguments."""
    return PrimFunc(function, sys._getframe(1).f_locals)


def macro(function: Callable[..., Any]) -> Macro:
    """Declares a helper that is inlined where a tile program calls it."""
    return Macro(function)
