"""Intervals of integer expressions. Booleans count as 0 and 1; `None` as a bound means "unbounded"."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeGuard

from tilegen.ir.expressions import COMPARISONS, Binary, Call, Cast, Const, Expr, Select, Unary, Var
from tilegen.ir.linear import linear

Bound = int | None
Range = tuple[Bound, Bound]
Ranges = Mapping[str, Range]
UNBOUNDED: Range = (None, None)


def interval(expr: Expr, ranges: Ranges) -> Range:
    """(lowest, highest) value of an integer or boolean expression, both inclusive; `ranges` gives those of
    variables. The bounds are safe, and exact for affine expressions of independent variables."""
    structural = _structural(expr, ranges)
    if not isinstance(expr, Binary) or expr.op not in ("+", "-", "*"):
        return structural
    form = linear(expr)
    total: Range = (form.constant, form.constant)
    for atom, coefficient in form.terms.items():
        atom_range = _structural(atom, ranges)
        total = _add(total, _times(atom_range, (coefficient, coefficient)))
    return _intersect(structural, total)


def _structural(expr: Expr, ranges: Ranges) -> Range:
    match expr:
        case Const(value=value):
            if isinstance(value, float) and not math.isfinite(value):
                return UNBOUNDED
            return math.floor(value), math.ceil(value)
        case Var(name=name):
            return ranges.get(
                name, (0, None) if expr.role in ("extent", "block", "thread") else _of_dtype(expr)
            )
        case Unary(op="-", operand=operand):
            lo, hi = interval(operand, ranges)
            return _negated(hi), _negated(lo)
        case Unary(op="not", operand=operand):
            lo, hi = interval(operand, ranges)
            return (1 - hi if hi in (0, 1) else 0), (1 - lo if lo in (0, 1) else 1)
        case Binary():
            return _binary_range(expr, ranges)
        case Select(condition=condition, then=then, otherwise=otherwise):
            test = interval(condition, ranges)
            if test == (1, 1):
                return interval(then, ranges)
            if test == (0, 0):
                return interval(otherwise, ranges)
            return _union(interval(then, ranges), interval(otherwise, ranges))
        case Cast(operand=operand) if expr.dtype.is_integer and not operand.dtype.is_float:
            return _fitting(interval(operand, ranges), expr)
        case Call(function="abs", arguments=(argument,)) if not expr.dtype.is_float:
            return _magnitude(interval(argument, ranges))
    return _of_dtype(expr)


def _binary_range(expr: Binary, ranges: Ranges) -> Range:
    a, b = interval(expr.left, ranges), interval(expr.right, ranges)
    match expr.op:
        case "+":
            return _add(a, b)
        case "-":
            return _add(a, (_negated(b[1]), _negated(b[0])))
        case "*":
            return _times(a, b)
        case "//":
            return _divided(a, b)
        case "%":
            return _remainder(a, b)
        case "min":
            return _min(a[0], b[0]), _min_bound(a[1], b[1])
        case "max":
            return _max_bound(a[0], b[0]), _max(a[1], b[1])
        case "<<" if b[0] is not None and b[0] == b[1] and b[0] >= 0:
            return _times(a, (1 << b[0], 1 << b[0]))
        case ">>" if b[0] is not None and b[0] == b[1] and b[0] >= 0:
            return _divided(a, (1 << b[0], 1 << b[0]))
        case "&" if b[0] is not None and b[0] == b[1] and b[0] >= 0:
            return 0, b[0]
        case "&" if a[0] is not None and a[0] == a[1] and a[0] >= 0:
            return 0, a[0]
        case "and":
            return min(a[0] or 0, b[0] or 0), min(_truth(a[1]), _truth(b[1]))
        case "or":
            return max(a[0] or 0, b[0] or 0), max(_truth(a[1]), _truth(b[1]))
    if expr.op in COMPARISONS:
        return _comparison_range(expr, ranges)
    return _of_dtype(expr)


def _comparison_range(expr: Binary, ranges: Ranges) -> Range:
    """(1, 1) or (0, 0) where left - right decides the comparison, else (0, 1)."""
    if expr.left.dtype.is_float or expr.right.dtype.is_float:
        return 0, 1
    lo, hi = difference_range(expr.left, expr.right, ranges)
    below = hi is not None and hi < 0
    above = lo is not None and lo > 0
    not_above = hi is not None and hi <= 0
    not_below = lo is not None and lo >= 0
    equal = lo == hi == 0
    verdicts = {
        "<": (below, not_below),
        "<=": (not_above, above),
        ">": (above, not_above),
        ">=": (not_below, below),
        "==": (equal, below or above),
        "!=": (below or above, equal),
    }
    holds, fails = verdicts[expr.op]
    return (1, 1) if holds else (0, 0) if fails else (0, 1)


def difference_range(left: Expr, right: Expr, ranges: Ranges) -> Range:
    form = linear(left).plus(linear(right), -1)
    total: Range = (form.constant, form.constant)
    terms = dict(form.terms)
    for atom, coefficient in form.terms.items():
        if _is_remainder(atom, ranges) and terms.get(atom.right) == -coefficient:  # a % n - n, for an open n
            below = (_negated(interval(atom.right, ranges)[1]), -1)
            total = _add(total, _times(below, (coefficient, coefficient)))
            del terms[atom], terms[atom.right]
    for atom, coefficient in terms.items():
        total = _add(total, _times(_structural(atom, ranges), (coefficient, coefficient)))
    a, b = interval(left, ranges), interval(right, ranges)
    return _intersect(total, _add(a, (_negated(b[1]), _negated(b[0]))))


def _is_remainder(atom: Expr, ranges: Ranges) -> TypeGuard[Binary]:
    """Whether an atom is a remainder by what is not negative, and so positive where there is a remainder."""
    if not isinstance(atom, Binary) or atom.op != "%":
        return False
    lowest = interval(atom.right, ranges)[0]
    return lowest is not None and lowest >= 0


def _of_dtype(expr: Expr) -> Range:
    """What the dtype alone tells; 32-bit and wider signed integers count as unbounded."""
    dtype = expr.dtype
    if dtype.kind == "bool":
        return 0, 1
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1 if dtype.bits < 32 else None
    if dtype.kind == "int" and dtype.bits < 32:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return UNBOUNDED


def _fitting(inner: Range, expr: Expr) -> Range:
    """The operand's range where the cast keeps every value of it, else the dtype's."""
    outer = _of_dtype(expr)
    keeps_low = outer[0] is None or (inner[0] is not None and inner[0] >= outer[0])
    keeps_high = outer[1] is None or (inner[1] is not None and inner[1] <= outer[1])
    return inner if keeps_low and keeps_high else outer


def _truth(bound: Bound) -> int:
    return 1 if bound is None or bound else 0


def _negated(bound: Bound) -> Bound:
    return None if bound is None else -bound


def _min(a: Bound, b: Bound) -> Bound:
    return None if a is None or b is None else min(a, b)


def _max(a: Bound, b: Bound) -> Bound:
    return None if a is None or b is None else max(a, b)


def _min_bound(a: Bound, b: Bound) -> Bound:
    """The tighter of two upper bounds."""
    return b if a is None else a if b is None else min(a, b)


def _max_bound(a: Bound, b: Bound) -> Bound:
    """The tighter of two lower bounds."""
    return b if a is None else a if b is None else max(a, b)


def _intersect(a: Range, b: Range) -> Range:
    return _max_bound(a[0], b[0]), _min_bound(a[1], b[1])


def _union(a: Range, b: Range) -> Range:
    return _min(a[0], b[0]), _max(a[1], b[1])


def _add(a: Range, b: Range) -> Range:
    lo = None if a[0] is None or b[0] is None else a[0] + b[0]
    hi = None if a[1] is None or b[1] is None else a[1] + b[1]
    return lo, hi


def _times(a: Range, b: Range) -> Range:
    if a == (0, 0) or b == (0, 0):
        return 0, 0
    inf = math.inf
    corners = []
    for x in (-inf if a[0] is None else a[0], inf if a[1] is None else a[1]):
        for y in (-inf if b[0] is None else b[0], inf if b[1] is None else b[1]):
            corners.append(0 if x == 0 or y == 0 else x * y)
    lo, hi = min(corners), max(corners)
    return None if lo == -inf else int(lo), None if hi == inf else int(hi)


def _divided(a: Range, b: Range) -> Range:
    """Floor division by a divisor that is not negative, and so positive where there is a quotient; anything else is
    unbounded."""
    if b[0] is None or b[0] < 0 or b[1] == 0:
        return UNBOUNDED
    b = (max(b[0], 1), b[1])
    lo, hi = a
    if lo is not None:
        lo = lo // b[0] if lo < 0 else 0 if b[1] is None else lo // b[1]
    if hi is not None:
        hi = hi // b[0] if hi >= 0 else -1 if b[1] is None else hi // b[1]
    return lo, hi


def _remainder(a: Range, b: Range) -> Range:
    """The remainder of floor division by a positive divisor, as `_divided` takes it."""
    if b[0] is None or b[0] < 0 or b[1] == 0:
        return UNBOUNDED
    b = (max(b[0], 1), b[1])
    if a[0] is not None and a[1] is not None and b[0] == b[1] and a[0] // b[0] == a[1] // b[0]:
        return a[0] % b[0], a[1] % b[0]
    hi = None if b[1] is None else b[1] - 1
    if a[0] is not None and a[0] >= 0:
        hi = _min_bound(hi, a[1])
    return 0, hi


def _magnitude(a: Range) -> Range:
    lo, hi = a
    if lo is not None and lo >= 0:
        return a
    if hi is not None and hi <= 0:
        return -hi, _negated(lo)
    return 0, None if lo is None or hi is None else max(-lo, hi)


def is_always_true(expr: Expr, ranges: Ranges) -> bool:
    """Whether a condition is proved to hold for all values of the variables in their ranges."""
    lo, hi = interval(expr, ranges)
    return (lo is not None and lo > 0) or (hi is not None and hi < 0)


def is_always_false(expr: Expr, ranges: Ranges) -> bool:
    """Whether a condition is proved to fail for all values of the variables in their ranges."""
    return interval(expr, ranges) == (0, 0)
