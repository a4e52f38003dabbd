"""Registers to the swizzled tile of a staged store by stmatrix: its 8 x 8 matrices as they lie, or turned."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.inference.fragment import Fragment, Mode
from tilegen.ir.nodes import AtomicTile, Copy
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.conversion import packed_pair, pair_type
from tilegen.lower.vocabulary.threads import register_part, thread_part
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Index, Literal, Name, Operation, Prefix, Reinterpret
from tilegen.model.statements import AssignC, CStmt, Declare, Expression, ForC
from tilegen.schedule.plan import Staging


def store_matrices(
    context: Context, copy: Copy | AtomicTile, fragment: Fragment, staging: Staging, turned: bool
) -> list[CStmt]:
    """The code of a fragment that 8 x 8 matrices make up, whose neighbours in registers lie in a row of the tile or, to
    be `turned`, in a column."""
    context.primitive("stmatrix", count=4, transpose=turned)
    store = _Store(context, copy, fragment, staging)
    return store.turned() if turned else store.straight()


@dataclass(frozen=True, slots=True)
class _Store:
    context: Context
    copy: Copy | AtomicTile
    fragment: Fragment
    staging: Staging

    def straight(self) -> list[CStmt]:
        """One stmatrix writes 16 rows x 16 columns: lanes 0-15 point at rows of the left matrices, lanes 16-31 at those
        of the right ones."""
        layout, threads = self.staging.layout, self.context.threads
        lane = threads.name("lane")
        row = c.add(self._first(0), c.mod(lane, 16))
        first_column = self._first(1)
        own_row = Name(self.context.name("row"))
        target_row = c.add(own_row, self._repeat(0)) if self._mi else own_row
        j = Name("j")
        chunk = c.add(c.mul(2, j), c.div(lane, 16))  # of 8 columns, in the warpgroup's part
        if c.value_of(first_column) is None:
            chunk = c.add(c.div(first_column, 8), chunk)
        base = c.member("shared", self.staging.name)
        if layout.groups > 1:
            per_group = layout.group // 8
            group: CExpr = c.div(j, per_group // 2)
            if c.value_of(first_column) is None:
                group, chunk = c.div(chunk, per_group), c.mod(chunk, per_group)
            else:
                chunk = c.add(c.mul(2, c.mod(j, per_group // 2)), c.div(lane, 16))
            base = c.index(base, group)
        target = Index(c.index(base, target_row), c.mul(8, "chunk"))
        body = (*self._packed(), self._chunk("chunk", chunk, own_row), self._write("stmatrix_x4", target))
        loop = self._loop(1, body, "one stmatrix writes 16 rows x 16 columns")
        return [Declare("int", own_row.name, row, const=True), loop]

    def turned(self) -> list[CStmt]:
        """The instruction turns each matrix as it stores it: lanes 0-7 and 8-15 point at rows of the two left matrices
        of 8 rows, 16-31 at those of the 8 rows below."""
        layout, threads = self.staging.layout, self.context.threads
        lane = threads.name("lane")
        row, column, chunk = (Name(self.context.name(name)) for name in ("row", "column", "chunk"))
        own_row = c.add(self._first(0), c.mul(8, c.div(lane, 16)), c.mod(lane, 8))
        own_column = c.add(self._first(1), c.mul(8, c.mod(c.div(lane, 8), 2)))
        own_chunk: CExpr = c.div(column, 8)
        base = c.member("shared", self.staging.name)
        if layout.groups > 1:
            own_chunk = c.mod(own_chunk, layout.group // 8)
            width = shared_tiles.group_columns(self.context, layout, Literal(layout.columns))
            repeat = self._repeat(1) if self._mi else Literal(0)
            base = c.index(base, c.operation("/", c.add(column, repeat), width))
        target = Index(c.index(base, c.add(row, c.mul(16, "j"))), c.mul(8, chunk))
        body = (*self._packed(), self._write("stmatrix_x4_trans", target))
        loop = self._loop(0, body, "one stmatrix turns and writes 16 rows x 16 columns")
        return [
            Declare("int", row.name, own_row, const=True),
            Declare("int", column.name, own_column, const=True),
            self._chunk(chunk.name, own_chunk, row),
            loop,
        ]

    @property
    def _mi(self) -> tuple[Name, ...]:
        """The index of the accumulators' repeats along m, where there are any."""
        return (Name("mi"),) if self.fragment.registers[:-1] else ()

    def _repeat(self, axis: int) -> CExpr:
        """Where a repeat begins along an axis."""
        repeats = Fragment(self.fragment.tile, (), self.fragment.registers[:-1])
        return register_part(repeats, axis, self._mi)

    def _first(self, axis: int) -> CExpr:
        """Where a warp's part begins along an axis."""
        modes = (Mode(32, (0, 0)), *self.fragment.threads[2:])
        beyond = Fragment(self.fragment.tile, modes, ((Mode(1, (0, 0)),),))
        return thread_part(beyond, axis, self.context.threads)

    def _chunk(self, name: str, chunk: CExpr, row: CExpr) -> CStmt:
        layout = self.staging.layout
        for xor in layout.xors:
            chunk = Operation("^", chunk, c.mod(c.div(row, xor.divisor), xor.extent))
        said = f"8-column chunk under the {layout.hardware_swizzle}-byte swizzle"
        return Declare("int", name, chunk, const=True, comment=said)

    def _packed(self) -> tuple[CStmt, CStmt]:
        """8 accumulators become 4 registers of 2 elements."""
        source = c.index(self.copy.source.buffer.name, *self._mi)
        first = c.add(c.mul(8, "j"), c.mul(2, "q"))
        packed = packed_pair(
            self.context, self.copy, c.index(source, first), c.index(source, c.add(first, 1))
        )
        return (
            Declare(pair_type(self.copy.target.buffer.dtype), "fragment", dimensions=(Literal(4),)),
            ForC("q", Literal(0), Literal(4), (AssignC(c.index("fragment", "q"), packed),), unroll=True),
        )

    def _write(self, primitive: str, target: CExpr) -> CStmt:
        registers = Reinterpret("const u32(&)[4]", Name("fragment"), dereference=False)
        return Expression(c.call(primitive, Prefix("&", target), registers))

    def _loop(self, axis: int, body: tuple[CStmt, ...], comment: str) -> CStmt:
        """For all registers: 16 elements of `axis` a turn, and the repeats around them."""
        own = 8 * self.fragment.registers[-1][2].extent
        extents = shared_tiles.extent_constants(self.context, self.copy.source.buffer)
        steps = c.div(extents[axis], 16) if own == self.fragment.tile[axis] else Literal(own // 16)
        loop: CStmt = ForC("j", Literal(0), steps, body, unroll=True, comment=comment)
        if self._mi:
            loop = ForC("mi", Literal(0), Literal(self.fragment.register_shape[0]), (loop,), unroll=True)
        return loop
