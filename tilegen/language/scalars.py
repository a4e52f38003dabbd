"""Scalar functions. On Python numbers they compute at once, on tile values they become part of the kernel."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

from tilegen.errors import TilegenError
from tilegen.ir import build
from tilegen.ir.types import DType, as_dtype, float32
from tilegen.language.operation import operation, outside_kernel
from tilegen.language.tensors import SymbolicExtent

FLOAT_FUNCTIONS = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "sigmoid", "erf",
)  # fmt: skip
ROUNDINGS = ("floor", "ceil", "round", "trunc")
CLASSIFICATIONS = ("isnan", "isinf", "isfinite")


def _function(name: str, implementation: Callable[..., Any], meaning: str) -> Callable[..., Any]:
    """A scalar function of the language with a Python implementation on numbers."""

    def word(*arguments: Any) -> Any:
        if not all(isinstance(argument, int | float) for argument in arguments):
            raise outside_kernel(name)
        try:
            return implementation(*arguments)
        except OverflowError:
            return math.inf

    def unary(x: Any) -> Any:
        return word(x)

    def binary(x: Any, y: Any) -> Any:
        return word(x, y)

    def ternary(x: Any, y: Any, z: Any) -> Any:
        return word(x, y, z)

    arities: dict[str, Callable[..., Any]] = {"pow": binary, "fma": ternary}
    function = arities.get(name, unary)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return operation(function)


def _log(logarithm: Callable[[float], float]) -> Callable[[float], float]:
    """A logarithm with IEEE's results at and below 0."""

    def extended(x: float) -> float:
        return logarithm(x) if x > 0 else -math.inf if x == 0 else math.nan

    return extended


exp = _function("exp", math.exp, "e to the power x.")
exp2 = _function("exp2", lambda x: 2.0**x, "2 to the power x.")
exp10 = _function("exp10", lambda x: 10.0**x, "10 to the power x.")
log = _function("log", _log(math.log), "The natural logarithm.")
log2 = _function("log2", _log(math.log2), "The logarithm to base 2.")
log10 = _function("log10", _log(math.log10), "The logarithm to base 10.")
log1p = _function("log1p", math.log1p, "log(1 + x), exact for small x.")
sqrt = _function("sqrt", lambda x: math.sqrt(x) if x >= 0 else math.nan, "The square root.")
rsqrt = _function("rsqrt", lambda x: 1 / math.sqrt(x) if x > 0 else math.inf, "1 / sqrt(x).")
sin = _function("sin", math.sin, "The sine of x radians.")
cos = _function("cos", math.cos, "The cosine of x radians.")
tan = _function("tan", math.tan, "The tangent of x radians.")
asin = _function("asin", math.asin, "The arc sine.")
acos = _function("acos", math.acos, "The arc cosine.")
atan = _function("atan", math.atan, "The arc tangent.")
sinh = _function("sinh", math.sinh, "The hyperbolic sine.")
cosh = _function("cosh", math.cosh, "The hyperbolic cosine.")
tanh = _function("tanh", math.tanh, "The hyperbolic tangent.")
sigmoid = _function("sigmoid", lambda x: 0.5 + 0.5 * math.tanh(0.5 * x), "1 / (1 + exp(-x)).")
erf = _function("erf", math.erf, "The error function.")
floor = _function("floor", math.floor, "The largest integer that is not greater, in x's dtype.")
ceil = _function("ceil", math.ceil, "The smallest integer that is not less, in x's dtype.")
round = _function("round", round, "The nearest integer, halves to even, in x's dtype.")
trunc = _function("trunc", math.trunc, "The integer part, in x's dtype.")
abs = _function("abs", abs, "The magnitude.")
fabs = abs
pow = _function("pow", pow, "x to the power y.")
fma = _function("fma", lambda x, y, z: x * y + z, "x · y + z with one rounding.")
isnan = _function("isnan", math.isnan, "Whether x is not a number.")
isinf = _function("isinf", math.isinf, "Whether x is infinite.")
isfinite = _function("isfinite", math.isfinite, "Whether x is neither infinite nor a nan.")


@operation
def ceildiv(a: Any, b: Any) -> Any:
    """ceil(a / b) for non-negative a and positive b."""
    if isinstance(a, SymbolicExtent) or isinstance(b, SymbolicExtent):
        left, right = (x.expr if isinstance(x, SymbolicExtent) else x for x in (a, b))
        return SymbolicExtent(build.ceildiv(left, right))
    if not (isinstance(a, numbers.Integral) and isinstance(b, numbers.Integral)):
        raise outside_kernel("ceildiv")
    return -(-int(a) // int(b))


def _extreme(name: str, choose: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    if not all(isinstance(value, numbers.Real) for value in values):
        raise outside_kernel(name)
    return choose(values)


_python_max, _python_min = max, min


@operation
def max(*values: Any) -> Any:
    """The largest of two or more scalars."""
    return _extreme("max", _python_max, values)


@operation
def min(*values: Any) -> Any:
    """The smallest of two or more scalars."""
    return _extreme("min", _python_min, values)


@operation
def clamp(x: Any, min_val: Any, max_val: Any) -> Any:
    """min(max(x, min_val), max_val)."""
    return min(max(x, min_val), max_val)


@operation
def if_then_else(condition: Any, then: Any, otherwise: Any) -> Any:
    """`then` where the condition holds, else `otherwise`; the side that is not taken is not read."""
    raise outside_kernel("if_then_else")


@operation
def Select(condition: Any, then: Any, otherwise: Any) -> Any:
    """`then` where the condition holds, else `otherwise`."""
    raise outside_kernel("Select")


@operation
def cast(value: Any, dtype: Any) -> Any:
    """The value converted to a dtype."""
    raise outside_kernel("cast")


@operation
def Cast(dtype: Any, value: Any) -> Any:
    """The value converted to a dtype (TIR's order of arguments)."""
    raise outside_kernel("Cast")


@operation
def reinterpret(value: Any, dtype: Any) -> Any:
    """The value's bits read as another dtype of the same width; the arguments may come in either order."""
    raise outside_kernel("reinterpret")


_LARGEST: dict[str, float] = {
    "float16": 65504.0,
    "bfloat16": float.fromhex("0x1.fep127"),
    "float32": float.fromhex("0x1.fffffep127"),
    "float64": float.fromhex("0x1.fffffffffffffp1023"),
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
_WITHOUT_INFINITY = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz")


@operation
def infinity(dtype: Any = float32) -> float:
    """Positive infinity of a floating dtype.

    Raises:
        TilegenError: for a dtype without one.
    """
    kind = as_dtype(dtype)
    if not kind.is_float or kind.name in _WITHOUT_INFINITY:
        raise TilegenError(f"{kind} has no infinity\n  remedy: T.max_value({kind}) is its largest value")
    return math.inf


inf = math.inf


def _limits(dtype: DType) -> tuple[int | float, int | float]:
    if dtype.is_float:
        return -_LARGEST[dtype.name], _LARGEST[dtype.name]
    if dtype.kind == "int":
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, 1 if dtype.kind == "bool" else (1 << dtype.bits) - 1


@operation
def max_value(dtype: Any) -> int | float:
    """The largest finite value of a dtype."""
    return _limits(as_dtype(dtype))[1]


@operation
def min_value(dtype: Any) -> int | float:
    """The lowest finite value of a dtype."""
    return _limits(as_dtype(dtype))[0]


@operation
def shift_left(x: Any, bits: Any) -> Any:
    """x << bits."""
    return x << bits


@operation
def shift_right(x: Any, bits: Any) -> Any:
    """x >> bits."""
    return x >> bits


@operation
def bitwise_and(x: Any, y: Any) -> Any:
    """x & y."""
    return x & y


@operation
def bitwise_or(x: Any, y: Any) -> Any:
    """x | y."""
    return x | y


@operation
def bitwise_xor(x: Any, y: Any) -> Any:
    """x ^ y."""
    return x ^ y


@operation
def bitwise_not(x: Any) -> Any:
    """~x."""
    return ~x


@operation
def floordiv(a: Any, b: Any) -> Any:
    """a // b, rounding down."""
    return a // b


@operation
def floormod(a: Any, b: Any) -> Any:
    """a % b, with the sign of b."""
    return a % b
