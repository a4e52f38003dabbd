"""Integer reasoning on index expressions: linear forms, intervals, divisibility, range-aware simplification.

Arithmetic is that of the integers: index expressions are taken not to overflow. Booleans count as 0 and 1.
`None` as a bound means "unbounded".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.ir import build
from tilegen.ir.expressions import (
    COMPARISONS,
    Binary,
    Bitcast,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
)

Bound = int | None
Range = tuple[Bound, Bound]
Ranges = Mapping[str, Range]
UNBOUNDED: Range = (None, None)


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
        case Cast(operand=operand, dtype=dtype) if _widens(operand, dtype.bits):
            return linear(operand)
    return Linear({expr: 1}, 0)


def _widens(operand: Expr, bits: int) -> bool:
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


# --------------------------------------------------------------------------------------------- traversal


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


# --------------------------------------------------------------------------------------------- intervals


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
    lo, hi = _difference_range(expr.left, expr.right, ranges)
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


def _difference_range(left: Expr, right: Expr, ranges: Ranges) -> Range:
    form = linear(left).plus(linear(right), -1)
    total: Range = (form.constant, form.constant)
    for atom, coefficient in form.terms.items():
        total = _add(total, _times(_structural(atom, ranges), (coefficient, coefficient)))
    a, b = interval(left, ranges), interval(right, ranges)
    return _intersect(total, _add(a, (_negated(b[1]), _negated(b[0]))))


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
    """Floor division by a positive divisor; anything else is unbounded."""
    if b[0] is None or b[0] <= 0:
        return UNBOUNDED
    lo, hi = a
    if lo is not None:
        lo = lo // b[0] if lo < 0 else 0 if b[1] is None else lo // b[1]
    if hi is not None:
        hi = hi // b[0] if hi >= 0 else -1 if b[1] is None else hi // b[1]
    return lo, hi


def _remainder(a: Range, b: Range) -> Range:
    """The remainder of floor division by a positive divisor."""
    if b[0] is None or b[0] <= 0:
        return UNBOUNDED
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


# --------------------------------------------------------------------------------------------- divisibility


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
        case Cast(operand=operand) if _widens(operand, expr.dtype.bits):
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
    return 1


def _atom_divisor(atom: Expr, whole: Expr, facts: Mapping[str, int]) -> int:
    return 1 if atom is whole else divisor_of(atom, facts)


def divisible_by(expr: Expr, n: int, facts: Mapping[str, int]) -> bool:
    """Whether every value of the expression is proved to be a multiple of n; `facts` maps variables to divisors."""
    return divisor_of(expr, facts) % n == 0


# --------------------------------------------------------------------------------------------- simplification


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
            lo, hi = _difference_range(left, right, ranges)
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


def from_linear(form: Linear, like: Expr) -> Expr:
    """The expression of a linear form, in the dtype of `like`."""
    result: Expr = build.const(0, like.dtype)
    for atom, coefficient in form.terms.items():
        term = build.binary("*", build.cast(atom, like.dtype), build.const(abs(coefficient), like.dtype))
        result = build.binary("+" if coefficient > 0 else "-", result, term, like.location)
    if form.constant < 0:
        return build.binary("-", result, build.const(-form.constant, like.dtype), like.location)
    return build.binary("+", result, build.const(form.constant, like.dtype), like.location)


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
