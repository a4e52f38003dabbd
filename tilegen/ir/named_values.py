"""The values that names stand for throughout."""

from __future__ import annotations

from collections.abc import Iterable

from tilegen.ir.expressions import Expr
from tilegen.ir.nodes import Let, Stmt
from tilegen.ir.traversal import substitute


def named_values(statements: Iterable[Stmt]) -> dict[str, Expr]:
    """The values of the names that these statements define and nothing assigns again, each without names that were
    defined before it."""
    values: dict[str, Expr] = {}
    for statement in statements:
        if isinstance(statement, Let) and not statement.mutable:
            values[statement.var.name] = substitute(statement.value, values)
    return values
