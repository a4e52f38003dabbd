"""Scalar expressions of the tile IR.

Build them with the functions of `tilegen.ir.build`, which fold constants and check types; the classes
themselves only hold data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tilegen.ir.types import DType, bool_, int32
from tilegen.location import NOWHERE, Location

if TYPE_CHECKING:
    from tilegen.ir.nodes import Buffer

VarRole = Literal["block", "loop", "parallel", "extent", "scalar", "let", "thread", "last"]
BinaryOp = Literal[
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "<<",
    ">>",
    "&",
    "|",
    "^",
    "<",
    "<=",
    ">",
    ">=",
    "==",
    "!=",
    "and",
    "or",
    "min",
    "max",
]
UnaryOp = Literal["-", "not", "~"]
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True, slots=True)
class Const:
    """A literal; floats may be inf or nan. `name` is the generation-time parameter it was written as
    (`block_M`): emitted text names its constants after it. `parts` say how an integer without a name was computed from
    integers that may have one: (operator, left, right)."""

    value: int | float | bool
    dtype: DType
    location: Location = field(default=NOWHERE, compare=False)
    name: str = field(default="", compare=False)
    parts: tuple[Literal["+", "-", "*", "//"], Const, Const] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Var:
    """A named scalar. Names are unique in a kernel, so that equality by name is identity.

    Roles: a block index, a loop or parallel-loop variable, a dynamic tensor extent (a launch argument),
    a scalar argument, a `let`-bound value, the thread index.
    """

    name: str
    dtype: DType = int32
    role: VarRole = "let"
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    op: UnaryOp
    operand: Expr
    dtype: DType
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """`//` and `%` are floor division on integers; both operands have the same dtype (the builder casts)."""

    op: BinaryOp
    left: Expr
    right: Expr
    dtype: DType
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Select:
    condition: Expr
    then: Expr
    otherwise: Expr
    dtype: DType
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Cast:
    operand: Expr
    dtype: DType
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Bitcast:
    operand: Expr
    dtype: DType
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function by its language name: exp2, exp, log, sqrt, rsqrt, abs, tanh, sigmoid, …"""

    function: str
    arguments: tuple[Expr, ...]
    dtype: DType
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Load:
    """One element of a buffer of any scope."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    location: Location = field(default=NOWHERE, compare=False)

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype


Expr = Const | Var | Unary | Binary | Select | Cast | Bitcast | Call | Load

TRUE = Const(True, bool_)
ZERO = Const(0, int32)
ONE = Const(1, int32)
