"""Walks over the tile IR."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

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


_FIELDS: dict[type[Any], tuple[str, ...]] = {}


def _parts(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a class of nodes that hold what the node says; none for other classes."""
    found = _FIELDS.get(kind)
    if found is None:
        fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        found = _FIELDS[kind] = tuple(field.name for field in fields if field.name != "location")
    return found


def each_node(node: object) -> Iterator[object]:
    """Every dataclass below `node`, itself included, in order; locations are left out."""
    stack = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, tuple):
            stack.extend(reversed(top))
            continue
        parts = _parts(type(top))
        if parts:
            yield top
            stack.extend(getattr(top, part) for part in reversed(parts))


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """The expression and every expression below it, outer before inner; indices of loads included."""
    yield expr
    for part in children(expr):
        yield from subexpressions(part)


def loaded(node: object) -> tuple[Buffer, ...]:
    """The buffers that expressions below `node` load elements of, each once."""
    return tuple(dict.fromkeys(inner.buffer for inner in each_node(node) if isinstance(inner, Load)))
