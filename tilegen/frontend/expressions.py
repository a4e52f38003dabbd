"""Expressions: Python evaluates what holds no tile value, the rest becomes IR."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

from tilegen.diagnostics import closest
from tilegen.frontend import containers
from tilegen.frontend.calls import call
from tilegen.frontend.containers import python
from tilegen.frontend.context import Context
from tilegen.frontend.early_extents import bind_early
from tilegen.frontend.extents import resolve, unbound_remedy
from tilegen.frontend.foreign import remedy_for_word
from tilegen.frontend.values import (
    BufferSlice,
    ConstExtent,
    Method,
    NamedInt,
    is_expr,
    is_number,
    is_tile_value,
    number_to_const,
)
from tilegen.ir import build
from tilegen.ir.expressions import BinaryOp, Const, Expr
from tilegen.ir.nodes import Buffer

_BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.BitXor: ("^", operator.xor),
    ast.MatMult: ("@", operator.matmul),
}
_COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Is: ("is", operator.is_),
    ast.IsNot: ("is not", operator.is_not),
    ast.In: ("in", lambda a, b: a in b),
    ast.NotIn: ("not in", lambda a, b: a not in b),
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}


def evaluate(context: Context, node: ast.expr) -> object:
    """The value of an expression: a Python value, or a tile value that the kernel computes.

    Raises:
        ProgramError: at the sub-expression that cannot be honoured.
    """
    handler = _HANDLERS.get(type(node))
    if handler is None:
        kind = type(node).__name__
        context.fail(
            node,
            f"{_SPOKEN.get(kind, kind)} cannot be used in a tile program",
            "compute it in Python, outside of the program",
        )
    return handler(context, node)


def to_expression(context: Context, value: object, node: ast.expr) -> Expr:
    """A scalar of the kernel from a value; see `Context.expression`."""
    value = resolve(context, value)
    if is_expr(value):
        return value
    if is_number(value):
        return number_to_const(value, context.location(node))
    match value:
        case ConstExtent(name=name):
            context.fail(
                node,
                f"{name} has no value yet",
                unbound_remedy(name),
            )
        case Buffer(name=name):
            context.fail(
                node,
                f"{name} is a whole buffer where a single value is needed",
                f"index it, {name}[i, …], inside a T.Parallel loop",
            )
        case BufferSlice(buffer=buffer):
            context.fail(
                node,
                f"a slice of {buffer.name} stands where a single value is needed",
                "index every axis with a scalar, or use T.copy for whole tiles",
            )
    context.fail(
        node, f"a scalar is needed here, not {_describe(value)}", "give a number, or a value of the kernel"
    )


def _describe(value: object) -> str:
    return "None" if value is None else f"a Python {type(value).__name__}"


# --------------------------------------------------------------------------------------------- names


def _constant(context: Context, node: ast.Constant) -> object:
    return node.value


def _name(context: Context, node: ast.Name) -> object:
    frame = context.frame
    name = node.id
    try:
        value = resolve(context, context.find(name))
    except KeyError:
        pass
    else:
        unbound = isinstance(value, ConstExtent) and node not in context.binding
        return bind_early(context, name, cast(ConstExtent, value)) if unbound else value
    if name in frame.expired:
        context.fail(
            node,
            f"{name} has a value only inside the block that assigns it",
            f"assign {name} before that block, so that it keeps its value after it",
            [(frame.expired[name], f"{name} is assigned in this block")],
        )
    if name in frame.bound_at:
        line = frame.bound_at[name] + frame.source.first_line - 1
        context.fail(node, f"{name} is used before it is assigned", f"its first assignment is on line {line}")
    try:
        return resolve(context, frame.outer(name))
    except KeyError:
        known = [known for scope in frame.scopes for known in scope] + list(frame.bound_at)
        close = closest(name, known)
        context.fail(
            node,
            f"{name} is not defined",
            f"did you mean {close[0]}?" if close else "define or import it before the kernel",
        )


def _attribute(context: Context, node: ast.Attribute) -> object:
    value = context.evaluate(node.value)
    name = node.attr
    match value:
        case Buffer():
            return _buffer_attribute(context, node, value)
        case BufferSlice():
            context.fail(
                node,
                f"a slice of {value.buffer.name} has no attribute {name}",
                f"ask {value.buffer.name} itself",
            )
    if is_expr(value):
        if name == "dtype":
            return value.dtype
        if name == "astype":
            return Method("astype", value)
        context.fail(
            node,
            f"a value computed by the kernel has no attribute {name}",
            "it has .dtype and .astype(dtype); functions of it are words of the language, such as T.exp(x)",
        )
    if isinstance(value, ModuleType) and value.__name__ == "tilegen.language" and name not in value.__all__:
        close = closest(name, value.__all__)
        remedy = f"did you mean T.{close[0]}?" if close else "the language reference lists its words"
        context.fail(node, f"the tile language has no word T.{name}", remedy_for_word(name) or remedy)
    return python(context, node, getattr, value, name)


def _buffer_attribute(context: Context, node: ast.Attribute, buffer: Buffer) -> object:
    match node.attr:
        case "shape":
            return tuple(
                int(e.value) if isinstance(e, Const) and not e.name else _named(e) for e in buffer.shape
            )
        case "dtype":
            return buffer.dtype
        case "name":
            return buffer.name
        case "ndim":
            return buffer.rank
    context.fail(
        node, f"{buffer.name} has no attribute {node.attr}", "a buffer has .shape, .ndim, .dtype and .name"
    )


def _named(extent: Expr) -> object:
    return NamedInt.of(int(extent.value), extent.name) if isinstance(extent, Const) else extent


# --------------------------------------------------------------------------------------------- operators


def _binary(context: Context, node: ast.BinOp) -> object:
    return binary_operation(
        context, node, node.op, context.evaluate(node.left), context.evaluate(node.right), node
    )


def binary_operation(
    context: Context,
    node: ast.BinOp | ast.AugAssign,
    op: ast.operator,
    left: object,
    right: object,
    at: ast.expr,
) -> object:
    """`left op right`, computed by Python where both are Python values; `at` is what errors point at."""
    symbol, function = _BINARY[type(op)]
    if not is_tile_value(left) and not is_tile_value(right):
        return python(context, at, function, left, right)
    if symbol in ("+", "*") and (isinstance(left, tuple | list) or isinstance(right, tuple | list)):
        return python(context, at, function, left, right)
    left_node, right_node = (
        (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
    )
    a = context.expression(left, left_node)
    b = context.expression(right, right_node)
    return arithmetic(context, symbol, a, b, at)


def arithmetic(context: Context, symbol: str, a: Expr, b: Expr, node: ast.expr) -> Expr:
    """The IR of a Python operator on scalars."""
    location = context.location(node)
    floating = a.dtype.is_float or b.dtype.is_float
    if symbol == "@":
        context.fail(
            node, "the @ operator has no meaning for scalars", "write T.gemm(A, B, C) for a matrix product"
        )
    if symbol in ("<<", ">>", "&", "|", "^") and floating:
        context.fail(
            node, f"{symbol} needs integers, not {a.dtype} and {b.dtype}", "T.reinterpret gives the bits"
        )
    if symbol == "**":
        if isinstance(b, Const) and b.value == 2:
            return build.binary("*", a, a, location)
        dtype = build.common_dtype(a, b)
        return build.call("pow", build.cast(a, dtype), build.cast(b, dtype), dtype=dtype, location=location)
    if symbol == "//" and floating:
        quotient = build.binary("/", a, b, location)
        return build.call("floor", quotient, location=location)
    if symbol == "%" and floating:
        context.fail(node, "% needs integers", "write x - T.floor(x / y) * y")
    if symbol in ("//", "%", "/") and isinstance(b, Const) and not floating and b.value == 0:
        context.fail(node, "an integer is divided by 0", "check the parameter that the divisor comes from")
    return build.binary(cast(BinaryOp, symbol), a, b, location)


def _unary(context: Context, node: ast.UnaryOp) -> object:
    value = context.evaluate(node.operand)
    if not is_tile_value(value):
        return python(context, node, _UNARY[type(node.op)], value)
    operand = context.expression(value, node.operand)
    location = context.location(node)
    match node.op:
        case ast.USub():
            return build.negate(operand, location)
        case ast.Not():
            return build.logical_not(to_condition(context, operand, node.operand), location)
        case ast.Invert():
            if operand.dtype.is_float:
                context.fail(node, f"~ needs an integer, not {operand.dtype}", "of a condition, write not")
            return build.invert(operand, location)
    return operand


def to_condition(context: Context, operand: Expr, node: ast.expr) -> Expr:
    """A boolean: numbers are compared with 0, as Python does."""
    if operand.dtype.kind == "bool":
        return operand
    return build.binary("!=", operand, build.const(0), context.location(node))


def _boolean(context: Context, node: ast.BoolOp) -> object:
    """`and` / `or`: Python values decide at generation time, what is left is computed by the kernel."""
    conjunction = isinstance(node.op, ast.And)
    result: Expr | None = None
    value: object = conjunction
    for item in node.values:
        value = context.evaluate(item)
        if not is_tile_value(value):
            if bool(value) != conjunction:
                return value if result is None else not conjunction
            continue
        condition = to_condition(context, context.expression(value, item), item)
        result = (
            condition
            if result is None
            else build.binary("and" if conjunction else "or", result, condition, context.location(node))
        )
    return value if result is None else result


def _compare(context: Context, node: ast.Compare) -> object:
    left_node, left = node.left, context.evaluate(node.left)
    result: object = True
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = context.evaluate(right_node)
        link = _comparison(context, node, op, (left, left_node), (right, right_node))
        if not is_tile_value(link):
            if not link:
                return link
        elif not is_tile_value(result):
            result = link
        else:
            result = build.binary("and", cast(Expr, result), cast(Expr, link), context.location(node))
        left_node, left = right_node, right
    return result


def _comparison(
    context: Context,
    node: ast.Compare,
    op: ast.cmpop,
    left: tuple[object, ast.expr],
    right: tuple[object, ast.expr],
) -> object:
    symbol, function = _COMPARE[type(op)]
    if symbol in ("is", "is not"):
        return function(left[0], right[0])
    both_numeric = all(is_expr(side) or is_number(side) for side, _ in (left, right))
    if not is_tile_value(left[0]) and not is_tile_value(right[0]):
        return python(context, node, function, left[0], right[0])
    if symbol in ("in", "not in"):
        context.fail(
            node, f"{symbol} works on Python values only", "compare the values one by one with == and or"
        )
    if symbol in ("==", "!=") and not both_numeric:
        return function(left[0], right[0])
    a = context.expression(*left)
    b = context.expression(*right)
    return build.binary(cast(BinaryOp, symbol), a, b, context.location(node))


def _conditional(context: Context, node: ast.IfExp) -> object:
    condition = context.evaluate(node.test)
    if isinstance(condition, Const):
        condition = condition.value
    if not is_tile_value(condition):
        return context.evaluate(node.body if condition else node.orelse)
    then = context.expression(context.evaluate(node.body), node.body)
    otherwise = context.expression(context.evaluate(node.orelse), node.orelse)
    test = to_condition(context, context.expression(condition, node.test), node.test)
    return build.select(test, then, otherwise, context.location(node))


_HANDLERS: dict[type[ast.expr], Callable[[Context, Any], object]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Subscript: containers.evaluate_subscript,
    ast.Call: call,
    ast.Tuple: containers.evaluate_tuple,
    ast.List: containers.evaluate_list,
    ast.Set: containers.evaluate_set,
    ast.Dict: containers.evaluate_dict,
    ast.JoinedStr: containers.evaluate_string,
    ast.NamedExpr: containers.evaluate_walrus,
    ast.Lambda: containers.evaluate_lambda,
    ast.ListComp: containers.evaluate_comprehension,
    ast.SetComp: containers.evaluate_comprehension,
    ast.GeneratorExp: containers.evaluate_comprehension,
    ast.DictComp: containers.evaluate_comprehension,
}
_SPOKEN = {"Yield": "yield", "YieldFrom": "yield from", "Await": "await", "Starred": "a starred expression"}
