"""What stands behind T.sum_blocks runs in one block of several: a branch of the tile IR."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.ir.nodes import If, LeaveParts, Stmt


def under_last(statements: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """A kernel's body with everything behind LeaveParts under a branch on its `last`."""
    for position, statement in enumerate(statements):
        if isinstance(statement, LeaveParts):
            before, behind = statements[: position + 1], tuple(statements[position + 1 :])
            return (*before, If(statement.last, behind, location=statement.location))
    return tuple(statements)
