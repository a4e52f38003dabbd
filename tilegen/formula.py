"""Integer formulas of a manifest, such as `ceildiv(M, 128) * min(tiles, 4)`: checked, then compiled to Python."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from tilegen.errors import TilegenError

FUNCTIONS = ("min", "max", "ceildiv")
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


class FormulaError(TilegenError):
    """Text that is not a formula, or names something that it may not."""


def ceildiv(left: int, right: int) -> int:
    """The quotient rounded up."""
    return -(-left // right)


def formula_names(formula: str) -> list[str]:
    """The names in a formula, functions aside, each once in order of appearance.

    Raises:
        FormulaError: for text that is not a formula.
    """
    tree = parse_formula(formula)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called]
    found.sort(key=lambda node: node.col_offset)
    return list(dict.fromkeys(node.id for node in found))


def parse_formula(formula: str) -> ast.expr:
    """The syntax tree of a formula: integers, names, + - * // %, comparisons, and/or/not, min, max, ceildiv.

    Raises:
        FormulaError: for anything else.
    """
    try:
        tree = ast.parse(formula, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise FormulaError(f"'{formula}' is not a formula") from error
    _check(tree, formula)
    return tree


def _check(node: ast.expr, formula: str) -> None:
    match node:
        case ast.Constant(value=int()) | ast.Name():
            return
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATORS):
            operands = [left, right]
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            operands = [operand]
        case ast.BoolOp(values=values):
            operands = values
        case ast.Compare(left=left, ops=ops, comparators=right) if all(
            isinstance(op, _COMPARISONS) for op in ops
        ):
            operands = [left, *right]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            operands = arguments
        case _:
            raise FormulaError(f"'{ast.unparse(node)}' has no place in the formula '{formula}'")
    for operand in operands:
        _check(operand, formula)


def compile_formulas(formulas: Sequence[str], names: Sequence[str]) -> Callable[..., tuple[int, ...]]:
    """One Python function of `names` (positional) that returns the values of all formulas.

    Raises:
        FormulaError: for text that is not a formula, or a name that is not in `names`.
    """
    slots = {name: f"x{position}" for position, name in enumerate(names)}
    texts = []
    for formula in formulas:
        unknown = [name for name in formula_names(formula) if name not in slots]
        if unknown:
            raise FormulaError(
                f"'{formula}' names {', '.join(unknown)}; known are {', '.join(names) or 'no names'}"
            )
        texts.append(ast.unparse(_Renamed(slots).visit(parse_formula(formula))))
    source = f"lambda {', '.join(slots.values())}: ({''.join(f'({text}), ' for text in texts)})"
    scope: dict[str, Any] = {"__builtins__": {}, "min": min, "max": max, "ceildiv": ceildiv}
    compiled: Callable[..., tuple[int, ...]] = eval(compile(source, "<formulas>", "eval"), scope)
    return compiled


class _Renamed(ast.NodeTransformer):
    """Names become the parameters of the compiled function, so that a symbol may be called anything."""

    def __init__(self, slots: dict[str, str]) -> None:
        self._slots = slots

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._slots.get(node.id, node.id), ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.Call:
        return ast.Call(node.func, [self.visit(argument) for argument in node.args], [])


@lru_cache(maxsize=4096)
def _compiled(formulas: tuple[str, ...]) -> tuple[tuple[str, ...], Callable[..., tuple[Any, ...]]]:
    names = tuple(dict.fromkeys(name for formula in formulas for name in formula_names(formula)))
    return names, compile_formulas(formulas, names)


def evaluate(formulas: tuple[str, ...], environment: Mapping[str, int | float]) -> tuple[int, ...]:
    """The values of formulas over named numbers; each set of formulas is compiled once.

    Raises:
        FormulaError: for a text that is no formula.
        KeyError: a name that the environment does not have.
    """
    names, function = _compiled(formulas)
    return function(*(environment[name] for name in names))
