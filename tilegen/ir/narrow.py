"""Integers of fewer bits than an int, which C++ computes as int: the result has the right low bits, and may lie beyond
the type that the program computes in."""

from __future__ import annotations

from tilegen.ir.expressions import Binary, Call, Cast, Const, Expr, Select, Unary


def may_leave_type(expr: Expr) -> bool:
    """Whether an expression of a narrow integer type, computed as int, may lie outside of the type."""
    match expr:
        case Unary(op, operand):
            return op == "-" or expr.dtype.kind == "uint" or may_leave_type(operand)
        case Binary(op="&", left=left, right=right):
            return not (_is_mask(left) or _is_mask(right)) and (may_leave_type(left) or may_leave_type(right))
        case Binary(op=op, left=left, right=right):
            return op in ("+", "-", "*", "<<") or (
                op in ("|", "^") and (may_leave_type(left) or may_leave_type(right))
            )
        case Select(_, then, otherwise):
            return may_leave_type(then) or may_leave_type(otherwise)
        case Cast(operand, dtype):
            return operand.dtype == dtype and may_leave_type(operand)
        case Call(function, _):
            return function == "abs"
        case _:
            return False


def _is_mask(expr: Expr) -> bool:
    """Whether nothing is left of the bits beyond the type behind an & with this."""
    return isinstance(expr, Const) and expr.value >= 0
