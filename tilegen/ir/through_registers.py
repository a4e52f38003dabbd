"""Tile operations that the hardware has in registers only, on tiles elsewhere: a reduction of or to a shared tile
passes through a fragment, a copy from tensor to tensor goes element by element."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilegen.ir import build
from tilegen.ir.expressions import Expr, Load, Var
from tilegen.ir.nodes import (
    Buffer,
    Copy,
    For,
    If,
    ParallelFor,
    Persistent,
    Program,
    Reduce,
    Region,
    Stmt,
    Store,
)
from tilegen.ir.rename import names_of
from tilegen.ir.spread import with_bodies
from tilegen.ir.types import int32
from tilegen.location import Location

_AXES = ("i", "j", "k", "l")


def through_registers(program: Program) -> Program:
    """The program with such operations spelt out; a program without any is returned as it is."""
    rewriter = _Rewriter(set(names_of(program)))
    body = rewriter.block(program.kernel.body)
    if body == program.kernel.body:
        return program
    allocations = (*program.kernel.allocations, *rewriter.made)
    return replace(program, kernel=replace(program.kernel, body=body, allocations=allocations))


@dataclass(slots=True)
class _Rewriter:
    """`taken` are the names that stand for something, `made` the fragments that the program did not have."""

    taken: set[str]
    made: list[Buffer] = field(default_factory=list)

    def block(self, statements: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(new for statement in statements for new in self._statement(statement))

    def _statement(self, statement: Stmt) -> tuple[Stmt, ...]:
        match statement:
            case If(_, then, otherwise):
                return (replace(statement, then=self.block(then), otherwise=self.block(otherwise)),)
            case For():
                return (with_bodies(statement, [self._statement(inner) for inner in statement.body]),)
            case Persistent():
                return (replace(statement, body=self.block(statement.body)),)
            case Copy(source, target) if source.buffer.scope == target.buffer.scope == "global":
                return (self._elements(source, target, statement.location),)
            case Reduce(source=source, target=target) if "shared" in (
                source.buffer.scope,
                target.buffer.scope,
            ):
                return self._reduce(statement)
            case _:
                return (statement,)

    def _reduce(self, reduction: Reduce) -> tuple[Stmt, ...]:
        source, target, place = reduction.source, reduction.target, reduction.location
        before: list[Stmt] = []
        after: list[Stmt] = []
        if source.buffer.scope == "shared":
            fragment = self._fragment(source, source.tile, place)
            before.append(Copy(source, fragment, place))
            source = fragment
        if target.buffer.scope == "shared":
            # What is reduced to one element has no axis left: its copies walk an axis of one.
            walked = target if target.tile else replace(target, dropped=target.dropped[:-1])
            fragment = self._fragment(walked, walked.tile, place)
            if not reduction.clear:
                before.append(Copy(walked, fragment, place))
            after.append(Copy(fragment, walked, place))
            target = fragment if target.tile else replace(fragment, dropped=(0,))
        return (*before, replace(reduction, source=source, target=target), *after)

    def _fragment(self, region: Region, tile: tuple[int, ...], place: Location) -> Region:
        """A new fragment of the tile's shape, whole."""
        extents: tuple[Expr, ...] = tuple(build.const(extent) for extent in tile)
        name = self._free(f"{region.buffer.name}_local")
        buffer = Buffer(name, extents, region.buffer.dtype, "fragment", "none", None, place)
        self.made.append(buffer)
        return Region(buffer, tuple(build.const(0) for _ in tile), tile, (), place)

    def _elements(self, source: Region, target: Region, place: Location) -> ParallelFor:
        variables = tuple(
            Var(self._free(_AXES[axis % len(_AXES)]), int32, "parallel", place)
            for axis in range(len(target.tile))
        )
        value = build.cast(Load(source.buffer, element(source, variables), place), target.buffer.dtype, place)
        store = Store(target.buffer, element(target, variables), value, place)
        return ParallelFor(variables, tuple(build.const(extent) for extent in target.tile), (store,), place)

    def _free(self, name: str) -> str:
        found, count = name, 1
        while found in self.taken:
            count += 1
            found = f"{name}_{count}"
        self.taken.add(found)
        return found


def element(region: Region, variables: tuple[Var, ...]) -> tuple[Expr, ...]:
    """The indices in the region's buffer of the element that the variables name, one for each of the tile's axes."""
    walked = dict(zip(region.kept, variables, strict=True))
    return tuple(
        build.add(offset, walked[axis]) if axis in walked else offset
        for axis, offset in enumerate(region.offsets)
    )
