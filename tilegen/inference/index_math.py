"""Facts about index expressions: their values over whole grids, the coefficients of variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy
from numpy.typing import NDArray

from tilegen.ir.expressions import Binary, Bitcast, Call, Cast, Const, Expr, Load, Select, Unary, Var

Integers = NDArray[Any]


class NotStatic(Exception):
    """The expression depends on more than the variables that are given."""


_ARRAY_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": numpy.add,
    "-": numpy.subtract,
    "*": numpy.multiply,
    "//": numpy.floor_divide,
    "%": numpy.mod,
    "<<": numpy.left_shift,
    ">>": numpy.right_shift,
    "&": numpy.bitwise_and,
    "|": numpy.bitwise_or,
    "^": numpy.bitwise_xor,
    "<": numpy.less,
    "<=": numpy.less_equal,
    ">": numpy.greater,
    ">=": numpy.greater_equal,
    "==": numpy.equal,
    "!=": numpy.not_equal,
    "and": numpy.logical_and,
    "or": numpy.logical_or,
    "min": numpy.minimum,
    "max": numpy.maximum,
}


def evaluate(expr: Expr, values: Mapping[str, Any]) -> Any:
    """The integer value of an index expression for arrays (or numbers) of its variables.

    Raises:
        NotStatic: when it needs a variable that is not given, loads memory, or is not an integer.
    """
    match expr:
        case Const(value):
            if isinstance(value, float):
                raise NotStatic
            return int(value)
        case Var(name):
            if name not in values:
                raise NotStatic
            return values[name]
        case Unary("-", operand):
            return -evaluate(operand, values)
        case Unary("not", operand):
            return numpy.logical_not(evaluate(operand, values))
        case Unary("~", operand):
            return numpy.invert(evaluate(operand, values))
        case Binary(op, left, right) if op in _ARRAY_OPERATIONS:
            return _ARRAY_OPERATIONS[op](evaluate(left, values), evaluate(right, values))
        case Select(condition, then, otherwise):
            return numpy.where(
                evaluate(condition, values), evaluate(then, values), evaluate(otherwise, values)
            )
        case Cast(operand, dtype) if dtype.is_integer:
            return evaluate(operand, values)
        case _:
            raise NotStatic


def mentions(expr: Expr, name: str) -> bool:
    """Whether a variable occurs in an expression, indices of loads included."""
    match expr:
        case Var(other):
            return other == name
        case Const():
            return False
        case Unary() | Cast() | Bitcast():
            return mentions(expr.operand, name)
        case Binary():
            return mentions(expr.left, name) or mentions(expr.right, name)
        case Select():
            return any(mentions(part, name) for part in (expr.condition, expr.then, expr.otherwise))
        case Call():
            return any(mentions(argument, name) for argument in expr.arguments)
        case Load():
            return any(mentions(index, name) for index in expr.indices)


def coefficient(expr: Expr, name: str) -> int | None:
    """The integer factor of a variable in an expression that is linear in it, None in any other."""
    match expr:
        case Var(other):
            return int(other == name)
        case Cast(operand, dtype) if dtype.is_integer:
            return coefficient(operand, name)
        case Unary("-", operand):
            inner = coefficient(operand, name)
            return None if inner is None else -inner
        case Binary("+" | "-" as op, left, right):
            a, b = coefficient(left, name), coefficient(right, name)
            if a is None or b is None:
                return None
            return a + b if op == "+" else a - b
        case Binary("*", left, right):
            for factor, rest in ((left, right), (right, left)):
                if isinstance(factor, Const) and isinstance(factor.value, int):
                    inner = coefficient(rest, name)
                    return None if inner is None else factor.value * inner
            return None if mentions(expr, name) else 0
        case _:
            return None if mentions(expr, name) else 0
