"""Printed expressions mean what the model says, to a C++ compiler with its warnings about parentheses on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tilegen.model import build as c
from tilegen.model.expression_text import PrintError, expression_text
from tilegen.model.expressions import (
    Braces,
    CallC,
    CExpr,
    Index,
    Lambda,
    Literal,
    Member,
    Name,
    Operation,
    Prefix,
    Reinterpret,
    StaticCast,
    Ternary,
)
from tilegen.model.statements import Return

a, b, d = Name("a"), Name("b"), Name("d")


def op(left: c.Operand, operator: str, right: c.Operand) -> CExpr:
    return Operation(operator, c.expr(left), c.expr(right))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (op(op(a, "+", b), "*", d), "(a + b) * d"),
        (op(a, "+", op(b, "*", d)), "a + b * d"),
        (op(a, "-", op(b, "-", d)), "a - (b - d)"),
        (op(op(a, "-", b), "-", d), "a - b - d"),
        (op(a, "*", op(b, "/", d)), "a * (b / d)"),
        (op(op(a, "/", 2), "%", 2), "a / 2 % 2"),
        (op(op(a, "&&", b), "||", d), "(a && b) || d"),
        (op(op(a, "||", b), "&&", d), "(a || b) && d"),
        (op(op(a, "+", 1), "<<", 2), "(a + 1) << 2"),
        (op(op(a, "<<", 2), "|", b), "a << 2 | b"),
        (op(op(a, "&", 4), "|", op(b, "&", 8)), "(a & 4) | (b & 8)"),
        (op(op(a, "%", 8), "^", op(b, "%", 8)), "(a % 8) ^ (b % 8)"),
        (op(op(a, "<", b), "==", d), "(a < b) == d"),
        (op(op(a, "&", b), "==", 0), "(a & b) == 0"),
        (op(op(a, "<", b), "&&", op(b, "<=", d)), "a < b && b <= d"),
        (op(a, "+", Literal(-1)), "a - 1"),
        (op(a, "-", Literal(-1)), "a + 1"),
        (op(a, "*", Literal(-1)), "a * -1"),
        (op(a, "-", Prefix("-", b)), "a - (-b)"),
        (op(a, ">", Literal(-1)), "a > -1"),
        (Prefix("-", Prefix("-", a)), "-(-a)"),
        (Prefix("-", op(a, "+", b)), "-(a + b)"),
        (Prefix("!", op(a, "<", b)), "!(a < b)"),
        (Prefix("&", Index(a, b)), "&a[b]"),
        (Index(Prefix("*", a), b), "(*a)[b]"),
        (Member(Prefix("*", a), "x"), "a->x"),
        (Member(op(a, "+", b), "x"), "(a + b).x"),
        (Ternary(op(a, "||", b), a, b), "a || b ? a : b"),
        (Ternary(a, b, Ternary(b, a, d)), "a ? b : (b ? a : d)"),
        (op(Ternary(a, b, d), "+", 1), "(a ? b : d) + 1"),
        (CallC(a, (op(a, "+", b), d), (Literal(1), op(a, ">", b))), "a<1, (a > b)>(a + b, d)"),
        (StaticCast("float", op(a, "+", b)), "static_cast<float>(a + b)"),
        (op(StaticCast("u64", a, functional=True), "*", b), "u64(a) * b"),
        (Reinterpret("half2", Index(a, b)), "*reinterpret_cast<half2*>(&a[b])"),
        (Reinterpret("u32", a, const=True), "*reinterpret_cast<const u32*>(&a)"),
        (Reinterpret("half2*", a, dereference=False), "reinterpret_cast<half2*>(a)"),
        (Braces((a, op(a, "+", b))), "{a, a + b}"),
    ],
)
def test_parentheses(expression: CExpr, text: str) -> None:
    assert expression_text(expression) == text


def test_an_unknown_operator_is_an_error() -> None:
    with pytest.raises(PrintError, match="no binary operator"):
        expression_text(op(a, "**", b))


def test_a_lambda_with_a_body_is_no_operand() -> None:
    with pytest.raises(PrintError, match="lambda"):
        expression_text(CallC(a, (Lambda((), (Return(),)),)))


# --------------------------------------------------------------------------------------------- against a compiler

_MASK = 2**64 - 1
_VALUES = {"a": 5, "b": 3, "d": 11}


def _arithmetic(random: Random, depth: int) -> CExpr:
    """In unsigned 64-bit integers, where all of C++'s arithmetic is defined."""
    if depth == 0:
        return Name(random.choice("abd")) if random.random() < 0.7 else Literal(random.randrange(1, 9), "u64")
    kind = random.random()
    if kind < 0.08:
        return Prefix(random.choice("-~"), _arithmetic(random, depth - 1))
    if kind < 0.2:
        return Ternary(
            _condition(random, depth - 1), _arithmetic(random, depth - 1), _arithmetic(random, depth - 1)
        )
    op_text = random.choice(("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"))
    right = Literal(random.randrange(1, 9), "u64") if op_text in ("/", "%", "<<", ">>") else None
    return Operation(op_text, _arithmetic(random, depth - 1), right or _arithmetic(random, depth - 1))


def _condition(random: Random, depth: int) -> CExpr:
    if depth <= 0 or random.random() < 0.4:
        relation = random.choice(("<", "<=", ">", ">=", "==", "!="))
        return Operation(
            relation, _arithmetic(random, max(depth - 1, 0)), _arithmetic(random, max(depth - 1, 0))
        )
    if random.random() < 0.2:
        return Prefix("!", _condition(random, depth - 1))
    return Operation(
        random.choice(("&&", "||")), _condition(random, depth - 1), _condition(random, depth - 1)
    )


def _value(expression: CExpr) -> int:
    """What the expression is, by its structure alone."""
    match expression:
        case Name(name):
            return _VALUES[name]
        case Literal(value):
            return int(value)
        case Prefix("-", operand):
            return -_value(operand) & _MASK
        case Prefix("~", operand):
            return ~_value(operand) & _MASK
        case Prefix("!", operand):
            return int(not _value(operand))
        case Ternary(condition, then, otherwise):
            return _value(then) if _value(condition) else _value(otherwise)
        case Operation(operator, left, right):
            x, y = _value(left), _value(right)
            results: dict[str, Callable[[], int]] = {
                "+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "/": lambda: x // y, "%": lambda: x % y,
                "&": lambda: x & y, "|": lambda: x | y, "^": lambda: x ^ y, "<<": lambda: x << y,
                ">>": lambda: x >> y, "<": lambda: x < y, "<=": lambda: x <= y, ">": lambda: x > y,
                ">=": lambda: x >= y, "==": lambda: x == y, "!=": lambda: x != y,
                "&&": lambda: bool(x and y), "||": lambda: bool(x or y),
            }  # fmt: skip
            return int(results[operator]()) & _MASK
        case _:
            raise AssertionError(expression)


@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_a_compiler_reads_what_the_model_says(
    compiler: str, require_tool: Callable[[str], None], tmp_path: Path
) -> None:
    if shutil.which(compiler) is None:
        require_tool("host_compiler" if compiler == "g++" else "hip")
        pytest.skip(f"{compiler} is not on the path")
    random = Random(7)
    expressions = [_arithmetic(random, random.randrange(1, 5)) for _ in range(250)]
    lines = ["#include <cstdio>", "using u64 = unsigned long long;", "int main() {"]
    lines += [f"  volatile u64 {name}_ = {value};" for name, value in _VALUES.items()]
    lines += [f"  const u64 {name} = {name}_;" for name in _VALUES]
    lines += [f'  std::printf("%llu\\n", u64({expression_text(expression)}));' for expression in expressions]
    source = tmp_path / "expressions.cpp"
    source.write_text("\n".join([*lines, "}"]))
    # Random operands may well be equal; that is no fault of the printer.
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-tautological-compare", "-Wno-unused-const-variable"]
    program = tmp_path / "expressions"
    subprocess.run([compiler, "-std=c++17", *warnings, source, "-o", program], check=True)
    output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert [int(line) for line in output.split()] == [_value(expression) for expression in expressions]
