"""Positions that the program named: `p = bx * block + i` is written once, and p where an index or a condition has it.

Indices are lowered with their names' values in place, so that all of their parts are seen; the text says the names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from tilegen.model.expressions import CExpr, Literal, Name, Operation
from tilegen.model.statements import AssignC, CStmt, Declare, IfC
from tilegen.model.transform import rewritten, rewritten_statements
from tilegen.model.walk import each_name, names


@dataclass(frozen=True, slots=True)
class Position:
    """A name, what it stands for, and the statement that says so."""

    name: str
    value: Operation
    statement: Declare


def with_names(body: Sequence[CStmt]) -> list[CStmt]:
    """The statements of a block, with the names that it declares in the place of their values behind them."""
    out = list(body)
    for position in range(len(out)):
        if (named := position_of(out[position])) is not None:
            behind = out[position + 1 :]
            if not _assigned(names(named.value), behind):
                out[position + 1 :] = rewritten_statements(behind, _said_by(named))
    return out


def guarded(condition: CExpr, body: Sequence[CStmt]) -> list[CStmt]:
    """The statements under a condition; the positions that it speaks of too are named above it."""
    leading = [named for named in takewhile(bool, map(position_of, body)) if named is not None]
    spoken: list[Position] = []
    for named in leading:
        said = rewritten(condition, _said_by(named))
        inside = {one.name for one in leading if one not in spoken}
        if said != condition and not inside & set(each_name(named.value)):
            condition = said
            spoken.append(named)
    above = [named.statement for named in spoken]
    return [*above, IfC(condition, tuple(statement for statement in body if statement not in above))]


def _said_by(named: Position) -> Callable[[CExpr], CExpr | None]:
    """Puts the name in the place of its value."""
    return lambda part: Name(named.name) if part == named.value else None


def position_of(statement: CStmt) -> Position | None:
    """The name that a statement gives to what is computed from other names alone; None for other statements."""
    if not isinstance(statement, Declare) or not statement.const:
        return None
    value = statement.value
    if not isinstance(value, Operation) or not _arithmetic(value):
        return None
    return Position(statement.name, value, statement)


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
