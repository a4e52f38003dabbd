"""Walks over the tile IR."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tilegen.ir.affine import children
from tilegen.ir.expressions import Expr, Load
from tilegen.ir.nodes import Buffer, For, If, ParallelFor, Persistent, Stmt


def each_statement(statements: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer before inner, in program order."""
    for statement in statements:
        yield statement
        match statement:
            case If(_, then, otherwise):
                yield from each_statement(then)
                yield from each_statement(otherwise)
            case For() | ParallelFor() | Persistent():
                yield from each_statement(statement.body)
            case _:
                pass


def each_node(node: object) -> Iterator[object]:
    """Every dataclass below `node`, itself included; locations are left out."""
    if isinstance(node, tuple):
        for item in node:
            yield from each_node(item)
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        yield node
        for field in dataclasses.fields(node):
            if field.name != "location":
                yield from each_node(getattr(node, field.name))


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """The expression and every expression below it, outer before inner; indices of loads included."""
    yield expr
    for part in children(expr):
        yield from subexpressions(part)


def loaded(node: object) -> tuple[Buffer, ...]:
    """The buffers that expressions below `node` load elements of, each once."""
    return tuple(dict.fromkeys(inner.buffer for inner in each_node(node) if isinstance(inner, Load)))
