"""Integer reasoning against brute force over all values of the variables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilegen.ir import build
from tilegen.ir.affine import (
    affine,
    difference,
    divisible_by,
    divisor_of,
    free_vars,
    interval,
    is_always_false,
    is_always_true,
    simplify,
    substitute,
)
from tilegen.ir.expressions import Binary, Call, Cast, Const, Expr, Select, Unary, Var
from tilegen.ir.printer import expression_text
from tilegen.ir.types import float32, int8, int32, int64, uint8

NAMES = ("a", "b", "c")
VARS = {name: Var(name, int32, "loop") for name in NAMES}
a, b, c = (VARS[name] for name in NAMES)


def value_of(expr: Expr, values: dict[str, int]) -> int:
    """The expression's value with Python's integers."""
    match expr:
        case Const(value=value):
            return int(value)
        case Var(name=name):
            return values[name]
        case Unary(op="-", operand=operand):
            return -value_of(operand, values)
        case Unary(op="not", operand=operand):
            return int(not value_of(operand, values))
        case Cast(operand=operand, dtype=dtype):
            inner = value_of(operand, values) % (1 << dtype.bits)
            return inner - (1 << dtype.bits) if dtype.kind == "int" and inner >> (dtype.bits - 1) else inner
        case Select(condition=condition, then=then, otherwise=otherwise):
            return value_of(then if value_of(condition, values) else otherwise, values)
        case Call(function="abs", arguments=(argument,)):
            return abs(value_of(argument, values))
        case Binary(op=op, left=left, right=right):
            x, y = value_of(left, values), value_of(right, values)
            return int(_OPERATORS[op](x, y))
    raise AssertionError(expr)


_OPERATORS = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "//": lambda x, y: x // y,
    "%": lambda x, y: x % y, "<<": lambda x, y: x << y, ">>": lambda x, y: x >> y, "&": lambda x, y: x & y,
    "|": lambda x, y: x | y, "^": lambda x, y: x ^ y, "<": lambda x, y: x < y, "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y, ">=": lambda x, y: x >= y, "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
    "min": min, "max": max, "and": lambda x, y: bool(x) and bool(y), "or": lambda x, y: bool(x) or bool(y),
}  # fmt: skip


def assignments(ranges: dict[str, tuple[int, int]]) -> Iterator[dict[str, int]]:
    for values in itertools.product(*(range(lo, hi + 1) for lo, hi in ranges.values())):
        yield dict(zip(ranges, values, strict=True))


constants = st.integers(-9, 9).map(build.const)
positives = st.sampled_from([1, 2, 3, 4, 8, 16]).map(build.const)
ranges_of_all = st.fixed_dictionaries(
    {
        name: st.tuples(st.integers(-3, 3), st.integers(0, 4)).map(lambda t: (t[0], t[0] + t[1]))
        for name in NAMES
    }
)


def _compound(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    arithmetic = st.builds(
        build.binary, st.sampled_from(["+", "-", "*", "min", "max", "&", "|", "^"]), inner, inner
    )
    division = st.builds(build.binary, st.sampled_from(["//", "%"]), inner, positives)
    shift = st.builds(build.binary, st.sampled_from(["<<", ">>"]), inner, st.integers(0, 3).map(build.const))
    select = st.builds(build.select, _condition(inner), inner, inner)
    others = st.one_of(
        inner.map(build.negate),
        inner.map(lambda e: build.call("abs", e)),
        inner.map(lambda e: build.cast(build.cast(e, int8), int32)),
        inner.map(lambda e: build.cast(build.cast(e, uint8), int32)),
        inner.map(lambda e: build.cast(build.cast(e, int64), int32)),
    )
    return st.one_of(arithmetic, arithmetic, division, division, shift, select, others)


def _condition(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    comparison = st.builds(build.binary, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), inner, inner)
    return st.one_of(
        comparison,
        comparison.map(build.logical_not),
        st.builds(build.binary, st.sampled_from(["and", "or"]), comparison, comparison),
    )


expressions = st.recursive(st.one_of(constants, st.sampled_from([a, b, c])), _compound, max_leaves=8)
conditions = _condition(expressions)


@settings(max_examples=300)
@given(st.one_of(expressions, conditions), ranges_of_all)
def test_interval_holds_every_value(expr: Expr, ranges: dict[str, tuple[int, int]]) -> None:
    lo, hi = interval(expr, ranges)
    for values in assignments(ranges):
        value = value_of(expr, values)
        assert (lo is None or lo <= value) and (hi is None or value <= hi)


@settings(max_examples=300)
@given(st.one_of(expressions, conditions), ranges_of_all)
def test_simplify_keeps_every_value(expr: Expr, ranges: dict[str, tuple[int, int]]) -> None:
    simpler = simplify(expr, ranges)
    assert simpler.dtype == expr.dtype
    for values in assignments(ranges):
        assert value_of(simpler, values) == value_of(expr, values)


@settings(max_examples=200)
@given(conditions, ranges_of_all)
def test_verdicts_on_conditions(condition: Expr, ranges: dict[str, tuple[int, int]]) -> None:
    truths = {bool(value_of(condition, values)) for values in assignments(ranges)}
    assert not (is_always_true(condition, ranges) and truths != {True})
    assert not (is_always_false(condition, ranges) and truths != {False})


@settings(max_examples=200)
@given(expressions)
def test_affine_is_the_expression(expr: Expr) -> None:
    form = affine(expr)
    if form is None:
        return
    assert 0 not in form.coefficients.values()
    for values in assignments(dict.fromkeys(NAMES, (-2, 2))):
        total = form.constant + sum(k * values[name] for name, k in form.coefficients.items())
        assert total == value_of(expr, values)


@settings(max_examples=200)
@given(expressions, expressions)
def test_difference_is_exact(left: Expr, right: Expr) -> None:
    constant = difference(left, right)
    if constant is not None:
        for values in assignments(dict.fromkeys(NAMES, (-2, 2))):
            assert value_of(left, values) - value_of(right, values) == constant
    assert difference(build.add(left, 5), left) == 5


@settings(max_examples=200)
@given(expressions, st.fixed_dictionaries({name: st.integers(1, 6) for name in NAMES}))
def test_divisors_divide(expr: Expr, facts: dict[str, int]) -> None:
    divisor = divisor_of(expr, facts)
    for values in itertools.product(range(-2, 3), repeat=3):
        multiples = {name: k * facts[name] for name, k in zip(NAMES, values, strict=True)}
        value = value_of(expr, multiples)
        assert value == 0 if divisor == 0 else value % divisor == 0


@settings(max_examples=100)
@given(expressions, expressions)
def test_substitution(expr: Expr, replacement: Expr) -> None:
    replaced = substitute(expr, {"a": replacement})
    for values in assignments(dict.fromkeys(NAMES, (-1, 1))):
        inner = dict(values) | {"a": value_of(replacement, values)}
        assert value_of(replaced, values) == value_of(expr, inner)
    assert substitute(expr, {}) is expr


def test_intervals_of_affine_expressions_are_exact() -> None:
    ranges = {"a": (0, 7), "b": (0, 31), "c": (0, None)}
    tile = build.add(build.mul(a, 32), b)
    assert interval(tile, ranges) == (0, 255)
    assert interval(build.sub(build.mul(build.add(a, 1), 32), build.mul(a, 32)), ranges) == (32, 32)
    assert interval(build.add(tile, c), ranges) == (0, None)
    assert interval(build.sub(tile, c), ranges) == (None, 255)
    assert interval(build.binary("%", c, 8), ranges) == (0, 7)
    assert interval(build.binary("min", c, 100), ranges) == (0, 100)
    assert interval(a, {}) == (None, None)
    assert interval(Var("n", int32, "extent"), {}) == (0, None)
    assert interval(build.const(2.5), {}) == (2, 3)
    assert interval(build.call("exp", Var("x", float32)), {}) == (None, None)


def test_simplification_of_tile_indices() -> None:
    ranges = {"a": (0, 15), "b": (0, 7), "c": (0, None)}
    index = build.add(build.mul(a, 8), b)
    assert simplify(build.floordiv(index, 8), ranges) == a
    assert simplify(build.binary("%", index, 8), ranges) == b
    shifted = build.add(build.add(index, build.mul(c, 16)), 8)
    assert expression_text(simplify(build.floordiv(shifted, 8), ranges)) == "a + c * 2 + 1"
    assert expression_text(simplify(build.floordiv(build.add(build.mul(c, 8), a), 8), ranges)) == "c + a // 8"
    assert expression_text(simplify(build.binary("%", build.add(build.mul(c, 8), a), 8), ranges)) == "a % 8"
    assert simplify(build.binary("<", index, 128), ranges) == Const(True, build.const(True).dtype)
    assert simplify(build.binary("min", index, 128), ranges) == index
    assert simplify(build.select(build.binary("<", b, 0), a, b), ranges) == b
    assert simplify(build.sub(build.add(a, b), a), ranges) == b


def test_free_vars_in_order() -> None:
    assert free_vars(build.add(build.mul(b, a), build.add(b, c))) == ("b", "a", "c")


@pytest.mark.parametrize(
    "expr, n, expected",
    [
        (build.mul(a, 8), 16, False),
        (build.mul(b, 8), 16, True),
        (build.add(build.mul(a, 16), 32), 16, True),
        (build.add(build.mul(a, 16), 8), 16, False),
        (build.floordiv(build.mul(a, 64), 4), 16, True),
        (build.const(0), 7, True),
    ],
)
def test_divisibility(expr: Expr, n: int, expected: bool) -> None:
    assert divisible_by(expr, n, {"b": 2}) == expected


def test_a_remainder_lies_below_an_open_divisor() -> None:
    p, n, x = Var("p", int32, "block"), Var("n", int32, "extent"), Var("x", int32, "scalar")
    below = build.binary("<", build.binary("%", p, n), n)
    assert is_always_true(below, {"p": (0, None), "n": (0, None)})
    assert is_always_true(
        build.binary("<=", build.binary("+", build.binary("%", p, n), build.const(1)), n), {}
    )
    assert not is_always_true(
        build.binary("<", build.binary("+", build.binary("%", p, n), build.const(1)), n), {}
    )
    assert not is_always_true(build.binary("<", build.binary("%", p, x), x), {})  # x may be negative
