"""Calls what a value at the kernel's top already has a name for by that name, instead of computing it again."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.model.expressions import CExpr, Name, Operation
from tilegen.model.statements import CStmt, Declare
from tilegen.model.transform import rewritten_statements


def with_known_values(prologue: Sequence[CStmt], body: Sequence[CStmt]) -> list[CStmt]:
    """The prologue and the body behind it, in which what a constant of the prologue is computed as stands once. What it
    is computed from is known at the kernel's top, and means the same everywhere below. Constants of other types than
    int may be of another type than what they are computed as."""
    known: dict[CExpr, CExpr] = {}
    named: list[CStmt] = []
    for statement in prologue:
        (changed,) = rewritten_statements([statement], known.get)
        named.append(changed)
        match changed:
            case Declare("int", name, Operation() as value, const=True, structured=()):
                known.setdefault(value, Name(name))
            case _:
                pass
    return [*named, *(rewritten_statements(body, known.get) if known else body)]
