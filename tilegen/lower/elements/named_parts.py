"""Positions that the program named: `p = bx * block + i` is written once, and p where an index or a condition has it.

Indices are lowered with their names' values in place, so that all of their parts are seen; the text says the names.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from tilegen.model.expressions import CExpr, Literal, Name, Operation
from tilegen.model.statements import AssignC, CStmt, Declare, IfC
from tilegen.model.transform import rewritten, rewritten_statements
from tilegen.model.walk import each_name, names


def with_names(body: Sequence[CStmt]) -> list[CStmt]:
    """The statements of a block, with the names that it declares in the place of their values behind them."""
    out = list(body)
    for position, statement in enumerate(body):
        if (value := _position(statement)) is not None and not _assigned(names(value), out[position + 1 :]):
            named = Name(out[position].name)  # type: ignore[union-attr]
            out[position + 1 :] = rewritten_statements(
                out[position + 1 :],
                lambda part, value=value, named=named: named if part == value else None,  # type: ignore[misc]
            )
    return out


def guarded(condition: CExpr, body: Sequence[CStmt]) -> list[CStmt]:
    """The statements under a condition; the positions that it speaks of too are named above it."""
    leading = list(takewhile(lambda statement: _position(statement) is not None, body))
    spoken: list[CStmt] = []
    for statement in leading:
        assert isinstance(statement, Declare)
        said = rewritten(
            condition,
            lambda part, one=statement: Name(one.name) if part == one.value else None,  # type: ignore[misc]
        )
        if said == condition or set(each_name(statement.value)) & {
            one.name for one in leading if one not in spoken and isinstance(one, Declare)
        }:
            continue
        condition = said
        spoken.append(statement)
    return [*spoken, IfC(condition, tuple(statement for statement in body if statement not in spoken))]


def _position(statement: CStmt) -> CExpr | None:
    """What a name stands for that is computed from other names alone; None for other statements."""
    if (
        not isinstance(statement, Declare)
        or not statement.const
        or not isinstance(statement.value, Operation)
    ):
        return None
    return statement.value if _arithmetic(statement.value) else None


def _arithmetic(value: CExpr) -> bool:
    match value:
        case Name() | Literal():
            return True
        case Operation(_, left, right):
            return _arithmetic(left) and _arithmetic(right)
    return False


def _assigned(parts: Sequence[str], body: Sequence[CStmt]) -> bool:
    """Whether statements assign to one of these names."""
    for statement in body:
        if (
            isinstance(statement, AssignC)
            and isinstance(statement.target, Name)
            and statement.target.name in parts
        ):
            return True
        for inner in ("then", "otherwise", "body"):
            if _assigned(parts, getattr(statement, inner, ())):
                return True
    return False
