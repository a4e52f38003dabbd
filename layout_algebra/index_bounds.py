"""Bounds of integer expressions whose variables have known ranges, and proofs from them."""

from collections.abc import Mapping
from typing import TypeAlias

import sympy

from layout_algebra.index_expression import BitAnd, BitOr, BitXor, FloorDiv, FloorMod

# Smallest and largest value of each variable. Other symbols are launch-time constants, at least 1 where
# declared positive.
Ranges: TypeAlias = Mapping[sympy.Symbol, tuple[sympy.Expr, sympy.Expr]]
Bounds: TypeAlias = tuple[sympy.Expr, sympy.Expr]


def bounds(expression: sympy.Expr, ranges: Ranges) -> Bounds | None:
    """Smallest and largest value, perhaps not attained and perhaps in terms of launch-time constants; None if
    unknown.
    """
    if expression.is_Integer:
        return expression, expression
    if expression.is_Symbol:
        range_of_symbol: Bounds = ranges.get(expression, (expression, expression))
        return range_of_symbol
    parts = [bounds(part, ranges) for part in expression.args]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    match expression:
        case sympy.Add():
            lower = sympy.Add(*[part[0] for part in known])
            return sympy.expand(lower), sympy.expand(sympy.Add(*[part[1] for part in known]))
        case sympy.Mul():
            return _bounds_of_product(expression, known)
        case FloorDiv():
            return _bounds_of_quotient(known[0], known[1])
        case FloorMod():
            return _bounds_of_remainder(known[0], known[1])
        case BitXor() | BitOr() | BitAnd():
            return _bounds_of_bits(expression, known)
        case _:
            return None


def _bounds_of_product(expression: sympy.Mul, known: list[Bounds]) -> Bounds | None:
    coefficient = sympy.Integer(1)
    lower = upper = sympy.Integer(1)
    for factor, (low, high) in zip(expression.args, known, strict=True):
        if factor.is_Integer:
            coefficient *= factor
        elif is_nonnegative(low):
            lower, upper = lower * low, upper * high
        else:
            return None
    if coefficient < 0:
        lower, upper = upper, lower
    return sympy.expand(coefficient * lower), sympy.expand(coefficient * upper)


def _bounds_of_quotient(dividend: Bounds, divisor: Bounds) -> Bounds | None:
    if divisor[0] != divisor[1] or not is_nonnegative(divisor[0] - 1):
        return None
    return FloorDiv(dividend[0], divisor[0]), FloorDiv(dividend[1], divisor[0])


def _bounds_of_remainder(dividend: Bounds, divisor: Bounds) -> Bounds | None:
    if not is_nonnegative(divisor[0] - 1):
        return None
    upper = divisor[1] - 1
    if (
        is_nonnegative(dividend[0])
        and dividend[1].is_Integer
        and (not upper.is_Integer or dividend[1] < upper)
    ):
        upper = dividend[1]
    return sympy.Integer(0), upper


def _bounds_of_bits(expression: sympy.Expr, known: list[Bounds]) -> Bounds | None:
    if not all(low.is_Integer and high.is_Integer and low >= 0 for low, high in known):
        return None
    if isinstance(expression, BitAnd):
        return sympy.Integer(0), min(known[0][1], known[1][1])
    bits = max(int(high).bit_length() for _, high in known)
    return sympy.Integer(0), sympy.Integer((1 << bits) - 1)


def is_nonnegative(expression: sympy.Expr) -> bool:
    """Proves `expression >= 0`; False means only that there is no proof.

    Every symbol that is at least 1 (or 0) is written as that plus a new one; if the expanded polynomial has
    no negative coefficient, it is not negative anywhere.
    """
    expression = sympy.expand(expression)
    if expression.is_Integer:
        return bool(expression >= 0)
    shifted = {}
    for symbol in expression.free_symbols:
        if symbol.is_positive and symbol.is_integer:
            shifted[symbol] = symbol + 1
        elif not symbol.is_nonnegative:
            return False
    polynomial = sympy.expand(expression.xreplace(shifted))
    return all(
        coefficient >= 0 and all(_is_natural_power(factor) for factor in sympy.Mul.make_args(rest))
        for coefficient, rest in (term.as_coeff_Mul() for term in sympy.Add.make_args(polynomial))
    )


def _is_natural_power(factor: sympy.Expr) -> bool:
    base, exponent = factor.as_base_exp()
    return bool(factor == 1 or (base.is_Symbol and exponent.is_Integer and exponent > 0))


def is_within(expression: sympy.Expr, extent: sympy.Expr, ranges: Ranges) -> bool:
    """Proves `0 <= expression < extent`; False means only that there is no proof."""
    limits = bounds(expression, ranges)
    return limits is not None and is_nonnegative(limits[0]) and is_nonnegative(extent - 1 - limits[1])
