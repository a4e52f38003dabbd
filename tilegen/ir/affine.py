"""Integer reasoning on index expressions: linear forms, intervals, divisibility, range-aware simplification.

Arithmetic is that of the integers: index expressions are taken not to overflow. The parts live in `linear`,
`interval` and `traversal`; this module adds divisibility and simplification and is the door to all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilegen.ir import build
from tilegen.ir.expressions import Binary, Cast, Const, Expr, Select, Unary, Var
from tilegen.ir.interval import (
    UNBOUNDED,
    Bound,
    Range,
    Ranges,
    difference_range,
    interval,
    is_always_false,
    is_always_true,
)
from tilegen.ir.linear import Affine, Linear, affine, difference, from_linear, linear, widens
from tilegen.ir.traversal import children, free_vars, rebuild, substitute

__all__ = [
    "UNBOUNDED", "Affine", "Bound", "Linear", "Range", "Ranges", "affine", "children", "difference", "divisible_by",
    "divisor_of", "free_vars", "from_linear", "interval", "is_always_false", "is_always_true", "linear", "rebuild",
    "simplify", "substitute",
]  # fmt: skip


def divisor_of(expr: Expr, facts: Mapping[str, int]) -> int:
    """A positive integer that divides every value of the expression (0 for the constant 0); `facts` gives known
    divisors of variables."""
    match expr:
        case Const(value=value):
            return abs(int(value)) if not expr.dtype.is_float else 1
        case Var(name=name):
            return facts.get(name, 1)
        case Unary(op="-", operand=operand):
            return divisor_of(operand, facts)
        case Cast(operand=operand) if widens(operand, expr.dtype.bits):
            return divisor_of(operand, facts)
        case Select(then=then, otherwise=otherwise):
            return math.gcd(divisor_of(then, facts), divisor_of(otherwise, facts))
        case Binary(op="+" | "-"):
            form = linear(expr)
            return math.gcd(
                form.constant, *(c * _atom_divisor(a, expr, facts) for a, c in form.terms.items())
            )
        case Binary(op="min" | "max" | "%", left=left, right=right):
            return math.gcd(divisor_of(left, facts), divisor_of(right, facts))
        case Binary(op="*", left=left, right=right):
            return divisor_of(left, facts) * divisor_of(right, facts)
        case Binary(op="<<", left=left, right=Const(value=bits)):
            return divisor_of(left, facts) << int(bits)
        case Binary(op="//", left=left, right=Const(value=value)) if (
            value and divisor_of(left, facts) % value == 0
        ):
            return divisor_of(left, facts) // abs(int(value))
        case Binary(
            op="//", left=Binary(op="+", left=left, right=Const(value=rest)), right=Const(value=value)
        ) if rest == value - 1 and divisor_of(left, facts) % value == 0:  # rounded up, and whole
            return divisor_of(left, facts) // int(value)
    return 1


def _atom_divisor(atom: Expr, whole: Expr, facts: Mapping[str, int]) -> int:
    return 1 if atom is whole else divisor_of(atom, facts)


def divisible_by(expr: Expr, n: int, facts: Mapping[str, int]) -> bool:
    """Whether every value of the expression is proved to be a multiple of n; `facts` maps variables to divisors."""
    return divisor_of(expr, facts) % n == 0


def simplify(expr: Expr, ranges: Ranges) -> Expr:
    """An equal, simpler expression: conditions and min/max that the ranges decide are folded, and so are
    // and % by a constant of sums whose parts are multiples of it or stay below it."""
    parts = children(expr)
    simpler = tuple(simplify(part, ranges) for part in parts)
    if any(new is not old for new, old in zip(simpler, parts, strict=True)):
        expr = rebuild(expr, simpler)
    if expr.dtype.kind == "bool" and not isinstance(expr, Const):
        if is_always_true(expr, ranges):
            return build.const(True, None, expr.location)
        if is_always_false(expr, ranges):
            return build.const(False, None, expr.location)
    match expr:
        case Binary(op="//" | "%", left=left, right=Const(value=value)) if (
            not expr.dtype.is_float and value > 0
        ):
            return _simplify_division(expr, left, int(value), ranges)
        case Binary(op="min" | "max", left=left, right=right) if not expr.dtype.is_float:
            lo, hi = difference_range(left, right, ranges)
            if lo is not None and lo >= 0:
                return left if expr.op == "max" else right
            if hi is not None and hi <= 0:
                return right if expr.op == "max" else left
        case Select(condition=condition, then=then, otherwise=otherwise):
            if is_always_true(condition, ranges):
                return then
            if is_always_false(condition, ranges):
                return otherwise
        case Binary(op="+" | "-") if expr.dtype.is_integer:
            form = linear(expr)
            if len(form.terms) < len(_leaves(expr)):
                return from_linear(form, expr)
    return expr


def _leaves(expr: Expr) -> list[Expr]:
    """The operands of a tree of + and -, literals left out."""
    if isinstance(expr, Binary) and expr.op in ("+", "-"):
        return _leaves(expr.left) + _leaves(expr.right)
    return [] if isinstance(expr, Const) else [expr]


def _simplify_division(expr: Binary, left: Expr, divisor: int, ranges: Ranges) -> Expr:
    """(multiple + rest) // divisor = multiple // divisor where 0 <= rest < divisor; likewise the remainder."""
    form = linear(left)
    quotient = Linear(
        {a: c // divisor for a, c in form.terms.items() if c % divisor == 0}, form.constant // divisor
    )
    rest = Linear({a: c for a, c in form.terms.items() if c % divisor}, form.constant % divisor)
    remainder = from_linear(rest, left)
    lo, hi = interval(remainder, ranges)
    if lo is not None and hi is not None and lo // divisor == hi // divisor:
        whole = lo // divisor
        if expr.op == "//":
            return from_linear(Linear(quotient.terms, quotient.constant + whole), expr)
        return from_linear(Linear(rest.terms, rest.constant - whole * divisor), expr)
    if not quotient.terms and not quotient.constant:
        return expr
    if expr.op == "%":
        return build.binary("%", remainder, build.const(divisor, expr.dtype), expr.location)
    folded = build.binary("//", remainder, build.const(divisor, expr.dtype), expr.location)
    return build.binary("+", from_linear(quotient, expr), folded, expr.location)
