"""What differs from thread to thread outside of parallel loops: the index that T.get_thread_binding gives, and what is
computed from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilegen.ir.effects import blocks_of, expressions_of
from tilegen.ir.expressions import Expr, Load, Var
from tilegen.ir.nodes import Assign, For, If, Kernel, Let, ParallelFor, Stmt, Store
from tilegen.ir.walk import each_statement, subexpressions


@dataclass(frozen=True, slots=True)
class PerThread:
    """`index` is the thread's, where the kernel asks for it; `names` are it and the variables and local arrays whose
    values come from it."""

    index: Var | None = None
    names: frozenset[str] = frozenset()

    def varies(self, *expressions: Expr) -> bool:
        """Whether threads may find different values."""
        return any(
            (isinstance(part, Var) and part.name in self.names)
            or (isinstance(part, Load) and part.buffer.name in self.names)
            for expression in expressions
            for part in subexpressions(expression)
        )


def per_thread(kernel: Kernel) -> PerThread:
    """Of a kernel that asks for its threads' index; nothing differs in any other."""
    index = next(_indices(kernel), None)
    if index is None:
        return PerThread()
    found = PerThread(index, frozenset({index.name}))
    while (more := found.names | set(_named(kernel.body, found, False))) != found.names:
        found = PerThread(index, more)
    return found


def _indices(kernel: Kernel) -> Iterator[Var]:
    for statement in each_statement(kernel.body):
        for expression in expressions_of(statement):
            for part in subexpressions(expression):
                if isinstance(part, Var) and part.role == "thread":
                    yield part


def _named(statements: Sequence[Stmt], known: PerThread, divergent: bool) -> Iterator[str]:
    """Names that get values of each thread's own, as far as `known` tells; `divergent`: not all threads come by."""
    for statement in statements:
        inner = divergent
        match statement:
            case Let(var, value) if known.varies(value):
                yield var.name
            case Assign(var, value) if divergent or known.varies(value):
                yield var.name
            case Store(buffer, indices, value) if buffer.scope == "local":
                if divergent or known.varies(value, *indices):
                    yield buffer.name
            case For(var, start, stop, step) if known.varies(start, stop, step):
                inner = True
                yield var.name
            case If(condition) if known.varies(condition):
                inner = True
            case ParallelFor(variables):
                inner = True
                yield from (var.name for var in variables)
            case _:
                pass
        for block in blocks_of(statement):
            yield from _named(block, known, inner)
