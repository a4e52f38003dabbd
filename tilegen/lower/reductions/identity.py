"""What a reduction starts from: the value that changes nothing."""

from __future__ import annotations

import math

from tilegen.ir import build
from tilegen.ir.expressions import Expr
from tilegen.ir.nodes import ReduceOp
from tilegen.ir.types import DType


def identity(op: ReduceOp, dtype: DType) -> Expr:
    """The value of this type that the operation leaves every other as it is with."""
    match op:
        case "max" | "absmax":
            value: int | float = -math.inf if dtype.is_float else _limits(dtype)[0]
        case "min":
            value = math.inf if dtype.is_float else _limits(dtype)[1]
        case "prod" | "all":
            value = 1
        case "bitand":
            value = _limits(dtype)[1] if dtype.kind == "uint" else -1
        case _:
            value = 0
    return build.const(float(value) if dtype.is_float else value, dtype)


def _limits(dtype: DType) -> tuple[int, int]:
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
