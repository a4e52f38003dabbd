"""Tile operations that a user adds to the language: what one says of itself, and which are registered.

A registered operation takes part in every pass as the built-in ones do: the frontend binds a call's arguments to its
parameters, inference asks it for layouts, the schedule places barriers by what it reads and writes, and lowering asks
it for its code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from tilegen.diagnostics import ProgramError
from tilegen.errors import TilegenError
from tilegen.inference.fragment import Fragment
from tilegen.inference.shared import SharedLayout
from tilegen.ir.expressions import Expr
from tilegen.ir.nodes import Buffer, CustomOperation, Region
from tilegen.ir.types import DType
from tilegen.language.custom import CustomWord, Use
from tilegen.target import Target

if TYPE_CHECKING:
    from tilegen.lower.elements.custom import Code
    from tilegen.model.statements import CStmt

Engine = Literal["threads", "tensor_cores"]
TileLayout = Fragment | SharedLayout


@dataclass(frozen=True, slots=True)
class OperationCall:
    """One call of an operation in a tile program.

    `tiles`, `scalars` and `attributes` are the arguments by parameter; `threads` is how many threads compute.
    """

    statement: CustomOperation
    tiles: Mapping[str, Region]
    scalars: Mapping[str, Expr]
    attributes: Mapping[str, object]
    threads: int
    target: Target

    def shape(self, parameter: str) -> tuple[int, ...]:
        """The tile's extents, without axes that the program indexed away."""
        return self.tiles[parameter].tile

    def dtype(self, parameter: str) -> DType:
        return self.tiles[parameter].buffer.dtype

    def scope(self, parameter: str) -> str:
        """ "fragment", "shared", "global" or "local"."""
        return self.tiles[parameter].buffer.scope

    def fail(self, message: str, remedy: str = "") -> NoReturn:
        """Refuses the call.

        Raises:
            ProgramError: at the call's line in the tile program.
        """
        raise ProgramError(self.statement.location, message, remedy=remedy)


class TileOperation(ABC):
    """A tile operation: derive from it, and register the class with `tilegen.register_operation`.

    `name` is the word's name in messages and in the IR (by default the class's own). `uses` says of each parameter of
    `call` whether the operation reads that tile ("read"), writes it ("write"), does both ("update"), or computes with
    that scalar ("scalar"); parameters that it leaves out are attributes, fixed at generation time. `engine` is what
    reads its shared tiles: "threads", or "tensor_cores", which do so through the asynchronous proxy, so that what
    threads stored there is made visible to it first (PTX ISA, "Async proxy").
    """

    name: ClassVar[str] = ""
    uses: ClassVar[Mapping[str, Use]]
    engine: ClassVar[Engine] = "threads"

    @staticmethod
    @abstractmethod
    def call(*arguments: Any, **keywords: Any) -> None:
        """The word's parameters and what it does; overridden with the operation's own signature and docstring."""

    def check(self, call: OperationCall) -> None:  # noqa: B027  (most operations refuse nothing)
        """Refuses calls with `call.fail`: shapes, element types, scopes or targets that the operation cannot do."""

    def demands(self, call: OperationCall) -> Mapping[str, TileLayout]:
        """Layouts that its tiles must have, by parameter. They are decided together with those of gemms, before
        anything else."""
        return {}

    def offers(self, call: OperationCall, known: Mapping[str, TileLayout]) -> Mapping[str, Fragment]:
        """Layouts that follow from those that are known so far, by parameter; asked again whenever one becomes known.
        A fragment that is laid out otherwise by then is an error."""
        return {}

    @abstractmethod
    def lower(self, call: OperationCall, code: Code) -> list[CStmt]:
        """The C++ statements that the computing threads run, made with the help of `code`."""


_OPERATIONS: dict[str, tuple[TileOperation, CustomWord]] = {}


def register_operation(operation: type[TileOperation]) -> CustomWord:
    """Adds an operation to the language; use it as a decorator of its class. What it returns is the word that tile
    programs call.

    Raises:
        TilegenError: when `uses` does not fit the parameters of `call`, nothing is written, or another class has the
            name.
    """
    name = operation.name or operation.__name__
    known = _OPERATIONS.get(name)
    if known is not None and _place(type(known[0])) != _place(operation):
        raise TilegenError(
            f"the operation {name} is registered already, by {'.'.join(_place(type(known[0])))}"
        )
    word = CustomWord(name, operation.call, dict(operation.uses))
    _OPERATIONS[name] = (operation(), word)
    return word


def _place(operation: type[TileOperation]) -> tuple[str, str]:
    """Where a class is defined: the same definition, run again, may replace itself."""
    return operation.__module__, operation.__qualname__


def registered(name: str) -> TileOperation:
    """The operation of this name.

    Raises:
        TilegenError: when there is none.
    """
    if name not in _OPERATIONS:
        raise TilegenError(f"no operation {name} is registered")
    return _OPERATIONS[name][0]


def call_of(statement: CustomOperation, threads: int, target: Target) -> OperationCall:
    """A statement with its arguments by parameter.

    Raises:
        ProgramError: when a fragment is not given as a whole.
    """
    _, word = _OPERATIONS[statement.operation]
    reads, writes, scalars = iter(statement.reads), iter(statement.writes), iter(statement.arguments)
    tiles: dict[str, Region] = {}
    values: dict[str, Expr] = {}
    for parameter, use in word.uses.items():
        match use:
            case "read" | "write" | "update":
                region = next(reads) if use != "write" else next(writes)
                if use == "update":
                    next(writes)
                tiles[parameter] = region
            case "scalar":
                values[parameter] = next(scalars)
            case "attribute":
                pass
    call = OperationCall(statement, tiles, values, dict(statement.attributes), threads, target)
    for parameter, region in tiles.items():
        if region.buffer.scope == "fragment" and region.tile != region.buffer.extents:
            call.fail(
                f"{parameter} of {statement.operation} is a part of {region.buffer.name}, whose elements are spread "
                "over threads as a whole",
                f"copy the part to a fragment of its own with T.copy, and pass that as {parameter}",
            )
    return call


def fragments_of(call: OperationCall) -> Iterator[tuple[str, Buffer]]:
    """The parameters that are fragments, each with its buffer."""
    for parameter, region in call.tiles.items():
        if region.buffer.scope == "fragment":
            yield parameter, region.buffer
