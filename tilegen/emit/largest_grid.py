"""How many blocks a grid may have at most, whatever the extents of a launch: what never exceeds a limit needs no
check."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.model.expressions import CallC, CExpr, Literal, Name, Operation
from tilegen.model.kernel import KernelModel

_LARGEST_INT = 2**31 - 1  # of an extent; those below 0 are refused


def largest_count(count: CExpr, model: KernelModel) -> int | None:
    """The most that a formula of the grid gives; None where that is not known."""
    values = {constant.name: constant.value for constant in model.constants}
    return _most(count, values, dict.fromkeys(model.extents, _LARGEST_INT))


def _most(count: CExpr, constants: Mapping[str, CExpr], extents: Mapping[str, int]) -> int | None:
    def most(part: CExpr) -> int | None:
        return _most(part, constants, extents)

    match count:
        case Literal(bool() | float()):
            return None
        case Literal(int() as value):
            return value
        case Name(name) if name in extents:
            return extents[name]
        case Name(name) if name in constants:
            return most(constants[name])
        case CallC(Name("ceildiv"), (left, right)):
            return most(Operation("/", Operation("-", Operation("+", left, right), Literal(1)), right))
        case Operation(op, left, right):
            return _computed(op, most(left), most(right), fixed=_is_fixed(right, constants))
        case _:
            return None


def _computed(op: str, left: int | None, right: int | None, fixed: bool) -> int | None:
    """The most of an operation between counts of 0 or more; `fixed` is a right side that is a constant of the file."""
    if left is None or right is None:
        return None
    if op == "+":
        return left + right
    if op == "*":
        return left * right
    if op == "-" and fixed and right >= 0:
        return left - right
    return left // right if op == "/" and fixed and right > 0 else None


def _is_fixed(expression: CExpr, constants: Mapping[str, CExpr]) -> bool:
    match expression:
        case Literal(int()):
            return True
        case Name(name) if name in constants:
            return _is_fixed(constants[name], constants)
        case Operation(left=left, right=right):
            return _is_fixed(left, constants) and _is_fixed(right, constants)
        case _:
            return False
