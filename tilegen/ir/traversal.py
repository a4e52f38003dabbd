"""Sub-expressions: finding and replacing them."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.ir import build
from tilegen.ir.expressions import Binary, Bitcast, Call, Cast, Const, Expr, Load, Select, Unary, Var


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions."""
    match expr:
        case Const() | Var():
            return ()
        case Unary() | Cast() | Bitcast():
            return (expr.operand,)
        case Binary():
            return (expr.left, expr.right)
        case Select():
            return (expr.condition, expr.then, expr.otherwise)
        case Call():
            return expr.arguments
        case Load():
            return expr.indices


def rebuild(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """The expression with other direct sub-expressions, folded again."""
    match expr:
        case Const() | Var():
            return expr
        case Unary(op="-"):
            return build.negate(parts[0], expr.location)
        case Unary(op="not"):
            return build.logical_not(parts[0], expr.location)
        case Unary():
            return build.invert(parts[0], expr.location)
        case Cast():
            return build.cast(parts[0], expr.dtype, expr.location)
        case Bitcast():
            return build.bitcast(parts[0], expr.dtype, expr.location)
        case Binary():
            return build.binary(expr.op, parts[0], parts[1], expr.location)
        case Select():
            return build.select(parts[0], parts[1], parts[2], expr.location)
        case Call():
            return Call(expr.function, parts, expr.dtype, expr.location)
        case Load():
            return Load(expr.buffer, parts, expr.location)


def substitute(expr: Expr, mapping: Mapping[str, Expr]) -> Expr:
    """The expression with variables (by name) replaced."""
    if isinstance(expr, Var):
        return mapping.get(expr.name, expr)
    parts = children(expr)
    replaced = tuple(substitute(part, mapping) for part in parts)
    if all(new is old for new, old in zip(replaced, parts, strict=True)):
        return expr
    return rebuild(expr, replaced)


def free_vars(expr: Expr) -> tuple[str, ...]:
    """The names of the variables in the expression, in order of first appearance."""
    names: dict[str, None] = {}
    stack = [expr]
    while stack:
        top = stack.pop()
        if isinstance(top, Var):
            names[top.name] = None
        stack.extend(reversed(children(top)))
    return tuple(names)
