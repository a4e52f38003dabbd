"""A thread's registers of a fragment, a vector at a time, to where parts of sums are kept and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tilegen.ir.nodes import Buffer
from tilegen.lower.vocabulary.addresses import as_vector
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.dtypes import type_name
from tilegen.lower.vocabulary.fragments import register_names
from tilegen.lower.vocabulary.scalar import zero
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import AssignC, CStmt, Declare, ForC, Scope

Place = Callable[[CExpr], CExpr]
_Turns = tuple[str, CExpr, CExpr, int]  # of a loop: its variable, begin, end and step


class AccumulatorVectors:
    """The registers of a thread that hold `buffer`, in vectors of `width` elements.

    `place` gives the first element of a vector's place in memory, whose number in the order of the registers it is
    told.
    """

    def __init__(self, context: Context, buffer: Buffer, width: int) -> None:
        self.context = context
        self.buffer = buffer
        self.width = width
        context.align(buffer.name, width * buffer.dtype.bytes)
        shape = context.decisions.fragment(buffer).register_shape
        steps = (*(1 for _ in shape[:-1]), width)
        self.loops = list(zip(register_names(len(shape)), shape, steps, strict=True))
        self.indices: list[CExpr] = [
            Name(name) if extent > step else Literal(0) for name, extent, step in self.loops
        ]

    def zero(self) -> CStmt:
        """Sets the vector to 0."""
        if self.width == 1:
            return AssignC(self._element(Literal(0)), zero(self.context, self.buffer.dtype))
        v = self.context.local("v", "e", "element")
        clear = AssignC(self._element(Name(v)), zero(self.context, self.buffer.dtype))
        return ForC(v, Literal(0), Literal(self.width), (clear,))

    def leave(self, place: Place) -> CStmt:
        """Stores the vector."""
        return self._move(place(self._vector()), self._element(Literal(0)))

    def take(self, place: Place) -> CStmt:
        """Loads the vector."""
        return self._move(self._element(Literal(0)), place(self._vector()))

    def add(self, place: Place) -> list[CStmt]:
        """Loads another vector and adds it."""
        dtype = self.buffer.dtype
        if self.width == 1:
            return [AssignC(self._element(Literal(0)), place(self._vector()), "+=")]
        v = self.context.local("v", "e", "element")
        return [
            Declare(
                type_name(dtype, self.context.target.language),
                "partial",
                dimensions=(Literal(self.width),),
                alignment=self.width * dtype.bytes,
            ),
            self._move(c.index("partial", 0), place(self._vector())),
            ForC(
                v,
                Literal(0),
                Literal(self.width),
                (AssignC(self._element(Name(v)), c.index("partial", v), "+="),),
                unroll=True,
            ),
        ]

    def each(self, body: tuple[CStmt, ...]) -> list[CStmt]:
        """The statements for each vector."""
        body = _nested(
            body, [(name, Literal(0), Literal(extent), step) for name, extent, step in self._turns()]
        )
        if any(isinstance(one, Declare) for one in body):
            return [Scope(body)]
        return list(body)

    def by_groups(
        self, most: int, body: tuple[CStmt, ...], around: Callable[[tuple[CStmt, ...], int], CStmt]
    ) -> list[CStmt]:
        """The statements for each vector, in groups of `most` elements or fewer: `around` says what happens with the
        statements for a group of so many elements."""
        turns = self._turns()
        sizes = [prod(extent for _, extent, _ in turns[at + 1 :]) for at in range(len(turns))]
        cut = next(at for at, size in enumerate(sizes) if size <= most)
        name, extent, step = turns[cut]
        parts = [n for n in range(step, extent + 1, step) if extent % n == 0 and n * sizes[cut] <= most]
        taken = max(parts, default=step)
        loops: list[_Turns] = [(each, Literal(0), Literal(size), by) for each, size, by in turns]
        outer, inner = loops[: cut + 1], loops[cut + 1 :]
        if taken > step:
            begin = self.context.local("begin", "first", "group_begin")
            outer[cut] = (begin, Literal(0), Literal(extent), taken)
            inner.insert(0, (name, Name(begin), c.add(begin, taken), step))
        return list(_nested((around(_nested(body, inner), taken * sizes[cut]),), outer))

    def _turns(self) -> list[tuple[str, int, int]]:
        """Name, extent and step of the loops over the vectors."""
        return [(name, extent, step) for name, extent, step in self.loops if extent > step]

    def _move(self, target: CExpr, source: CExpr) -> CStmt:
        dtype, language = self.buffer.dtype, self.context.target.language
        if self.width == 1:
            return AssignC(target, source)
        value = as_vector(source, dtype, self.width, language, const=True)
        return AssignC(as_vector(target, dtype, self.width, language), value)

    def _element(self, position: CExpr) -> CExpr:
        """A register of the vector."""
        *outer, last = self.indices
        return c.index(self.buffer.name, *outer, c.add(last, position))

    @property
    def registers(self) -> int:
        """How many elements a thread holds."""
        return prod(extent for _, extent, _ in self.loops)

    def register(self) -> CExpr:
        """The number of the vector's first register."""
        number: CExpr = Literal(0)
        for index, (_, extent, _) in zip(self.indices, self.loops, strict=True):
            number = c.add(c.mul(extent, number), index)
        return number

    def _vector(self) -> CExpr:
        """The vector's number."""
        number: CExpr = Literal(0)
        for index, (_, extent, step) in zip(self.indices, self.loops, strict=True):
            number = c.add(c.mul(extent // step, number), c.div(index, step))
        return number


def _nested(body: tuple[CStmt, ...], loops: Sequence[_Turns]) -> tuple[CStmt, ...]:
    """The statements in loops that the compiler unrolls, outermost first."""
    for name, begin, end, step in reversed(loops):
        by = Literal(step) if step > 1 else None
        body = (ForC(name, begin, end, body, by, unroll=True),)
    return body
