"""Kernel-model expressions as formulas of the manifest: constants by value, C++ division as `//`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tilegen.errors import TilegenError
from tilegen.model.expression_text import Level
from tilegen.model.expressions import CallC, CExpr, Literal, Name, Operation, Prefix, StaticCast, Ternary

_LEVELS = {
    "or": Level.OR, "and": Level.AND, "==": Level.EQUALITY, "!=": Level.EQUALITY, "<": Level.RELATION,
    "<=": Level.RELATION, ">": Level.RELATION, ">=": Level.RELATION, "+": Level.SUM, "-": Level.SUM,
    "*": Level.PRODUCT, "//": Level.PRODUCT, "%": Level.PRODUCT,
}  # fmt: skip
_SPELLINGS = {"/": "//", "&&": "and", "||": "or"}
_FUNCTIONS = ("min", "max", "ceildiv")


class NoFormula(TilegenError):
    """An expression that a manifest cannot hold."""


def formula_text(expression: CExpr, constants: Mapping[str, CExpr] | None = None) -> str:
    """The expression over non-negative integers as a formula; names of `constants` are replaced by their values.

    Raises:
        NoFormula: for members, indices, calls other than min, max and ceildiv, bit operations and floats.
    """
    return _Formula(constants or {}).text(expression)[0]


class _Formula:
    def __init__(self, constants: Mapping[str, CExpr]) -> None:
        self._constants = constants

    def text(self, expression: CExpr) -> tuple[str, Level]:
        match expression:
            case Literal(bool() as value):
                return str(int(value)), Level.POSTFIX
            case Literal(int() as value):
                return str(value), Level.POSTFIX if value >= 0 else Level.PREFIX
            case Name(name):
                return self._name(name)
            case StaticCast(_, operand):
                return self.text(operand)
            case Prefix("-", operand):
                return f"-{self._bracketed(operand, Level.PREFIX)}", Level.PREFIX
            case Prefix("!", operand):
                return f"(not {self._bracketed(operand, Level.EQUALITY)})", Level.POSTFIX
            case CallC(Name(function), arguments, ()) if function in _FUNCTIONS:
                return (
                    f"{function}({', '.join(self.text(argument)[0] for argument in arguments)})",
                    Level.POSTFIX,
                )
            case Ternary(Operation("<" | "<=", left, right), then, otherwise) if (left, right) == (
                then,
                otherwise,
            ):
                return self.text(CallC(Name("min"), (left, right)))
            case Operation(op, left, right) if _SPELLINGS.get(op, op) in _LEVELS:
                spelled = _SPELLINGS.get(op, op)
                level = _LEVELS[spelled]
                return (
                    f"{self._bracketed(left, level)} {spelled} {self._bracketed(right, Level(level + 1))}",
                    level,
                )
            case _:
                raise NoFormula(f"the manifest has no formula for {expression}")

    def _name(self, name: str) -> tuple[str, Level]:
        if name in self._constants:
            text, level = self.text(self._constants[name])
            return (text, level) if re.fullmatch(r"\w+", text) else (f"({text})", Level.POSTFIX)
        if not name.isidentifier():
            raise NoFormula(f"the manifest has no formula for '{name}'")
        return name, Level.POSTFIX

    def _bracketed(self, operand: CExpr, minimum: Level) -> str:
        text, level = self.text(operand)
        return text if level >= minimum else f"({text})"
