"""Prints C++ expressions: parentheses by precedence, and where compilers or readers want them besides."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import assert_never

from tilegen.errors import TilegenError
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
from tilegen.model.literals import literal


class PrintError(TilegenError):
    """A kernel model that says something that C++ cannot."""


class Level(IntEnum):
    """Binding strength of C++ operators, weakest first: [expr.compound]."""

    ASSIGN = 2
    TERNARY = 3
    OR = 4
    AND = 5
    BIT_OR = 6
    BIT_XOR = 7
    BIT_AND = 8
    EQUALITY = 9
    RELATION = 10
    SHIFT = 11
    SUM = 12
    PRODUCT = 13
    PREFIX = 14
    POSTFIX = 15


_LEVELS = {
    "||": Level.OR,
    "&&": Level.AND,
    "|": Level.BIT_OR,
    "^": Level.BIT_XOR,
    "&": Level.BIT_AND,
    "==": Level.EQUALITY,
    "!=": Level.EQUALITY,
    "<": Level.RELATION,
    "<=": Level.RELATION,
    ">": Level.RELATION,
    ">=": Level.RELATION,
    "<<": Level.SHIFT,
    ">>": Level.SHIFT,
    "+": Level.SUM,
    "-": Level.SUM,
    "*": Level.PRODUCT,
    "/": Level.PRODUCT,
    "%": Level.PRODUCT,
}
_BITWISE = (Level.BIT_OR, Level.BIT_XOR, Level.BIT_AND)
_COMPARISONS = (Level.EQUALITY, Level.RELATION)
_PREFIXES = ("-", "!", "~", "&", "*", "++", "--", "+")


def expression_text(expression: CExpr) -> str:
    """The expression on one line of C++.

    Raises:
        PrintError: for an operator that C++ lacks, or a lambda inside a larger expression with statements of its own
            (those are printed by tilegen.emit.printer).
    """
    return _print(expression)[0]


def operand_text(expression: CExpr, minimum: Level) -> str:
    """The expression, in parentheses if it binds more weakly than `minimum`."""
    text, level = _print(expression)
    return text if level >= minimum else f"({text})"


def _print(expression: CExpr) -> tuple[str, Level]:
    match expression:
        case Name(name):
            return name, Level.POSTFIX
        case Literal(value, type_name):
            text = literal(value, type_name)
            return text, Level.PREFIX if text.startswith("-") else Level.POSTFIX
        case Index(base, index):
            return f"{operand_text(base, Level.POSTFIX)}[{expression_text(index)}]", Level.POSTFIX
        case Member(base, name):
            return _member(base, name), Level.POSTFIX
        case CallC(function, arguments, template):
            return _call(function, arguments, template), Level.POSTFIX
        case Operation():
            return _operation(expression)
        case Prefix(op, operand):
            return _prefix(op, operand), Level.PREFIX
        case Ternary(condition, then, otherwise):
            return _ternary(condition, then, otherwise), Level.TERNARY
        case StaticCast(type_name, operand, functional):
            opening = f"{type_name}(" if functional else f"static_cast<{type_name}>("
            return f"{opening}{expression_text(operand)})", Level.POSTFIX
        case Reinterpret(type_name, operand, dereference, const):
            qualified = f"const {type_name}" if const else type_name
            if dereference:
                return f"*reinterpret_cast<{qualified}*>({_prefix('&', operand)})", Level.PREFIX
            return f"reinterpret_cast<{qualified}>({expression_text(operand)})", Level.POSTFIX
        case Braces(items):
            return "{" + ", ".join(expression_text(item) for item in items) + "}", Level.POSTFIX
        case Lambda(_, body):
            if body:
                raise PrintError("a lambda with a body stands only as the value of a declaration")
            return lambda_head(expression) + " {}", Level.POSTFIX
        case _:
            assert_never(expression)


def lambda_head(expression: Lambda) -> str:
    """`[&](int i)`, without the body."""
    captures = ", ".join(("&", *(f"{name} = {name}" for name in expression.copies)))
    return (
        f"[{captures}](" + ", ".join(f"{type_name} {name}" for type_name, name in expression.parameters) + ")"
    )


def _member(base: CExpr, name: str) -> str:
    if isinstance(base, Prefix) and base.op == "*":
        return f"{operand_text(base.operand, Level.POSTFIX)}->{name}"
    return f"{operand_text(base, Level.POSTFIX)}.{name}"


def _call(function: CExpr, arguments: tuple[CExpr, ...], template: tuple[CExpr, ...]) -> str:
    name = operand_text(function, Level.POSTFIX)
    if template:
        # A bare > would end the template's argument list.
        name += "<" + ", ".join(operand_text(argument, Level.SUM) for argument in template) + ">"
    return name + "(" + ", ".join(expression_text(argument) for argument in arguments) + ")"


def _prefix(op: str, operand: CExpr) -> str:
    if op not in _PREFIXES:
        raise PrintError(f"C++ has no prefix operator '{op}'")
    text = operand_text(operand, Level.PREFIX)
    joins = text.startswith(op[-1]) and op in ("-", "+", "&", "--", "++")  # - -x is not --x
    return f"{op}({text})" if joins else f"{op}{text}"


def _ternary(condition: CExpr, then: CExpr, otherwise: CExpr) -> str:
    first = operand_text(condition, Level.OR)
    second = operand_text(then, Level.OR)
    third = operand_text(otherwise, Level.OR)
    return f"{first} ? {second} : {third}"


def _operation(expression: Operation) -> tuple[str, Level]:
    op, left, right = expression.op, expression.left, expression.right
    if op not in _LEVELS:
        raise PrintError(f"C++ has no binary operator '{op}'")
    if op in ("+", "-") and isinstance(right, Literal) and _is_negative_integer(right):
        op, right = ("-" if op == "+" else "+"), Literal(-right.value, right.type_name)
    level = _LEVELS[op]
    needs = _bracketing(level)
    first, first_level = _print(left)
    second, second_level = _print(right)
    if first_level < level or needs(first_level):
        first = f"({first})"
    if second_level <= level or needs(second_level) or (level == Level.SUM and second[0] in "+-"):
        second = f"({second})"
    return f"{first} {op} {second}", level


def _is_negative_integer(operand: Literal) -> bool:
    value = operand.value
    return isinstance(value, int) and not isinstance(value, bool) and -(2**31) < value < 0


def _bracketing(level: Level) -> Callable[[Level], bool]:
    """Which operands, though they bind more tightly than `level`, get parentheses all the same: && under ||,
    arithmetic under shifts and bit operations, bit operations under one another (-Wparentheses), comparisons under
    comparisons."""
    if level == Level.OR:
        return lambda operand: operand == Level.AND
    if level == Level.SHIFT:
        return lambda operand: operand in (Level.SUM, Level.PRODUCT)
    if level in _BITWISE:
        return lambda operand: (
            operand in (Level.SUM, Level.PRODUCT, *_COMPARISONS)
            or (operand in _BITWISE and operand != level)
            or (operand == Level.SHIFT and level != Level.BIT_OR)
        )
    if level in _COMPARISONS:
        return lambda operand: operand in _COMPARISONS or operand in _BITWISE
    return lambda operand: False
