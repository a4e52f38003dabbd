"""The element of a fragment that has only one, named outside of T.Parallel: every thread has such an element.

An assignment to it becomes a loop of one iteration; what another statement reads of it is handed to an array of each
thread's own in such a loop first. Which thread holds an element of a larger fragment is not known there, which
tilegen.ir.check_parallel says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tilegen.ir import build
from tilegen.ir.effects import expressions_of
from tilegen.ir.expressions import Load, Var
from tilegen.ir.nodes import Buffer, For, If, ParallelFor, Persistent, Program, Stmt, Store
from tilegen.ir.rename import names_of
from tilegen.ir.rewrite import transform
from tilegen.ir.spread import with_bodies
from tilegen.ir.types import int32
from tilegen.ir.walk import subexpressions
from tilegen.location import Location


def single_elements(program: Program) -> Program:
    """The program with such elements in loops; a program without any is returned as it is."""
    rewriter = _Rewriter(set(names_of(program)))
    body = rewriter.block(program.kernel.body)
    if not rewriter.changed:
        return program
    allocations = (*program.kernel.allocations, *rewriter.own.values())
    return replace(program, kernel=replace(program.kernel, body=body, allocations=allocations))


@dataclass(slots=True)
class _Rewriter:
    """`taken` are the names that stand for something, `own` the threads' arrays that the program did not have, by the
    fragment whose element they hold."""

    taken: set[str]
    own: dict[str, Buffer] = field(default_factory=dict)
    changed: bool = False

    def block(self, statements: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(new for statement in statements for new in self._statement(statement))

    def _statement(self, statement: Stmt) -> tuple[Stmt, ...]:
        match statement:
            case ParallelFor():
                return (statement,)
            case Store(buffer=buffer) if _single(buffer):
                return (self._once(statement),)
            case If(then=then, otherwise=otherwise):
                inner: Stmt = replace(statement, then=self.block(then), otherwise=self.block(otherwise))
            case For(body=body):
                inner = with_bodies(statement, [self._statement(one) for one in body])
            case Persistent(body=body):
                inner = replace(statement, body=self.block(body))
            case _:
                inner = statement
        return self._with_own(inner)

    def _with_own(self, statement: Stmt) -> tuple[Stmt, ...]:
        """The statement, behind the loops that hand it the elements that its own expressions read."""
        found: dict[str, Load] = {}
        for expr in expressions_of(statement):
            for part in subexpressions(expr):
                if isinstance(part, Load) and _single(part.buffer):
                    found[part.buffer.name] = part
        if not found:
            return (statement,)
        before = tuple(self._handed(load, statement.location) for load in found.values())
        return (*before, _reading(statement, {name: self.own[name] for name in found}))

    def _handed(self, load: Load, place: Location) -> ParallelFor:
        buffer = load.buffer
        if buffer.name not in self.own:
            name = self._free(f"{buffer.name}_element")
            self.own[buffer.name] = Buffer(
                name, buffer.shape, buffer.dtype, "local", location=buffer.location
            )
        return self._once(Store(self.own[buffer.name], load.indices, load, place))

    def _once(self, store: Store) -> ParallelFor:
        self.changed = True
        variable = Var(self._free("i"), int32, "parallel", store.location)
        return ParallelFor((variable,), (build.const(1),), (store,), store.location)

    def _free(self, name: str) -> str:
        found, count = name, 1
        while found in self.taken:
            count += 1
            found = f"{name}_{count}"
        self.taken.add(found)
        return found


def _single(buffer: Buffer) -> bool:
    return buffer.scope == "fragment" and all(extent == 1 for extent in buffer.extents)


def _reading(statement: Stmt, own: Mapping[str, Buffer]) -> Stmt:
    """The statement with its own expressions reading the threads' arrays; nested blocks stay as they are."""

    def read(node: Any) -> Any:
        if isinstance(node, Load) and node.buffer.name in own:
            return replace(node, buffer=own[node.buffer.name])
        return node

    match statement:
        case If():
            return replace(statement, condition=transform(statement.condition, read))
        case For():
            start, stop, step = (
                transform(part, read) for part in (statement.start, statement.stop, statement.step)
            )
            return replace(statement, start=start, stop=stop, step=step)
        case _:
            return transform(statement, read)
