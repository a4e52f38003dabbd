"""Two neighbouring 16-bit elements computed at once, as the pairs that the hardware adds and multiplies.

Used where one of the operands comes in pairs: unpacked 4-bit integers. A value that both elements share is repeated.
"""

from __future__ import annotations

from tilegen.ir.affine import substitute
from tilegen.ir.expressions import Binary, Const, Expr, Load
from tilegen.ir.nodes import Let, Stmt, Store
from tilegen.ir.traversal import children
from tilegen.ir.types import DType
from tilegen.lower.elements.access import ElementAccess
from tilegen.lower.elements.int4 import PAIRS, find_nibble, nibble_pair, same_in_pair
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Operation, Reinterpret


def packed_values(body: tuple[Stmt, ...], language: str) -> tuple[Expr, ...] | None:
    """The values that a body of named values and stores stores, if all of them come in pairs; None otherwise."""
    lets: dict[str, Expr] = {}
    values = []
    for statement in body:
        match statement:
            case Let(var, value, mutable) if not mutable:
                lets[var.name] = substitute(value, lets)
            case Store(buffer, _, value) if buffer.dtype.name in PAIRS[language]:
                values.append(substitute(value, lets))
            case _:
                return None
    return tuple(values) if values and all(_has_nibble(value) for value in values) else None


def _has_nibble(expr: Expr) -> bool:
    return find_nibble(expr) is not None or any(map(_has_nibble, children(expr)))


def packed(access: ElementAccess, expr: Expr, low: CExpr) -> CExpr | None:
    """The values of an expression at the elements `low` and `low` + 1 as a pair; None where it does not come in
    pairs."""
    nibble = find_nibble(expr)
    if nibble is not None:
        return nibble_pair(access, nibble, low)
    match expr:
        case Const():
            return _repeated(access, access.expression(expr, low), expr.dtype)
        case Load(buffer, indices):
            one = access.expression(expr, low)
            if same_in_pair(access, expr):
                return _repeated(access, one, expr.dtype)
            place = tuple(substitute(index, access.lets) for index in indices)
            if not access.register_run(buffer, place, 2):
                return None
            access.context.align(buffer.name, 4)
            return Reinterpret(pair_name(access, expr.dtype), one, const=True)
        case Binary("+" | "-" | "*" as op, left, right):
            first, second = packed(access, left, low), packed(access, right, low)
            return None if first is None or second is None else Operation(op, first, second)
        case _:
            return None


def pair_name(access: ElementAccess, dtype: DType) -> str:
    """The type of two elements."""
    return PAIRS[access.language.language][dtype.name].name


def _repeated(access: ElementAccess, value: CExpr, dtype: DType) -> CExpr | None:
    pair = PAIRS[access.language.language].get(dtype.name)
    if pair is None:
        return None
    # A vector of HIP takes part with a single value.
    return c.call(pair.repeat, value) if pair.repeat else value
