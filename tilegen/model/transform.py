"""Rewrites expressions, statements and blocks of the kernel model from the leaves up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast, get_args

from tilegen.model.expressions import (
    Braces,
    CallC,
    CExpr,
    Index,
    Lambda,
    Member,
    Operation,
    Prefix,
    Reinterpret,
    StaticCast,
    Ternary,
)
from tilegen.model.statements import CStmt, Declare, ForC, IfC, Scope, WhileC
from tilegen.model.walk import fields_of

_EXPRESSIONS, _STATEMENTS = get_args(CExpr), get_args(CStmt)


def rewritten(expression: CExpr, visit: Callable[[CExpr], CExpr | None]) -> CExpr:
    """The expression with every part replaced by what `visit` gives for it, its operands being rewritten already;
    None keeps a part. The function of a call is no part; lambdas are kept as they are."""

    def inner(node: CExpr) -> CExpr:
        return rewritten(node, visit)

    match expression:
        case Index(base, index):
            changed: CExpr = Index(inner(base), inner(index))
        case Member(base, name):
            changed = Member(inner(base), name)
        case CallC(function, arguments, template):
            changed = CallC(function, tuple(map(inner, arguments)), tuple(map(inner, template)))
        case Operation(op, left, right):
            changed = Operation(op, inner(left), inner(right))
        case Prefix(op, operand):
            changed = Prefix(op, inner(operand))
        case Ternary(condition, then, otherwise):
            changed = Ternary(inner(condition), inner(then), inner(otherwise))
        case StaticCast(_, operand) | Reinterpret(_, operand):
            changed = replace(expression, operand=inner(operand))
        case Braces(items):
            changed = Braces(tuple(map(inner, items)))
        case _:
            changed = expression
    replacement = visit(changed)
    return changed if replacement is None else replacement


def rewritten_statements(body: Sequence[CStmt], visit: Callable[[CExpr], CExpr | None]) -> list[CStmt]:
    """The statements with every part of their expressions replaced by what `visit` gives for it, those in lambdas,
    templates and comments too."""

    def part(value: Any) -> Any:
        match value:
            case Lambda(body=inner):
                return replace(value, body=part(inner))
            case tuple():
                return tuple(map(part, value))
            case value if isinstance(value, _EXPRESSIONS):
                return rewritten(value, visit)
            case value if isinstance(value, _STATEMENTS):
                changed = {name: part(getattr(value, name)) for name in fields_of(type(value))}
                return replace(value, **changed)
            case _:
                return value

    return [part(statement) for statement in body]


Block = tuple[CStmt, ...]


def rewritten_blocks(body: Sequence[CStmt], visit: Callable[[Block], Sequence[CStmt]]) -> list[CStmt]:
    """The statements with every block replaced by what `visit` makes of it, the blocks inside it being rewritten
    already; bodies of lambdas are blocks too."""

    def inner(block: Sequence[CStmt]) -> Block:
        return tuple(rewritten_blocks(block, visit))

    changed: list[CStmt] = []
    for statement in body:
        match statement:
            case ForC() | WhileC() | Scope():
                changed.append(replace(statement, body=inner(statement.body)))
            case IfC(then=then, otherwise=otherwise):
                changed.append(replace(statement, then=inner(then), otherwise=inner(otherwise)))
            case Declare(value=Lambda() as function):
                code = cast(Block, function.body)
                changed.append(replace(statement, value=replace(function, body=inner(code))))
            case _:
                changed.append(statement)
    return list(visit(tuple(changed)))
