"""Names loop bounds that are read from memory: they are read once, before the loop, whatever its body writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tilegen.ir.expressions import Const, Expr, Var
from tilegen.ir.nodes import For, If, Kernel, Let, Persistent, Program, Stmt
from tilegen.ir.rename import names_of
from tilegen.ir.rewrite import transform
from tilegen.ir.walk import loaded


def name_bounds(program: Program) -> Program:
    """The program with a name in front of each loop for a bound that is read from memory."""
    taken = dict.fromkeys(names_of(program))

    def block(statements: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        if not any(isinstance(s, For) and loaded((s.start, s.stop)) for s in statements):
            return statements
        return tuple(one for statement in statements for one in _named(statement, taken))

    def rewrite(node: Any) -> Any:
        match node:
            case Kernel() | For() | Persistent():
                body = block(node.body)
                return node if body is node.body else replace(node, body=body)
            case If(then=then, otherwise=otherwise):
                parts = block(then), block(otherwise)
                same = parts[0] is then and parts[1] is otherwise
                return node if same else replace(node, then=parts[0], otherwise=parts[1])
            case _:
                return node

    return transform(program, rewrite)


def _named(statement: Stmt, taken: dict[str, None]) -> Iterator[Stmt]:
    """The statement, after the names of its bounds."""
    if isinstance(statement, For):
        bounds: dict[str, Expr] = {"start": statement.start, "stop": statement.stop}
        for kind, bound in bounds.items():
            if isinstance(bound, Const) or not loaded(bound):
                continue
            var = Var(_free(f"{statement.var.name}_{kind}", taken), bound.dtype, location=statement.location)
            bounds[kind] = var
            yield Let(var, bound, location=statement.location)
        statement = replace(statement, start=bounds["start"], stop=bounds["stop"])
    yield statement


def _free(wanted: str, taken: dict[str, None]) -> str:
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken[name] = None
    return name
