"""Words of the language for tile operations that a user registers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, NoReturn

from tilegen.errors import TilegenError
from tilegen.language.operation import outside_kernel

Use = Literal["read", "write", "update", "scalar", "attribute"]


class CustomWord:
    """A word that stands for a registered operation.

    `signature` is a Python function whose parameters are the operation's; `uses` says of each one whether the
    operation reads that tile, writes it, does both, computes with that scalar, or takes it as a generation-time
    attribute. Parameters without an entry are attributes.
    """

    def __init__(self, name: str, signature: Callable[..., Any], uses: dict[str, Use]) -> None:
        self.name = name
        self.signature = inspect.signature(signature)
        for parameter in uses:
            if parameter not in self.signature.parameters:
                raise TilegenError(f"the operation {name} has no parameter {parameter}")
        self.uses: dict[str, Use] = {
            parameter: uses.get(parameter, "attribute") for parameter in self.signature.parameters
        }
        if not any(use in ("write", "update") for use in self.uses.values()):
            raise TilegenError(f"the operation {name} writes no tile, so that it has no effect")
        self.__name__ = name
        self.__doc__ = signature.__doc__

    def __call__(self, *arguments: Any, **keywords: Any) -> NoReturn:
        raise outside_kernel(self.name)

    def __repr__(self) -> str:
        return f"<tile operation {self.name}>"
