"""Simplify floor divisions and modulos of expressions whose variables have known ranges."""

from collections.abc import Callable

import sympy

from layout_algebra.index_bounds import Ranges, bounds, is_nonnegative, is_within
from layout_algebra.index_expression import BitAnd, BitOr, BitXor, FloorDiv, FloorMod


def simplify(expression: sympy.Expr, ranges: Ranges) -> sympy.Expr:
    """An equal expression, for all values of the variables within `ranges`, with as few divisions as the
    rules find.

    `ranges` gives the smallest and the largest value of each variable; both may contain launch-time
    constants.
    """
    if expression.is_Atom:
        return expression
    parts = [simplify(part, ranges) for part in expression.args]
    match expression:
        case FloorDiv():
            return _quotient(parts[0], parts[1], ranges)
        case FloorMod():
            return _remainder(parts[0], parts[1], ranges)
        case BitXor() | BitAnd() | BitOr():
            return _bits(expression.func, parts[0], parts[1], ranges)
        case sympy.Add() | sympy.Mul():
            return _recombine(sympy.expand(expression.func(*parts)))
        case _:
            return expression.func(*parts)


def _split(expression: sympy.Expr, divisor: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """(q, r) with `expression == q * divisor + r`, every term of r smaller than the divisor where that can be
    seen.
    """
    quotients: list[sympy.Expr] = []
    rest: list[sympy.Expr] = []
    for term in sympy.Add.make_args(sympy.expand(expression)):
        coefficient, factor = term.as_coeff_Mul()
        if divisor.is_Integer:
            whole, left = divmod(int(coefficient), int(divisor))
            if left and coefficient < 0 and factor != 1:
                whole, left = 0, int(coefficient)
            quotients.append(whole * factor)
            rest.append(left * factor)
        else:
            quotient = term / divisor
            divides = sympy.fraction(quotient)[1] == 1
            (quotients if divides else rest).append(quotient if divides else term)
    return sympy.Add(*quotients), sympy.Add(*rest)


def _quotient(dividend: sympy.Expr, divisor: sympy.Expr, ranges: Ranges) -> sympy.Expr:
    if not is_nonnegative(divisor - 1):
        return FloorDiv(dividend, divisor)
    whole, rest = _split(dividend, divisor)
    return _recombine(sympy.expand(whole + _proper_quotient(rest, divisor, ranges)))


def _proper_quotient(rest: sympy.Expr, divisor: sympy.Expr, ranges: Ranges) -> sympy.Expr:
    """Quotient of what `_split` left."""
    constant = _constant_quotient(rest, divisor, ranges)
    if constant is not None:
        return constant
    common = _common_factor(rest, divisor, ranges)
    if common is not None:
        factor, multiple, _ = common
        return _quotient(multiple, divisor / factor, ranges)
    match rest:
        case FloorDiv(args=(inner, first)) if is_nonnegative(first - 1):
            return _quotient(inner, first * divisor, ranges)
        case FloorMod(args=(inner, modulus)) if _divides(divisor, modulus):
            return _remainder(_quotient(inner, divisor, ranges), modulus / divisor, ranges)
        case _:
            return FloorDiv(rest, divisor)


def _remainder(dividend: sympy.Expr, divisor: sympy.Expr, ranges: Ranges) -> sympy.Expr:
    if not is_nonnegative(divisor - 1):
        return FloorMod(dividend, divisor)
    _, rest = _split(dividend, divisor)
    constant = _constant_quotient(rest, divisor, ranges)
    if constant is not None:
        return sympy.expand(rest - constant * divisor)
    unwrapped = _without_inner_modulo(rest, divisor)
    if unwrapped != rest:
        return _remainder(unwrapped, divisor, ranges)
    common = _common_factor(rest, divisor, ranges)
    if common is not None:
        factor, multiple, below = common
        return _recombine(sympy.expand(factor * _remainder(multiple, divisor / factor, ranges) + below))
    return FloorMod(rest, divisor)


def _constant_quotient(rest: sympy.Expr, divisor: sympy.Expr, ranges: Ranges) -> sympy.Expr | None:
    """The quotient, if the ranges say that it is the same for all values."""
    if is_within(rest, divisor, ranges):
        return sympy.Integer(0)
    limits = bounds(rest, ranges)
    if limits is None or not (limits[0].is_Integer and limits[1].is_Integer and divisor.is_Integer):
        return None
    low, high = FloorDiv(limits[0], divisor), FloorDiv(limits[1], divisor)
    return low if low == high else None


def _common_factor(
    rest: sympy.Expr, divisor: sympy.Expr, ranges: Ranges
) -> tuple[sympy.Expr, sympy.Expr, sympy.Expr] | None:
    """(g, a, s) with `rest == g * a + s`, g a divisor of `divisor` and `0 <= s < g`; the largest g > 1, or
    None.
    """
    if not divisor.is_Integer:
        return None
    terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(rest)]
    factors = {int(sympy.gcd(coefficient, divisor)) for coefficient, _ in terms}
    for factor in sorted(factors - {1}, reverse=True):
        multiple = sympy.Add(*[c // factor * rest for c, rest in terms if c % factor == 0 or rest == 1])
        below = sympy.expand(rest - factor * multiple)
        if multiple != 0 and is_within(below, sympy.Integer(factor), ranges):
            return sympy.Integer(factor), multiple, below
    return None


def _without_inner_modulo(rest: sympy.Expr, divisor: sympy.Expr) -> sympy.Expr:
    """Under a modulo by n, `c * (x % m)` is `c * x` if n divides `c * m`."""
    terms = []
    for term in sympy.Add.make_args(rest):
        coefficient, factor = term.as_coeff_Mul()
        if isinstance(factor, FloorMod) and _divides(divisor, coefficient * factor.args[1]):
            term = coefficient * factor.args[0]
        terms.append(term)
    return sympy.expand(sympy.Add(*terms))


def _divides(divisor: sympy.Expr, value: sympy.Expr) -> bool:
    return bool(sympy.fraction(value / divisor)[1] == 1)


def _recombine(expression: sympy.Expr) -> sympy.Expr:
    """`n * (x // n) + x % n` is x, and `m * (x // m % k) + x % m` is `x % (m * k)`, with any common factor."""
    terms = list(sympy.Add.make_args(expression))
    for low in terms:
        coefficient, factor = _function_part(low, FloorMod)
        if factor is None:
            continue
        value, modulus = factor.args
        for high in terms:
            merged = _merge(high, coefficient, value, modulus)
            if merged is not None:
                remaining = [term for term in terms if term is not low and term is not high]
                return _recombine(sympy.expand(sympy.Add(*remaining, coefficient * merged)))
    return expression


def _merge(
    high: sympy.Expr, coefficient: sympy.Expr, value: sympy.Expr, modulus: sympy.Expr
) -> sympy.Expr | None:
    """What `high / coefficient + value % modulus` is, if `high` holds the digits above."""
    scale, factor = _function_part(high, FloorDiv)
    if factor is not None and scale == coefficient * modulus and factor.args == (value, modulus):
        return value
    scale, factor = _function_part(high, FloorMod)
    if factor is not None and scale == coefficient * modulus and factor.args[0] == FloorDiv(value, modulus):
        return FloorMod(value, modulus * factor.args[1])
    return None


def _function_part(term: sympy.Expr, kind: type) -> tuple[sympy.Expr, sympy.Expr | None]:
    """(coefficient, f) of a term `coefficient * f` with one function f of the given kind."""
    factors = sympy.Mul.make_args(term)
    found = [factor for factor in factors if isinstance(factor, kind)]
    if len(found) != 1:
        return term, None
    return sympy.Mul(*[factor for factor in factors if factor is not found[0]]), found[0]


def _bits(
    operation: Callable[[sympy.Expr, sympy.Expr], sympy.Expr],
    first: sympy.Expr,
    second: sympy.Expr,
    ranges: Ranges,
) -> sympy.Expr:
    """Neutral elements, equal operands, and masks of the lowest bits."""
    if second.is_Integer and not first.is_Integer:
        first, second = second, first
    if operation is BitAnd:
        if first == second:
            return first
        if first.is_Integer and first >= 0 and int(first) & (int(first) + 1) == 0:
            return _remainder(second, first + 1, ranges)
    elif first == second:
        return sympy.Integer(0) if operation is BitXor else first
    elif first == 0:
        return second
    return operation(first, second)
