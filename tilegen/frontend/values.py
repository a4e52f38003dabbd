"""What the walker computes with: Python values, tile values, and the markers that statements consume."""

from __future__ import annotations

import ast
import math
import numbers
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, get_args

from tilegen.ir import build
from tilegen.ir.expressions import Const, Expr
from tilegen.ir.nodes import Buffer, LoopKind
from tilegen.language.tensors import SymbolicExtent
from tilegen.location import Location

if TYPE_CHECKING:
    from tilegen.frontend.context import Frame


Sign = Literal["+", "-", "*", "//"]
_SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv}


class NamedInt(int):
    """A Python int that remembers the parameter it came from. Sums, differences, products and quotients have no name,
    but remember their `parts`; all else that is computed from it is a plain int."""

    name: str
    parts: tuple[Sign, int, int] | None

    @staticmethod
    def of(value: int, name: str) -> NamedInt:
        named = NamedInt(value)
        named.name, named.parts = name, None
        return named

    @staticmethod
    def worked(sign: Sign, left: int, right: int) -> Any:
        """What the operator gives; the operand itself where it changes nothing."""
        if not isinstance(left, int) or not isinstance(right, int):
            return NotImplemented
        value = _SIGNS[sign](int(left), int(right))
        neutral = 1 if sign in ("*", "//") else 0
        if right == neutral:
            return left
        if left == neutral and sign in ("+", "*"):
            return right
        if isinstance(left, bool) or isinstance(right, bool):
            return value
        match sign, left:
            case "*", NamedInt(parts=("//", whole, divisor)) if divisor == right and whole % divisor == 0:
                return whole
            case _:
                pass
        result = NamedInt.of(value, "")
        result.parts = (sign, left, right)
        return result

    def __add__(self, other: int) -> Any:
        return NamedInt.worked("+", self, other)

    def __radd__(self, other: int) -> Any:
        return NamedInt.worked("+", other, self)

    def __sub__(self, other: int) -> Any:
        return NamedInt.worked("-", self, other)

    def __rsub__(self, other: int) -> Any:
        return NamedInt.worked("-", other, self)

    def __mul__(self, other: int) -> Any:
        return NamedInt.worked("*", self, other)

    def __rmul__(self, other: int) -> Any:
        return NamedInt.worked("*", other, self)

    def __floordiv__(self, other: int) -> Any:
        return NamedInt.worked("//", self, other)

    def __rfloordiv__(self, other: int) -> Any:
        return NamedInt.worked("//", other, self)


class NamedFloat(float):
    """A finite Python float that remembers the name it was given; arithmetic gives plain floats."""

    name: str

    @staticmethod
    def of(value: float, name: str) -> NamedFloat:
        named = NamedFloat(value)
        named.name = name
        return named


def named_number(value: object, name: str) -> object:
    """Integers and finite floats remember their names, so that emitted text has them; other values stay as they are."""
    if type(value) is int:
        return NamedInt.of(value, name)
    if type(value) is float and math.isfinite(value):
        return NamedFloat.of(value, name)
    return value


@dataclass(frozen=True, slots=True)
class Span:
    """One sliced axis: the first index and, where it is known, the number of elements."""

    start: Expr
    extent: int | None


@dataclass(frozen=True, slots=True)
class BufferSlice:
    """A buffer indexed with at least one slice; an item is an index or a span, one a buffer axis."""

    buffer: Buffer
    items: tuple[Expr | Span, ...]
    location: Location


@dataclass(slots=True)
class ConstExtent:
    """A name made by T.const; `value` is bound by the annotation of an argument at `bound_at`."""

    name: str
    location: Location
    value: int | Expr | None = None
    bound_at: Location | None = None
    bound_as: str = ""


@dataclass(frozen=True, slots=True)
class Loop:
    """What T.serial and its like return, for the `for` statement."""

    word: str
    kind: LoopKind | Literal["parallel", "grid"]
    extents: tuple[Expr, ...]  # of parallel, grid and persistent loops
    start: Expr | None = None  # of the others
    stop: Expr | None = None
    step: Expr | None = None
    num_stages: int | None = None
    order: tuple[int, ...] | None = None
    stage: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """What T.Kernel returns, for the `with` statement."""

    grid: tuple[Expr, ...]
    threads: int
    persistent: bool | None
    cluster: tuple[int, int, int]
    min_blocks: int | None


@dataclass(frozen=True, slots=True)
class ChosenLayout:
    """The layout that inference chooses for a shared tile: what TileLang's programs ask for as its swizzle."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class TensorDeclaration:
    """What T.Tensor returns inside a program: shape items as evaluated, and the places they were written at."""

    shape: tuple[object, ...]
    dtype: object
    strides: tuple[object, ...] | None
    location: Location


@dataclass(frozen=True, slots=True)
class LocalFunction:
    """A function defined inside a tile program, or a macro: inlined where it is called."""

    name: str
    tree: ast.FunctionDef
    frame: Frame
    defaults: tuple[object, ...]
    keyword_defaults: dict[str, object]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a tile value, such as `x.astype`."""

    name: str
    receiver: Expr


TileValue = Expr | Buffer | BufferSlice
_EXPR_TYPES: tuple[type, ...] = get_args(Expr)
_TILE_TYPES: tuple[type, ...] = (*_EXPR_TYPES, Buffer, BufferSlice, Method, Loop, KernelLaunch, ConstExtent)


def is_tile_value(value: object) -> bool:
    """Whether a value belongs to the kernel's run time."""
    return isinstance(value, _TILE_TYPES)


def holds_tile_value(value: object) -> bool:
    """Whether a value is a tile value or a container of some."""
    if isinstance(value, tuple | list | set | frozenset):
        return any(holds_tile_value(item) for item in value)
    if isinstance(value, dict):
        return any(holds_tile_value(item) for item in (*value.keys(), *value.values()))
    return is_tile_value(value) or isinstance(value, SymbolicExtent)


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, numbers.Real)


def is_expr(value: object) -> TypeGuard[Expr]:
    return isinstance(value, _EXPR_TYPES)


def _parts(value: object, location: Location) -> tuple[Sign, Const, Const] | None:
    if not isinstance(value, NamedInt) or value.parts is None:
        return None
    sign, left, right = value.parts
    return sign, number_to_const(left, location), number_to_const(right, location)


def number_to_const(value: object, location: Location) -> Const:
    """The literal for a Python (or NumPy) number, with the name of the parameter it is."""
    if isinstance(value, NamedInt | NamedFloat):
        plain = int(value) if isinstance(value, NamedInt) else float(value)
        literal = build.const(plain, None, location)
        return Const(literal.value, literal.dtype, location, value.name, _parts(value, location))
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return build.const(bool(value), None, location)
    if isinstance(value, numbers.Integral):
        return build.const(int(value), None, location)
    assert isinstance(value, numbers.Real)
    return build.const(float(value), None, location)
