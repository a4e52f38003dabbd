"""Rewrites kernel-model expressions from the leaves up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tilegen.model.expressions import (
    Braces,
    CallC,
    CExpr,
    Index,
    Member,
    Operation,
    Prefix,
    Reinterpret,
    StaticCast,
    Ternary,
)


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
