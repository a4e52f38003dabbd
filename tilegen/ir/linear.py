"""Linear forms of integer expressions."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.ir import build
from tilegen.ir.expressions import Binary, Cast, Const, Expr, Unary, Var


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + sum of coefficient · variable; no coefficient is 0, the order is that of first appearance."""

    coefficients: dict[str, int]
    constant: int


@dataclass(frozen=True, slots=True)
class Linear:
    """constant + sum of coefficient · atom, an atom being an expression that is not linear itself."""

    terms: dict[Expr, int]
    constant: int

    def plus(self, other: Linear, factor: int) -> Linear:
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.pop(atom, 0) + factor * coefficient
            if total:
                terms[atom] = total
        return Linear(terms, self.constant + factor * other.constant)

    def times(self, factor: int) -> Linear:
        if factor == 0:
            return Linear({}, 0)
        return Linear({atom: c * factor for atom, c in self.terms.items()}, self.constant * factor)


def linear(expr: Expr) -> Linear:
    """The linear form of an integer expression; what is not linear becomes an atom."""
    match expr:
        case Const(value=value) if not expr.dtype.is_float:
            return Linear({}, int(value))
        case Binary(op="+", left=left, right=right):
            return linear(left).plus(linear(right), 1)
        case Binary(op="-", left=left, right=right):
            return linear(left).plus(linear(right), -1)
        case Unary(op="-", operand=operand):
            return linear(operand).times(-1)
        case Binary(op="*", left=left, right=right):
            a, b = linear(left), linear(right)
            if not a.terms:
                return b.times(a.constant)
            if not b.terms:
                return a.times(b.constant)
        case Binary(op="<<", left=left, right=Const(value=bits)):
            return linear(left).times(1 << int(bits))
        case Cast(operand=operand, dtype=dtype) if widens(operand, dtype.bits):
            return linear(operand)
    return Linear({expr: 1}, 0)


def widens(operand: Expr, bits: int) -> bool:
    return operand.dtype.is_integer and operand.dtype.bits <= bits


def affine(expr: Expr) -> Affine | None:
    """The affine form of an integer expression over its variables, or None when it has none."""
    form = linear(expr)
    coefficients: dict[str, int] = {}
    for atom, coefficient in form.terms.items():
        if not isinstance(atom, Var):
            return None
        coefficients[atom.name] = coefficient
    return Affine(coefficients, form.constant)


def difference(left: Expr, right: Expr) -> int | None:
    """left - right where it is the same integer for every value of the variables, else None."""
    form = linear(left).plus(linear(right), -1)
    return None if form.terms else form.constant


def from_linear(form: Linear, like: Expr) -> Expr:
    """The expression of a linear form, in the dtype of `like`."""
    result: Expr = build.const(0, like.dtype)
    for atom, coefficient in form.terms.items():
        term = build.binary("*", build.cast(atom, like.dtype), build.const(abs(coefficient), like.dtype))
        result = build.binary("+" if coefficient > 0 else "-", result, term, like.location)
    if form.constant < 0:
        return build.binary("-", result, build.const(-form.constant, like.dtype), like.location)
    return build.binary("+", result, build.const(form.constant, like.dtype), like.location)
