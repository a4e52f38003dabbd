"""Expressions: Python evaluates what holds no tile value, the rest becomes IR."""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, cast

from tilegen.frontend.calls import call
from tilegen.frontend.context import Context
from tilegen.frontend.indexing import index_buffer
from tilegen.frontend.values import (
    BufferSlice,
    ConstExtent,
    Method,
    holds_tile_value,
    is_expr,
    is_number,
    is_tile_value,
    unwrap,
)
from tilegen.ir import build
from tilegen.ir.expressions import BinaryOp, Const, Expr, Load, Var
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
        context.fail(node, f"{_SPOKEN.get(kind, kind)} cannot be used in a tile program")
    return handler(context, node)


def to_expression(context: Context, value: object, node: ast.expr) -> Expr:
    """A scalar of the kernel from a value; see `Context.expression`."""
    value = unwrap(value)
    if is_expr(value):
        return cast(Expr, value)
    if is_number(value):
        from tilegen.frontend.values import number_to_const

        return number_to_const(value, context.location(node))
    match value:
        case ConstExtent(name=name):
            context.fail(
                node,
                f"{name} has no value yet",
                "T.const names take their values from the annotations of the arguments; annotate the tensor that has "
                f"{name} in its shape before this line",
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
    context.fail(node, f"a scalar is needed here, not {_describe(value)}")


def _describe(value: object) -> str:
    return "None" if value is None else f"a Python {type(value).__name__}"


def python(context: Context, node: ast.expr, function: Callable[..., Any], *arguments: object) -> object:
    """Lets Python compute; its exceptions become errors at the node."""
    try:
        return unwrap(function(*arguments))
    except Exception as error:
        context.fail(node, f"Python raises {type(error).__name__} here: {error}")


# --------------------------------------------------------------------------------------------- names


def _constant(context: Context, node: ast.Constant) -> object:
    return node.value


def _name(context: Context, node: ast.Name) -> object:
    frame = context.frame
    name = node.id
    try:
        return unwrap(context.find(name))
    except KeyError:
        pass
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
        return unwrap(frame.outer(name))
    except KeyError:
        known = [known for scope in frame.scopes for known in scope] + list(frame.bound_at)
        close = difflib.get_close_matches(name, known, n=1)
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
            context.fail(node, f"a slice of {value.buffer.name} has no attribute {name}")
    if is_expr(value):
        if name == "dtype":
            return cast(Expr, value).dtype
        if name == "astype":
            return Method("astype", cast(Expr, value))
        context.fail(
            node,
            f"a value computed by the kernel has no attribute {name}",
            "it has .dtype and .astype(dtype); functions of it are words of the language, such as T.exp(x)",
        )
    if isinstance(value, ModuleType) and value.__name__ == "tilegen.language" and not hasattr(value, name):
        close = difflib.get_close_matches(name, value.__all__, n=1, cutoff=0.5)
        context.fail(
            node,
            f"the tile language has no word T.{name}",
            f"did you mean T.{close[0]}?" if close else "the language reference lists its words",
        )
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
    from tilegen.frontend.values import NamedInt

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
        context.fail(node, "an integer is divided by 0")
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
                context.fail(node, f"~ needs an integer, not {operand.dtype}")
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


# --------------------------------------------------------------------------------------------- containers


def _subscript(context: Context, node: ast.Subscript) -> object:
    value = context.evaluate(node.value)
    match value:
        case Buffer():
            return index_buffer(context, value, node)
        case BufferSlice(buffer=buffer):
            context.fail(
                node, f"a slice of {buffer.name} is sliced again", f"index {buffer.name} once, with all axes"
            )
        case Var(name=name) if name in context.mutable:
            if context.evaluate(node.slice) != 0:
                context.fail(node, "a scalar variable has the single element [0]")
            return value
        case Load(buffer=buffer):
            context.fail(
                node,
                f"an element of {buffer.name} is indexed again",
                f"index {buffer.name} once, with all axes",
            )
    if is_expr(value):
        context.fail(node, "a scalar cannot be indexed")
    index = _python_index(context, node.slice)
    if holds_tile_value(index) and not (isinstance(value, dict) and isinstance(index, Buffer)):
        context.fail(
            node.slice,
            f"a Python {type(value).__name__} is indexed with a value that only the kernel knows",
            "index it with a Python integer (a loop over Python's own range is unrolled), or use a buffer",
        )
    return python(context, node, operator.getitem, value, index)


def _python_index(context: Context, node: ast.expr) -> object:
    match node:
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(*(None if part is None else context.evaluate(part) for part in (lower, upper, step)))
        case ast.Tuple(elts=items):
            return tuple(_python_index(context, item) for item in items)
    return context.evaluate(node)


def items_of(context: Context, nodes: Iterable[ast.expr]) -> list[object]:
    """The values of a display's or call's items, with starred ones unpacked."""
    values: list[object] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            value = context.evaluate(node.value)
            if is_tile_value(value):
                context.fail(node, "only Python sequences can be unpacked")
            values.extend(cast(Iterable[object], python(context, node, list, value)))
        else:
            values.append(context.evaluate(node))
    return values


def _tuple(context: Context, node: ast.Tuple) -> object:
    return tuple(items_of(context, node.elts))


def _list(context: Context, node: ast.List) -> object:
    return items_of(context, node.elts)


def _set(context: Context, node: ast.Set) -> object:
    return python(context, node, set, items_of(context, node.elts))


def _dict(context: Context, node: ast.Dict) -> object:
    result: dict[object, object] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            result.update(cast(dict[object, object], context.evaluate(value)))
        else:
            result[context.evaluate(key)] = context.evaluate(value)
    return result


def _string(context: Context, node: ast.JoinedStr) -> object:
    pieces: list[str] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = context.evaluate(part.value)
            if holds_tile_value(value):
                context.fail(part.value, "a string cannot hold a value that only the kernel knows")
            convert = {115: str, 114: repr, 97: ascii}.get(part.conversion, lambda x: x)
            form = context.evaluate(part.format_spec) if part.format_spec else ""
            pieces.append(format(convert(value), cast(str, form)))
        else:
            pieces.append(str(context.evaluate(part)))
    return "".join(pieces)


def _walrus(context: Context, node: ast.NamedExpr) -> object:
    value = context.evaluate(node.value)
    if is_tile_value(value):
        context.fail(
            node, "a value of the kernel is assigned inside an expression", "assign it on a line of its own"
        )
    context.bind(node.target.id, value)
    return value


def _lambda(context: Context, node: ast.Lambda) -> object:
    """A lambda of Python values is compiled by Python; one that captures tile values is refused."""
    parameters = {
        argument.arg for argument in (*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs)
    }
    captured: dict[str, object] = {}
    for inner in ast.walk(node.body):
        if isinstance(inner, ast.Name) and inner.id not in parameters:
            captured[inner.id] = context.evaluate(inner)
            if holds_tile_value(captured[inner.id]):
                context.fail(
                    inner,
                    f"a lambda captures {inner.id}, which only the kernel knows",
                    "write a function decorated with @T.macro and pass the value to it",
                )
    compiled = compile(ast.fix_missing_locations(ast.Expression(node)), context.frame.source.file, "eval")
    return eval(compiled, captured)  # the user's own expression, as Python itself would run it


def _comprehension(
    context: Context, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
) -> object:
    results: list[object] = []

    def visit(generators: list[ast.comprehension]) -> None:
        if not generators:
            if isinstance(node, ast.DictComp):
                results.append((context.evaluate(node.key), context.evaluate(node.value)))
            else:
                results.append(context.evaluate(node.elt))
            return
        first, rest = generators[0], generators[1:]
        iterable = context.evaluate(first.iter)
        if is_tile_value(iterable):
            context.fail(
                first.iter,
                "a comprehension runs at generation time, over Python values only",
                "write a loop: for i in T.Parallel(…) or for i in T.serial(…)",
            )
        for item in cast(Iterable[object], python(context, first.iter, list, iterable)):
            bind_target(context, first.target, item)
            if all(_decided(context, test) for test in first.ifs):
                visit(rest)

    context.frame.scopes.append({})
    try:
        visit(node.generators)
    finally:
        context.frame.scopes.pop()
    if isinstance(node, ast.DictComp):
        return dict(cast(list[tuple[object, object]], results))
    return set(results) if isinstance(node, ast.SetComp) else results


def _decided(context: Context, node: ast.expr) -> bool:
    value = context.evaluate(node)
    if is_tile_value(value):
        context.fail(
            node, "this condition is only known to the kernel, but a comprehension runs at generation time"
        )
    return bool(value)


def bind_target(context: Context, target: ast.expr, value: object) -> None:
    """Binds Python values to a name or a nest of names."""
    match target:
        case ast.Name(id=name):
            context.bind(name, value)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            values = unpack(context, target, value, len(targets))
            for inner, item in zip(targets, values, strict=True):
                bind_target(context, inner, item)
        case _:
            context.fail(target, "only names can be bound here")


def unpack(context: Context, target: ast.expr, value: object, count: int) -> list[object]:
    """The `count` items of a Python sequence."""
    if is_tile_value(value):
        context.fail(target, "a single value of the kernel cannot be unpacked")
    items = cast(list[object], python(context, target, list, value))
    if len(items) != count:
        context.fail(target, f"{count} names are bound to {len(items)} values")
    return items


_HANDLERS: dict[type[ast.expr], Callable[[Context, Any], object]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Subscript: _subscript,
    ast.Call: call,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.JoinedStr: _string,
    ast.NamedExpr: _walrus,
    ast.Lambda: _lambda,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
}
_SPOKEN = {"Yield": "yield", "YieldFrom": "yield from", "Await": "await", "Starred": "a starred expression"}
