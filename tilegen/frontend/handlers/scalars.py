"""Scalar functions: Python computes what it can, the rest becomes calls of the kernel."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from tilegen.errors import TilegenError
from tilegen.frontend.calls import WordCall, dtype_argument, handles
from tilegen.frontend.expressions import arithmetic, to_condition
from tilegen.frontend.values import NamedInt, is_number, is_tile_value
from tilegen.ir import build
from tilegen.ir.expressions import Const, Expr
from tilegen.ir.types import DType, bool_, float32
from tilegen.language import scalars


def _by_python(call: WordCall, function: Callable[..., Any], *names: str) -> Any:
    """The result where every argument is a Python number, else None."""
    values = [call.arguments[name] for name in names]
    if not all(is_number(value) for value in values):
        return None
    try:
        return function(*values)
    except (ArithmeticError, ValueError) as error:
        call.fail(names[0], f"T.{call.word}: {error}", "check the numbers that it is given")


def _floating(call: WordCall, name: str) -> Expr:
    operand = call.scalar(name)
    return operand if operand.dtype.is_float else build.cast(operand, float32, call.location)


@handles(*scalars.FLOAT_FUNCTIONS)
def _float_function(call: WordCall) -> object:
    result = _by_python(call, getattr(scalars, call.word), "x")
    if result is not None:
        return result
    return build.call(call.word, _floating(call, "x"), location=call.location)


@handles(*scalars.ROUNDINGS)
def _rounding(call: WordCall) -> object:
    result = _by_python(call, getattr(scalars, call.word), "x")
    if result is not None:
        return result
    operand = call.scalar("x")
    return operand if not operand.dtype.is_float else build.call(call.word, operand, location=call.location)


@handles("abs")
def _abs(call: WordCall) -> object:
    result = _by_python(call, scalars.abs, "x")
    return build.call("abs", call.scalar("x"), location=call.location) if result is None else result


@handles(*scalars.CLASSIFICATIONS)
def _classification(call: WordCall) -> object:
    result = _by_python(call, getattr(scalars, call.word), "x")
    if result is not None:
        return result
    operand = call.scalar("x")
    if not operand.dtype.is_float:
        return call.word == "isfinite"
    return build.call(call.word, operand, dtype=bool_, location=call.location)


@handles("pow")
def _pow(call: WordCall) -> object:
    result = _by_python(call, scalars.pow, "x", "y")
    if result is not None:
        return result
    return arithmetic(call.context, "**", call.scalar("x"), call.scalar("y"), call.node)


@handles("fma")
def _fma(call: WordCall) -> object:
    result = _by_python(call, scalars.fma, "x", "y", "z")
    if result is not None:
        return result
    parts = [call.scalar(name) for name in ("x", "y", "z")]
    dtype = build.common_dtype(build.binary("*", parts[0], parts[1]), parts[2])
    converted = [build.cast(part, dtype) for part in parts]
    if not dtype.is_float:
        return build.binary("+", build.binary("*", converted[0], converted[1]), converted[2], call.location)
    return build.call("fma", *converted, dtype=dtype, location=call.location)


@handles("ceildiv")
def _ceildiv(call: WordCall) -> object:
    a, b = call.arguments["a"], call.arguments["b"]
    if isinstance(a, numbers.Integral) and isinstance(b, numbers.Integral):
        result = _by_python(call, scalars.ceildiv, "a", "b")
        named = isinstance(a, NamedInt) or isinstance(b, NamedInt)
        if not named or not isinstance(a, int) or not isinstance(b, int):
            return result
        return a // b if a % b == 0 else (a + b - 1) // b  # the same, and says how it was computed
    left, right = call.scalar("a"), call.scalar("b")
    if left.dtype.is_float or right.dtype.is_float:
        call.fail(
            "a" if left.dtype.is_float else "b", "T.ceildiv divides integers", "cast it: T.cast(x, T.int32)"
        )
    if isinstance(right, Const) and right.value <= 0:
        call.fail(
            "b",
            f"T.ceildiv divides by a positive integer, not {right.value}",
            "check the parameter that it comes from",
        )
    return build.ceildiv(left, right)


@handles("max", "min")
def _extreme(call: WordCall) -> object:
    values = call.arguments["values"]
    if len(values) < 2:
        call.fail(
            "values",
            f"T.{call.word} compares two or more values",
            f"T.{call.word}(a, b); of a tile, T.reduce_{call.word} takes it along an axis",
        )
    if all(is_number(value) for value in values):
        return max(values) if call.word == "max" else min(values)
    nodes = call.node.args if len(call.node.args) == len(values) else [call.node] * len(values)
    result = call.context.expression(values[0], nodes[0])
    for value, node in zip(values[1:], nodes[1:], strict=True):
        operand = call.context.expression(value, node)
        result = build.binary("max" if call.word == "max" else "min", result, operand, call.location)
    return result


@handles("clamp")
def _clamp(call: WordCall) -> object:
    result = _by_python(call, scalars.clamp, "x", "min_val", "max_val")
    if result is not None:
        return result
    at_least = build.binary("max", call.scalar("x"), call.scalar("min_val"), call.location)
    return build.binary("min", at_least, call.scalar("max_val"), call.location)


@handles("if_then_else", "Select")
def _select(call: WordCall) -> object:
    condition = call.arguments["condition"]
    if isinstance(condition, Const):
        condition = condition.value
    if not is_tile_value(condition):
        return call.arguments["then" if condition else "otherwise"]
    test = to_condition(call.context, call.scalar("condition"), call.node_of("condition"))
    return build.select(test, call.scalar("then"), call.scalar("otherwise"), call.location)


@handles("cast", "Cast")
def _cast(call: WordCall) -> object:
    dtype = dtype_argument(call.context, call.arguments["dtype"], call.node_of("dtype"))
    return build.cast(call.scalar("value"), dtype, call.location)


@handles("reinterpret")
def _reinterpret(call: WordCall) -> object:
    names = ("value", "dtype")
    if isinstance(call.arguments["value"], DType | str):
        names = ("dtype", "value")
    dtype = dtype_argument(call.context, call.arguments[names[1]], call.node_of(names[1]))
    operand = call.scalar(names[0])
    try:
        return build.bitcast(operand, dtype, call.location)
    except ValueError as error:
        call.fail(names[0], str(error), f"convert with T.cast first: {operand.dtype.bits} bits are needed")


@handles("infinity", "max_value", "min_value")
def _limit(call: WordCall) -> object:
    dtype = dtype_argument(call.context, call.arguments["dtype"], call.node_of("dtype"))
    try:
        return build.const(getattr(scalars, call.word)(dtype), dtype, call.location)
    except TilegenError as error:
        message, _, remedy = str(error).partition("\n  remedy: ")
        call.fail("dtype", message, remedy or "give a dtype of numbers")


_INFIX = {
    "shift_left": ("<<", "x", "bits"),
    "shift_right": (">>", "x", "bits"),
    "bitwise_and": ("&", "x", "y"),
    "bitwise_or": ("|", "x", "y"),
    "bitwise_xor": ("^", "x", "y"),
    "floordiv": ("//", "a", "b"),
    "floormod": ("%", "a", "b"),
}


@handles(*_INFIX)
def _infix(call: WordCall) -> object:
    symbol, first, second = _INFIX[call.word]
    result = _by_python(call, getattr(scalars, call.word), first, second)
    if result is not None:
        return result
    return arithmetic(call.context, symbol, call.scalar(first), call.scalar(second), call.node)


@handles("bitwise_not")
def _bitwise_not(call: WordCall) -> object:
    operand = call.scalar("x")
    if operand.dtype.is_float:
        call.fail("x", f"~ needs an integer, not {operand.dtype}", "T.reinterpret gives the bits")
    return build.invert(operand, call.location)
