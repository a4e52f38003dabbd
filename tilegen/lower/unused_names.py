"""Drops declarations of the program's positions and named values that nothing in the lowered text mentions: compilers
warn of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilegen.ir.nodes import Kernel, Let, Persistent
from tilegen.model.statements import CStmt, Declare, ForC, IfC, Scope, WhileC
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


def without_unused(body: Sequence[CStmt], candidates: Sequence[str]) -> list[CStmt]:
    """The statements without declarations of those `candidates` that no expression mentions."""
    kept = list(body)
    while True:
        mentioned = frozenset(names(kept))
        unused = frozenset(name for name in candidates if name not in mentioned)
        shorter = _without(kept, unused)
        if shorter == kept:
            return kept
        kept = shorter


def _without(body: Sequence[CStmt], unused: frozenset[str]) -> list[CStmt]:
    kept: list[CStmt] = []
    for statement in body:
        match statement:
            case Declare(name=name, value=value, structured=()) if name in unused and value is not None:
                continue
            case ForC() | WhileC() | Scope():
                kept.append(replace(statement, body=tuple(_without(statement.body, unused))))
            case IfC(then=then, otherwise=otherwise):
                inner = tuple(_without(then, unused)), tuple(_without(otherwise, unused))
                kept.append(replace(statement, then=inner[0], otherwise=inner[1]))
            case _:
                kept.append(statement)
    return kept
