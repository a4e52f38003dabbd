"""Constructors of expressions: they unify dtypes, fold constants and drop neutral elements."""

from __future__ import annotations

import math
from collections.abc import Callable

from tilegen.ir.expressions import (
    COMPARISONS,
    Binary,
    BinaryOp,
    Bitcast,
    Call,
    Cast,
    Const,
    Expr,
    Select,
    Unary,
)
from tilegen.ir.types import DType, bool_, float32, int32, int64
from tilegen.location import NOWHERE, Location

Number = int | float | bool


def const(value: Number, dtype: DType | None = None, location: Location = NOWHERE) -> Const:
    """A literal; the dtype defaults to bool, int32 (int64 beyond its range) or float32 by the value's type."""
    if dtype is None:
        match value:
            case bool():
                dtype = bool_
            case int():
                dtype = int32 if -(2**31) <= value < 2**31 else int64
            case float():
                dtype = float32
    if dtype.is_float:
        return Const(float(value), dtype, location)
    return Const(bool(value) if dtype.kind == "bool" else int(value), dtype, location)


def as_expr(value: Expr | Number) -> Expr:
    return const(value) if isinstance(value, bool | int | float) else value


def common_dtype(left: Expr, right: Expr, bitwise: bool = False) -> DType:
    """The dtype of an arithmetic result: a literal adapts to the other side if that holds it (`bitwise`: its bits),
    floats win over integers, wider over narrower, float32 over two different 16-bit floats."""
    a, b = left.dtype, right.dtype
    if a == b:
        return a
    if isinstance(left, Const) and _adapts(left, b, bitwise):
        return b
    if isinstance(right, Const) and _adapts(right, a, bitwise):
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.bits == b.bits and a.is_float:
        return float32
    if a.kind == "bool" or b.kind == "bool":
        return b if a.kind == "bool" else a
    if a.bits == b.bits:
        return a if a.kind == "uint" else b
    return a if a.bits > b.bits else b


def _adapts(literal: Const, dtype: DType, bitwise: bool) -> bool:
    """Whether a literal takes the type of the other side."""
    if dtype.is_float:
        return True
    if literal.dtype.is_float or dtype.kind == "bool":
        return False
    signed, half = dtype.kind == "int", 2 ** (dtype.bits - 1)
    lowest = -half if signed or bitwise else 0
    highest = half - 1 if signed and not bitwise else 2 * half - 1
    return bool(lowest <= literal.value <= highest)


_FOLD: dict[str, Callable[[Number, Number], Number]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else math.copysign(math.inf, a) if a else math.nan,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<<": lambda a, b: int(a) << int(b),
    ">>": lambda a, b: int(a) >> int(b),
    "&": lambda a, b: int(a) & int(b),
    "|": lambda a, b: int(a) | int(b),
    "^": lambda a, b: int(a) ^ int(b),
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
    "min": min,
    "max": max,
}


def binary(op: BinaryOp, left: Expr | Number, right: Expr | Number, location: Location = NOWHERE) -> Expr:
    """`left op right` with constants folded.

    Raises:
        ZeroDivisionError: for an integer division by the constant 0.
    """
    a, b = as_expr(left), as_expr(right)
    logical = op in ("and", "or")
    bitwise = op in ("&", "|", "^")
    dtype = bool_ if logical else a.dtype if op in ("<<", ">>") else common_dtype(a, b, bitwise)
    if op == "/" and not dtype.is_float:
        dtype = float32
    if not logical:
        a, b = cast(a, dtype), cast(b, b.dtype if op in ("<<", ">>") else dtype)
    result = bool_ if op in COMPARISONS or logical else dtype
    if isinstance(a, Const) and isinstance(b, Const):
        return const(_folded(_FOLD[op](a.value, b.value), result), result, location)
    return _neutral(op, a, b) or Binary(op, a, b, result, location)


def _folded(value: Number, dtype: DType) -> Number:
    """A result as the kernel would have it: unsigned and narrow integers wrap. An int32 that does not fit stays what it
    is, and is refused, or widened, where it is used."""
    wraps = dtype.is_integer and (dtype.kind == "uint" or dtype.bits < 32)
    return wrapped(int(value), dtype) if wraps else value


def _neutral(op: BinaryOp, a: Expr, b: Expr) -> Expr | None:
    """The simpler equal of an operation with a neutral or absorbing constant, exact for every value."""
    left = a.value if isinstance(a, Const) else None
    right = b.value if isinstance(b, Const) else None
    if op == "and" or op == "or":
        absorbing = op == "or"
        for value, this, other in ((left, a, b), (right, b, a)):
            if value is not None:
                return this if bool(value) == absorbing else other
        return None
    if a.dtype.is_float:
        return a if op in ("*", "/") and right == 1 else b if op == "*" and left == 1 else None
    if op == "+":
        if left == 0:
            return b
        if (
            isinstance(b, Const)
            and isinstance(a, Binary)
            and a.op in ("+", "-")
            and isinstance(a.right, Const)
        ):
            inner = a.right.value if a.op == "+" else -a.right.value
            return binary("+", a.left, const(inner + b.value, a.dtype))
    if op in ("+", "-", "<<", ">>", "|", "^") and right == 0:
        return a
    if op == "-" and a == b:
        return const(0, a.dtype)
    if op in ("*", "//") and right == 1:
        return a
    if op == "*":
        if left == 1:
            return b
        if left == 0 or right == 0:
            return const(0, a.dtype)
    if op == "%" and right == 1:
        return const(0, a.dtype)
    if op in ("min", "max") and a == b:
        return a
    return None


def add(left: Expr | Number, right: Expr | Number) -> Expr:
    return binary("+", left, right)


def sub(left: Expr | Number, right: Expr | Number) -> Expr:
    return binary("-", left, right)


def mul(left: Expr | Number, right: Expr | Number) -> Expr:
    return binary("*", left, right)


def floordiv(left: Expr | Number, right: Expr | Number) -> Expr:
    return binary("//", left, right)


def ceildiv(left: Expr | Number, right: Expr | Number) -> Expr:
    """ceil(left / right) for a non-negative left and a positive right."""
    divisor = as_expr(right)
    if (
        isinstance(divisor, Const)
        and divisor.value != 1
        and _is_named(divisor)
        and not isinstance(left, Const)
    ):
        # Kept as it is written by hand, (N + kBlockN - 1) / kBlockN: folding would lose the divisor's name.
        raised = Binary("+", as_expr(left), divisor, divisor.dtype)
        return floordiv(Binary("-", raised, const(1, divisor.dtype), divisor.dtype), divisor)
    return floordiv(add(left, sub(divisor, 1)), divisor)


def _is_named(constant: Const) -> bool:
    """Whether a constant has a name, or is computed from one that has."""
    if constant.name or constant.parts is None:
        return bool(constant.name)
    _, left, right = constant.parts
    return _is_named(left) or _is_named(right)


def negate(operand: Expr, location: Location = NOWHERE) -> Expr:
    if isinstance(operand, Const):
        return const(_folded(-operand.value, operand.dtype), operand.dtype, location)
    return Unary("-", operand, operand.dtype, location)


def invert(operand: Expr, location: Location = NOWHERE) -> Expr:
    """The bitwise complement of an integer."""
    if isinstance(operand, Const):
        return cast(const(~int(operand.value), int64), operand.dtype)
    return Unary("~", operand, operand.dtype, location)


def logical_not(operand: Expr, location: Location = NOWHERE) -> Expr:
    if isinstance(operand, Const):
        return const(not operand.value)
    return Unary("not", operand, bool_, location)


def select(
    condition: Expr, then: Expr | Number, otherwise: Expr | Number, location: Location = NOWHERE
) -> Expr:
    a, b = as_expr(then), as_expr(otherwise)
    dtype = common_dtype(a, b)
    if isinstance(condition, Const):
        return cast(a if condition.value else b, dtype)
    return Select(condition, cast(a, dtype), cast(b, dtype), dtype, location)


def cast(operand: Expr, dtype: DType, location: Location = NOWHERE) -> Expr:
    if operand.dtype == dtype:
        return operand
    if isinstance(operand, Const) and not (dtype.is_float and dtype.bits < 16):
        value = operand.value
        if dtype.is_integer:
            if not math.isfinite(value):
                return Cast(operand, dtype, location)
            value = wrapped(int(value), dtype)
        literal = const(value, dtype, operand.location)
        return Const(literal.value, dtype, operand.location, operand.name)
    return Cast(operand, dtype, location)


def wrapped(value: int, dtype: DType) -> int:
    """The integer's last bits, as a number of an integer type."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def bitcast(operand: Expr, dtype: DType, location: Location = NOWHERE) -> Expr:
    """Reinterprets the bits.

    Raises:
        ValueError: when the widths differ.
    """
    if operand.dtype.bits != dtype.bits:
        raise ValueError(f"cannot reinterpret {operand.dtype} as {dtype}: their widths differ")
    return operand if operand.dtype == dtype else Bitcast(operand, dtype, location)


def call(function: str, *arguments: Expr, dtype: DType | None = None, location: Location = NOWHERE) -> Expr:
    return Call(function, arguments, dtype or arguments[0].dtype, location)
