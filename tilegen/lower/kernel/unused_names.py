"""Drops declarations of the program's positions and named values that nothing in the lowered text mentions: compilers
warn of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tilegen.ir.nodes import Kernel, Let, Persistent
from tilegen.model.expressions import CExpr
from tilegen.model.statements import Blank, Comment, CStmt, Declare, ForC, IfC, Scope, WhileC
from tilegen.model.walk import names
from tilegen.schedule.analysis import each_statement


def named_values(kernel: Kernel) -> list[str]:
    """Names of the tile's position and of values that the program names once."""
    found = [var.name for var in kernel.block_vars]
    for statement in each_statement(kernel.body):
        match statement:
            case Persistent(vars=variables):
                found += [var.name for var in variables]
            case Let(var, mutable=False):
                found.append(var.name)
            case _:
                pass
    return found


def without_unused(body: Sequence[CStmt], candidates: Collection[str]) -> list[CStmt]:
    """The statements without declarations of those `candidates` that nothing behind them mentions where they are in
    reach, nor the comments that quote these alone: producer and consumers may each declare what only one of them
    needs."""
    kept: list[CStmt] = []  # from the last to the first: what only unused names mention is unused too
    mentioned: set[str] = set()
    dropped: list[str] = []  # the names that stood right behind
    alone = False  # what is behind those begins anew
    for statement in reversed(body):
        match statement:
            case Declare(name=name, value=value, structured=()) if (
                name in candidates and name not in mentioned and value is not None
            ):
                dropped.append(name)
                alone = alone or not kept or isinstance(kept[-1], Blank | Comment)
                continue
            case Comment(text) if alone or any(_quotes(text, name) for name in dropped):
                dropped, alone = [], False
                continue
            case ForC() | WhileC() | Scope():
                statement = replace(statement, body=tuple(without_unused(statement.body, candidates)))
            case IfC(then=then, otherwise=otherwise):
                inner = (
                    tuple(without_unused(then, candidates)),
                    tuple(without_unused(otherwise, candidates)),
                )
                statement = replace(statement, then=inner[0], otherwise=inner[1])
            case _:
                pass
        dropped, alone = [], False
        kept.append(statement)
        mentioned.update(names(statement))
    return kept[::-1]


def _quotes(text: str | tuple[str | CExpr, ...], name: str) -> bool:
    """Whether a comment quotes the definition of a name."""
    return isinstance(text, str) and f"  {name} = " in text
