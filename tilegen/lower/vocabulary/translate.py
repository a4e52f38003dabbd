"""Scalar expressions of the tile IR as expressions of the kernel model.

16-bit floats are added, subtracted, multiplied and compared in their own type where the language can; everything
else about them goes through float32. `//` and `%` are C++'s where both operands are known not to be negative, else
the helpers floor_div and floor_mod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from tilegen.errors import TilegenError
from tilegen.ir.affine import Ranges, interval
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
from tilegen.ir.narrow import may_leave_type
from tilegen.ir.types import DType, float32, int32
from tilegen.lower.vocabulary.functions import CLASSIFICATIONS, INTEGER_FUNCTIONS, float_function
from tilegen.model.dialect import Dialect
from tilegen.model.expressions import CallC, CExpr, Literal, Name, Operation, Prefix, StaticCast, Ternary


class ScalarError(TilegenError):
    """An expression that the target's language cannot compute."""


def _no_loads(load: Load) -> CExpr:
    raise ScalarError(f"{load.location}: an element of {load.buffer.name} cannot be read here")


def _plain(constant: Const) -> CExpr | None:
    return None


@dataclass(frozen=True, slots=True)
class Environment:
    """What the leaves of an expression are where it stands.

    variables  IR variables; one that is not listed keeps its name
    load       the element of a buffer, in the buffer's C++ type
    constant   the name of a constant of the file, or None to write the value
    ranges     inclusive bounds of variables, for the choice of / and %
    """

    variables: Mapping[str, CExpr] = field(default_factory=dict)
    load: Callable[[Load], CExpr] = _no_loads
    constant: Callable[[Const], CExpr | None] = _plain
    ranges: Ranges = field(default_factory=dict)


_BITCASTS = {
    ("float32", "int32"): "__float_as_int",
    ("float32", "uint32"): "__float_as_uint",
    ("int32", "float32"): "__int_as_float",
    ("uint32", "float32"): "__uint_as_float",
    ("float64", "int64"): "__double_as_longlong",
    ("int64", "float64"): "__longlong_as_double",
}
_CUDA_BITCASTS = {
    ("float16", "uint16"): "__half_as_ushort",
    ("float16", "int16"): "__half_as_short",
    ("uint16", "float16"): "__ushort_as_half",
    ("int16", "float16"): "__short_as_half",
    ("bfloat16", "uint16"): "__bfloat16_as_ushort",
    ("bfloat16", "int16"): "__bfloat16_as_short",
    ("uint16", "bfloat16"): "__ushort_as_bfloat16",
    ("int16", "bfloat16"): "__short_as_bfloat16",
}
_WORDS = {"and": "&&", "or": "||"}
_NATIVE_HALF_OPERATORS = ("+", "-", "*", *COMPARISONS)


def translate(expr: Expr, environment: Environment, dialect: Dialect) -> CExpr:
    """The expression in C++.

    Raises:
        ScalarError: for a function, type or conversion that the language lacks; it names the source line.
        DialectError: for an element type without a C++ type.
    """
    return _Translator(environment, dialect).value(expr)


def convert(value: CExpr, source: DType, target: DType, dialect: Dialect) -> CExpr:
    """`value` of one element type as another, rounding to nearest; floats to integers are cut towards 0."""
    if source == target:
        return value
    if target.kind == "bool":
        if source.is_float and source.bits < 16:  # which have no operators
            return convert(convert(value, source, float32, dialect), float32, target, dialect)
        return Operation(
            "!=", value, Literal(0) if source.is_integer else Literal(0.0, dialect.type_name(source))
        )
    if source.kind == "bool" and target.name == "bfloat16" and dialect.language == "hip":
        one, zero = (Literal(number, dialect.type_name(target)) for number in (1.0, 0.0))
        return Ternary(value, one, zero)  # clang 20 crashes on the conversion, also by way of fp32
    by_float = (
        source.bits == target.bits == 16 and source.is_float and target.is_float
    )  # HIP has no other way
    if (
        by_float
        or (_detours(source, dialect) and target != float32)
        or (_detours(target, dialect) and source != float32)
    ):
        return convert(convert(value, source, float32, dialect), float32, target, dialect)
    name = dialect.type_name(target)
    return StaticCast(name, value, functional=target.is_integer and " " not in name)


def _detours(dtype: DType, dialect: Dialect) -> bool:
    """Converts to and from float32 alone."""
    return dtype.is_float and (dtype.bits < 16 or (dtype.bits == 16 and dialect.language == "cuda"))


class _Translator:
    def __init__(self, environment: Environment, dialect: Dialect) -> None:
        self._environment = environment
        self._dialect = dialect

    def value(self, expr: Expr) -> CExpr:
        match expr:
            case Const(value, dtype):
                named = self._environment.constant(expr)
                return Literal(value, self._dialect.type_name(dtype)) if named is None else named
            case Var(name):
                return self._environment.variables.get(name, Name(name))
            case Load():
                return self._environment.load(expr)
            case Unary("not", operand):
                return Prefix("!", self.value(operand))
            case Unary(op, operand, dtype) if self._promotes(dtype):
                return self._narrowed(Prefix(op, self._float(operand)), dtype)
            case Unary(op, operand):
                return Prefix(op, self.value(operand))
            case Binary():
                return self._binary(expr)
            case Select(condition, then, otherwise):
                return Ternary(self.value(condition), self.value(then), self.value(otherwise))
            case Cast(operand, dtype):
                wider = dtype.is_float or dtype.kind == "bool" or dtype.bits > operand.dtype.bits
                settled = self._settled(operand) if wider else self.value(operand)
                return convert(settled, operand.dtype, dtype, self._dialect)
            case Bitcast(operand, dtype):
                return self._bitcast(expr, operand, dtype)
            case Call():
                return self._call(expr)
            case _:
                assert_never(expr)

    # ------------------------------------------------------------------------------------- 16-bit and 8-bit floats

    def _promotes(self, dtype: DType) -> bool:
        """Whether arithmetic of this type is done in float32."""
        native = dtype.bits == 16 and (self._dialect.language == "cuda" or dtype.name == "float16")
        return dtype.is_float and dtype.bits <= 16 and not native

    def _float(self, operand: Expr) -> CExpr:
        if isinstance(operand, Const):
            return Literal(float(operand.value), "float")
        if isinstance(operand, Cast) and operand.operand.dtype == operand.dtype:
            return self._float(operand.operand)
        return convert(self.value(operand), operand.dtype, float32, self._dialect)

    def _narrowed(self, value: CExpr, dtype: DType) -> CExpr:
        return convert(value, float32, dtype, self._dialect)

    # ------------------------------------------------------------------------------------- operators

    def _binary(self, expr: Binary) -> CExpr:
        op, operands = expr.op, (expr.left, expr.right)
        dtype = expr.left.dtype
        if op in ("and", "or"):
            return Operation(_WORDS[op], self.value(expr.left), self.value(expr.right))
        if op in ("min", "max"):
            return self._function(op, operands, dtype, expr)
        if dtype.kind == "bool" and op in ("&", "|", "^"):
            spelled = {"&": "&&", "|": "||", "^": "!="}[op]
            return Operation(spelled, self.value(expr.left), self.value(expr.right))
        if (
            dtype.is_float
            and dtype.bits <= 16
            and (self._promotes(dtype) or op not in _NATIVE_HALF_OPERATORS)
        ):
            result = Operation(op, self._float(expr.left), self._float(expr.right))
            return result if op in COMPARISONS else self._narrowed(result, dtype)
        if op in ("//", "%"):
            return self._division(expr)
        left, right = self._operand(expr.left), self._operand(expr.right)
        if op in COMPARISONS or op == ">>":
            left, right = self._settled(expr.left, left), self._settled(expr.right, right)
        if op == "+" and dtype.is_integer and isinstance(right, Operation) and right.op in ("+", "-"):
            return Operation(right.op, Operation("+", left, right.left), right.right)  # no brackets needed
        return Operation(op, left, right)

    def _operand(self, expr: Expr) -> CExpr:
        """An operand beside one that is no constant: C++ itself makes a float of the file's integers there."""
        value = self.value(expr)
        return value.operand if isinstance(expr, Const) and isinstance(value, StaticCast) else value

    def _division(self, expr: Binary) -> CExpr:
        if expr.dtype.is_float:
            raise ScalarError(f"{expr.location}: {expr.op} needs integers, not {expr.dtype}")
        left, right = self._settled(expr.left), self._settled(expr.right)
        if self._non_negative(expr.left) and self._non_negative(expr.right):
            return Operation("/" if expr.op == "//" else "%", left, right)
        name = "floor_div" if expr.op == "//" else "floor_mod"
        return CallC(Name(name), (self._typed(expr.left, left), self._typed(expr.right, right)))

    def _typed(self, expr: Expr, value: CExpr) -> CExpr:
        """The value in its own type, for a template that takes two of one: C++ makes ints of narrow integers."""
        plain = isinstance(expr, Load | Var | Const | Cast) or isinstance(value, StaticCast)
        narrow = expr.dtype.is_integer and expr.dtype.bits in (8, 16)
        return convert(value, int32, expr.dtype, self._dialect) if narrow and not plain else value

    def _settled(self, expr: Expr, value: CExpr | None = None) -> CExpr:
        """The value in the range of its type: C++ computes narrow integers as int, and what asks for more than their
        low bits must not see beyond them."""
        value = self.value(expr) if value is None else value
        if not expr.dtype.is_integer or expr.dtype.bits not in (8, 16) or not may_leave_type(expr):
            return value
        return convert(value, int32, expr.dtype, self._dialect)

    def _non_negative(self, expr: Expr) -> bool:
        low, _ = interval(expr, self._environment.ranges)
        return low is not None and low >= 0

    # ------------------------------------------------------------------------------------- functions

    def _call(self, expr: Call) -> CExpr:
        if expr.function in CLASSIFICATIONS:
            (operand,) = expr.arguments
            small = operand.dtype.bits <= 16
            return CallC(Name(expr.function), (self._float(operand) if small else self.value(operand),))
        return self._function(expr.function, expr.arguments, expr.dtype, expr)

    def _function(self, name: str, operands: tuple[Expr, ...], dtype: DType, at: Expr) -> CExpr:
        if not dtype.is_float:
            return self._integer_function(name, operands, dtype, at)
        if dtype.bits <= 16:
            native = self._dialect.half_functions.get(name)
            if native is not None and dtype.bits == 16:
                return CallC(Name(native), tuple(map(self.value, operands)))
            values = tuple(map(self._float, operands))
            return self._narrowed(self._float_function(name, values, float32, at), dtype)
        return self._float_function(name, tuple(map(self.value, operands)), dtype, at)

    def _float_function(self, name: str, values: tuple[CExpr, ...], dtype: DType, at: Expr) -> CExpr:
        if name == "sigmoid":
            one = Literal(1.0, self._dialect.type_name(dtype))
            decay = self._float_function("exp", (Prefix("-", values[0]),), dtype, at)
            return Operation("/", one, Operation("+", one, decay))
        spelled = self._dialect.native_functions.get(name) if dtype == float32 else None
        spelled = spelled or float_function(name, double=dtype.bits == 64)
        if spelled is None:
            raise ScalarError(f"{at.location}: {self._dialect.title} has no function {name} of {dtype}")
        return CallC(Name(spelled), values)

    def _integer_function(self, name: str, operands: tuple[Expr, ...], dtype: DType, at: Expr) -> CExpr:
        if name not in INTEGER_FUNCTIONS:
            raise ScalarError(f"{at.location}: {name} needs a float, not {dtype}; convert it with T.cast")
        if name == "abs" and dtype.kind in ("uint", "bool"):
            return self.value(operands[0])
        spelled = "llabs" if name == "abs" and dtype.bits == 64 else INTEGER_FUNCTIONS[name]
        return CallC(Name(spelled), tuple(map(self._settled, operands)))

    def _bitcast(self, expr: Bitcast, operand: Expr, dtype: DType) -> CExpr:
        pair = (operand.dtype.name, dtype.name)
        value = self.value(operand)
        if operand.dtype.is_integer and dtype.is_integer:
            return convert(value, operand.dtype, dtype, self._dialect)
        spelled = _BITCASTS.get(pair)
        if spelled is None and self._dialect.language == "cuda":
            spelled = _CUDA_BITCASTS.get(pair)
        if spelled is not None:
            return CallC(Name(spelled), (value,))
        return CallC(Name("__builtin_bit_cast"), (Name(self._dialect.type_name(dtype)), value))
