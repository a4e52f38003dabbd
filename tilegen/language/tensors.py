"""Tensors of a tile program: their shapes, dtypes and strides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tilegen.errors import TilegenError
from tilegen.ir import build
from tilegen.ir.expressions import BinaryOp, Const, Expr, Var
from tilegen.ir.types import DType, as_dtype, float32
from tilegen.language.operation import operation, outside_kernel

Extent = int | str | Expr
DTypeLike = DType | str


class SymbolicExtent:
    """An extent that is known at launch only; Python arithmetic on it gives extents again."""

    __slots__ = ("expr",)

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def __repr__(self) -> str:
        return self.expr.name if isinstance(self.expr, Var) else "SymbolicExtent(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolicExtent) and self.expr == other.expr

    def __hash__(self) -> int:
        return hash(self.expr)

    def _combine(self, op: BinaryOp, other: object, reflected: bool = False) -> SymbolicExtent:
        if isinstance(other, SymbolicExtent):
            operand: Expr | int = other.expr
        elif isinstance(other, int):
            operand = other
        else:
            raise TypeError(f"extents are combined with integers and extents, not {other!r}")
        left, right = (operand, self.expr) if reflected else (self.expr, operand)
        return SymbolicExtent(build.binary(op, left, right))

    def __add__(self, other: object) -> SymbolicExtent:
        return self._combine("+", other)

    def __radd__(self, other: object) -> SymbolicExtent:
        return self._combine("+", other, reflected=True)

    def __sub__(self, other: object) -> SymbolicExtent:
        return self._combine("-", other)

    def __rsub__(self, other: object) -> SymbolicExtent:
        return self._combine("-", other, reflected=True)

    def __mul__(self, other: object) -> SymbolicExtent:
        return self._combine("*", other)

    def __rmul__(self, other: object) -> SymbolicExtent:
        return self._combine("*", other, reflected=True)

    def __floordiv__(self, other: object) -> SymbolicExtent:
        return self._combine("//", other)

    def __mod__(self, other: object) -> SymbolicExtent:
        return self._combine("%", other)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What a tensor argument looks like: `shape` of integers, names of dynamic extents, or expressions over them;
    `strides` in elements, None for row-major."""

    shape: tuple[Extent, ...]
    dtype: DType
    strides: tuple[Extent, ...] | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)


def as_extent(item: Any, holder: str = "a shape holds") -> Extent:
    """A shape item (or a stride) as an int, a name or an expression.

    Raises:
        TilegenError: for anything else, and for a negative extent.
    """
    if isinstance(item, SymbolicExtent):
        item = item.expr
    match item:
        case Const(value=value):
            return int(value)
        case Var(name=name, role="extent"):
            return name
        case str():
            if not item.isidentifier():
                raise TilegenError(f"a dynamic extent is named by an identifier, not {item!r}")
            return item
        case bool():
            raise TilegenError(f"{holder} integers, not booleans")
    if hasattr(item, "__index__"):
        value = int(item.__index__())
        if value < 0:
            raise TilegenError(f"{holder} non-negative integers, not {value}")
        return value
    if isinstance(item, Expr):
        return item
    raise TilegenError(f"{holder} integers, names and T.dynamic extents, not {item!r}")


def _extents(items: object, holder: str = "a shape holds") -> tuple[Extent, ...]:
    if isinstance(items, Iterable) and not isinstance(items, str):
        return tuple(as_extent(item, holder) for item in items)
    return (as_extent(items, holder),)


def row_major_strides(shape: Sequence[Extent]) -> tuple[int | None, ...]:
    """The strides of a tensor without gaps; None where they come from extents that stay open."""
    strides: list[int | None] = []
    step: int | None = 1
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent if step is not None and isinstance(extent, int) else None
    return tuple(reversed(strides))


def make_spec(shape: object, dtype: object = float32, strides: object = None) -> TensorSpec:
    """Checks and normalises the arguments of `T.Tensor`.

    Raises:
        TilegenError: for an unknown dtype, a bad extent, or strides of another rank.
    """
    extents = _extents(shape)
    steps = None if strides is None else _extents(strides, "strides are")
    if steps is not None and len(steps) != len(extents):
        raise TilegenError(f"{len(steps)} strides are given for a tensor of rank {len(extents)}")
    return TensorSpec(extents, as_dtype(dtype), steps)


class _TensorWord:
    """`T.Tensor(shape, dtype, strides=None)`, also spelled `T.Tensor[shape, dtype]`.

    In a tile program it declares an argument; outside it gives the `TensorSpec` for `emit`. Shape items are
    integers, names ("M": a dynamic extent), `T.dynamic("M")`, or expressions over them.
    """

    __tile_operation__ = "Tensor"

    def __call__(self, shape: Any, dtype: Any = float32, strides: Any = None) -> TensorSpec:
        return make_spec(shape, dtype, strides)

    def __getitem__(self, items: Any) -> TensorSpec:
        shape, dtype = items
        return make_spec(shape, dtype)


Tensor = _TensorWord()
Buffer = Tensor
# Annotations of macros' parameters, as TileLang's programs write them: they only describe.
SharedBuffer = Tensor
FragmentBuffer = Tensor
LocalBuffer = Tensor


@operation
def StridedTensor(shape: Any, strides: Any, dtype: Any = float32) -> TensorSpec:
    """A tensor with explicit strides, in elements."""
    return make_spec(shape, dtype, strides)


@operation
def dynamic(name: str, dtype: Any = "int32") -> SymbolicExtent:
    """An extent that becomes a launch argument."""
    if not name.isidentifier():
        raise TilegenError(f"a dynamic extent is named by an identifier, not {name!r}")
    return SymbolicExtent(Var(name, as_dtype(dtype), "extent"))


symbolic = dynamic


@operation
def const(names: str) -> Any:
    """`M, N = T.const("M, N")`: extents that the argument annotations bind to the shapes that emit is given."""
    raise outside_kernel("const")


@operation
def empty(shape: Any, dtype: Any = float32) -> Any:
    """An output tensor in global memory, allocated by the caller's framework; `return` it."""
    raise outside_kernel("empty")


def spec_of_array(shape: Sequence[int], dtype: object, strides: Sequence[int] | None = None) -> TensorSpec:
    """The spec of a concrete array (strides in elements)."""
    return make_spec(tuple(shape), dtype, None if strides is None else tuple(strides))
