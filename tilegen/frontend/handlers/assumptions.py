"""T.assume."""

from __future__ import annotations

import ast

import numpy as np

from tilegen.frontend.calls import WordCall, handles
from tilegen.frontend.values import is_expr, is_tile_value
from tilegen.ir import build
from tilegen.ir.expressions import Binary, Cast, Const, Expr, Unary, Var
from tilegen.ir.nodes import Assumption
from tilegen.ir.walk import subexpressions

_OPERATORS = ("+", "-", "*", "//", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or", "min", "max")


@handles("assume")
def _assume(call: WordCall) -> None:
    """What the caller promises of extents: checked now where they are known, else by the launcher."""
    context, node = call.context, call.node_of("condition")
    if context.tile_depth or context.parallel_depth:
        call.context.fail(
            call.node,
            "T.assume stands in a loop or an if of the kernel, but it is checked once, before the launch",
            "move it before the with T.Kernel(…) block",
        )
    value = call.arguments["condition"]
    if isinstance(value, Const):
        value = value.value
    if not is_expr(value):
        if is_tile_value(value) or not isinstance(value, bool | int | np.bool_):
            call.fail(
                "condition", "the condition of T.assume is a comparison", "write T.assume(K % 8 == 0), say"
            )
        if not value:
            _refuse(call, node)
        return
    condition = context.expression(value, node)
    _check(call, condition)
    for part in reversed(list(subexpressions(condition))):
        if isinstance(part, Binary) and part.op in ("//", "%") and not isinstance(part.right, Const):
            positive = build.binary(">", part.right, build.const(0), call.location)
            condition = build.binary("and", positive, condition, call.location)
    context.assumptions.append(Assumption(condition, ast.unparse(node), call.location))


def _refuse(call: WordCall, node: ast.expr) -> None:
    """The condition is false for the extents at hand."""
    values = []
    for name in dict.fromkeys(part.id for part in ast.walk(node) if isinstance(part, ast.Name)):
        value = call.context.evaluate(ast.Name(name, ast.Load(), **_place(node)))
        if isinstance(value, int):
            values.append(f"{name} = {int(value)}")
    call.fail(
        "condition",
        f"{ast.unparse(node)} does not hold" + (f": {', '.join(values)}" if values else ""),
        "the program is made for tensors of which it holds: pass such, or change the program",
    )


def _place(node: ast.expr) -> dict[str, int]:
    return {
        "lineno": node.lineno,
        "col_offset": node.col_offset,
        "end_lineno": node.end_lineno or node.lineno,
        "end_col_offset": node.end_col_offset or node.col_offset,
    }


def _check(call: WordCall, condition: Expr) -> None:
    """Refuses what a launcher cannot evaluate from its arguments."""
    for part in subexpressions(condition):
        match part:
            case Var(name=name, role=role):
                if role != "extent" and not (role == "scalar" and part.dtype.is_integer):
                    call.fail(
                        "condition",
                        f"T.assume is about what a call fixes, but {name} is only known to the kernel",
                        "use extents and integer scalars of the call; guard other values with an if",
                    )
            case Binary(op=op, right=right) if op in _OPERATORS and not part.left.dtype.is_float:
                signed = any(isinstance(v, Var) and v.role == "scalar" for v in subexpressions(part))
                if op in ("//", "%") and (signed or (isinstance(right, Const) and right.value <= 0)):
                    call.fail(
                        "condition", f"T.assume takes {op} of extents and positive numbers", "compare instead"
                    )
            case Const() | Cast() if not part.dtype.is_float:
                pass
            case Unary(op="not"):
                pass
            case _:
                call.fail(
                    "condition",
                    "T.assume takes comparisons of integers, with + - * // %, min, max, and, or, not",
                    "write it with these",
                )
