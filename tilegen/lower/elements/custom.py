"""Code of registered operations: what they are given to make it with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilegen.diagnostics import ProgramError
from tilegen.inference.fragment import Fragment
from tilegen.inference.operations import OperationCall, call_of, registered
from tilegen.inference.shared import SharedLayout
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import CustomOperation, Region, Stmt
from tilegen.ir.types import DType
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.addresses import global_element, shared_element_at
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.element_names import REGISTER_NAMES
from tilegen.lower.vocabulary.scalar import dialect, extent_expression, scalar
from tilegen.lower.vocabulary.threads import coordinate
from tilegen.model import build as c
from tilegen.model.expression_text import expression_text
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import CStmt, Declare, ForC, Scope


def lower_custom(context: Context, statement: Stmt) -> list[CStmt]:
    """The code of a registered operation; in braces where it declares names."""
    assert isinstance(statement, CustomOperation)
    call = call_of(statement, context.plan.computing, context.target)
    code = registered(statement.operation).lower(call, Code(context, call))
    return [Scope(tuple(code))] if any(isinstance(part, Declare) for part in code) else code


@dataclass(frozen=True, slots=True)
class Code:
    """What a registered operation makes its code with. Tiles are named by the operation's parameters; indices and
    results are C++ expressions of `tilegen.model`.

    All threads of the block that compute run the code, each on its own registers.
    """

    context: Context
    call: OperationCall

    @property
    def language(self) -> str:
        """ "cuda" or "hip"."""
        return self.context.target.language

    @property
    def warp_size(self) -> int:
        """Lanes of a warp (a wave on CDNA)."""
        return self.context.target.limits.warp_size

    @property
    def thread(self) -> CExpr:
        """The index of the computing thread, 0 … threads - 1."""
        return self.context.threads.name(self.context.threads.whole.name)

    @property
    def lane(self) -> CExpr:
        """The thread's index in its warp."""
        return self.context.threads.name("lane")

    @property
    def warp(self) -> CExpr:
        """The index of the thread's warp among those that compute."""
        return self.context.threads.digit(self.warp_size, self.call.threads // self.warp_size)

    # ------------------------------------------------------------------------------------- tiles

    def fragment(self, parameter: str) -> Fragment:
        """The layout of a fragment."""
        return self.context.decisions.fragment(self._region(parameter).buffer)

    def layout(self, parameter: str) -> SharedLayout:
        """The layout of a shared tile."""
        return self.context.decisions.layout(self._region(parameter).buffer)

    def register(self, parameter: str, *indices: CExpr) -> CExpr:
        """A register of a fragment, by one index for each dimension of its register array."""
        return c.index(self._region(parameter).buffer.name, *indices)

    def coordinate(self, parameter: str, axis: int, *indices: CExpr) -> CExpr:
        """Where in the tile a register of this thread lies, along an axis."""
        return coordinate(self.fragment(parameter), axis, tuple(indices), self.context.threads)

    def each_register(
        self, parameter: str, body: Callable[[tuple[CExpr, ...]], Sequence[CStmt]]
    ) -> list[CStmt]:
        """Unrolled loops over the registers of a fragment, around what `body` makes of their indices."""
        shape = self.fragment(parameter).register_shape
        wanted = REGISTER_NAMES.get(len(shape)) or tuple(f"r{position}" for position in range(len(shape)))
        names = [
            self.context.name(name) if extent > 1 else "" for name, extent in zip(wanted, shape, strict=True)
        ]
        indices: tuple[CExpr, ...] = tuple(Name(name) if name else Literal(0) for name in names)
        out = list(body(indices))
        for name, extent in zip(reversed(names), reversed(shape), strict=True):
            if name:
                out = [ForC(name, Literal(0), Literal(extent), tuple(out), unroll=True)]
                self.context.taken.pop(name)
        return out

    def element(self, parameter: str, *indices: CExpr | int) -> CExpr:
        """An element of a shared or global tile by its place in the tile; the stage of an open ring is added."""
        region = self._region(parameter)
        buffer = region.buffer
        place = self._place(region, indices)
        if buffer.scope == "shared":
            extents = shared_tiles.extent_constants(self.context, buffer)
            return shared_element_at(self.context, buffer.name, self.layout(parameter), extents, place)
        if buffer.scope == "global":
            return global_element(self.context, buffer, place)
        raise ProgramError(
            self.call.statement.location,
            f"{self.call.statement.operation} addresses {buffer.name} by element, but it lies in {buffer.scope} memory",
            remedy=f"pass a shared or global tile as {parameter}",
        )

    def inside(self, parameter: str, *indices: CExpr | int) -> CExpr | None:
        """Whether an element of a global tile lies inside the tensor; None where the tile always does."""
        region = self._region(parameter)
        conditions = []
        for offset, size, index, extent in zip(
            region.offsets, region.shape, self._place(region, indices), region.buffer.shape, strict=True
        ):
            fixed = isinstance(offset, Const) and isinstance(extent, Const)
            if not fixed or int(offset.value) + size > int(extent.value):  # type: ignore[union-attr]
                conditions.append(c.operation("<", index, extent_expression(self.context, extent)))
        return c.conjunction(conditions)

    def _region(self, parameter: str) -> Region:
        return self.call.tiles[parameter]

    def _place(self, region: Region, indices: Sequence[CExpr | int]) -> list[CExpr]:
        """Buffer indices of a place in the tile."""
        given = dict(zip(region.kept, indices, strict=True))
        return [
            c.add(scalar(self.context, offset), given.get(axis, 0))
            for axis, offset in enumerate(region.offsets)
        ]

    # ------------------------------------------------------------------------------------- text

    def scalar(self, parameter: str) -> CExpr:
        """A scalar argument."""
        return scalar(self.context, self.call.scalars[parameter])

    def name(self, wanted: str) -> str:
        """`wanted`, or a like name that the kernel does not use yet."""
        return self.context.name(wanted)

    def type_name(self, dtype: DType) -> str:
        """The C++ type of an element.

        Raises:
            DialectError: for an element that the target's language has no type for.
        """
        return dialect(self.context).type_name(dtype)

    def shuffle_xor(self, value: CExpr | str, mask: CExpr | str) -> CExpr:
        """`value` of the lane whose index differs by `mask`; 32-bit values."""
        return dialect(self.context).shuffle_xor(c.expr(value), c.expr(mask))

    @staticmethod
    def text(expression: CExpr) -> str:
        """An expression as it is printed, for the text of a device function."""
        return expression_text(expression)

    def synchronise(self) -> CStmt:
        """A barrier of all computing threads. Those that the operation's own reads and writes need around it are placed
        by tilegen; this is for inside."""
        return self.context.synchronise()

    def device_function(self, text: str) -> None:
        """Adds a `__device__` function to the file, once for each text. It is part of what the emulator runs; write it
        as clang-format would, at most 120 columns wide. `TILEGEN_DEVICE` stands for its qualifiers."""
        self.context.functions[text.strip("\n")] = None
