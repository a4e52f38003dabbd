"""Subscripts, displays, comprehensions: Python's containers, which may hold tile values."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from typing import Any, cast

from tilegen.frontend.context import Context
from tilegen.frontend.extents import resolve
from tilegen.frontend.indexing import index_buffer
from tilegen.frontend.values import BufferSlice, TensorDeclaration, holds_tile_value, is_expr, is_tile_value
from tilegen.ir.expressions import Load, Var
from tilegen.ir.nodes import Buffer
from tilegen.language.operation import operation_name


def python(context: Context, node: ast.expr, function: Callable[..., Any], *arguments: object) -> object:
    """Lets Python compute; its exceptions become errors at the node."""
    try:
        return resolve(context, function(*arguments))
    except Exception as error:
        context.fail(
            node,
            f"Python raises {type(error).__name__} here: {error}",
            "Python computes this when text is generated: check what goes into it",
        )


def evaluate_subscript(context: Context, node: ast.Subscript) -> object:
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
                context.fail(
                    node,
                    "a scalar variable has the single element [0]",
                    "leave the index out, or allocate T.alloc_local((n,), dtype)",
                )
            return value
        case Load(buffer=buffer):
            context.fail(
                node,
                f"an element of {buffer.name} is indexed again",
                f"index {buffer.name} once, with all axes",
            )
    if is_expr(value):
        context.fail(node, "a scalar cannot be indexed", "index the tile or tensor that it comes from")
    index = _python_index(context, node.slice)
    if operation_name(value) == "Tensor":
        return _tensor_declaration(context, node, index)
    if holds_tile_value(index) and not (isinstance(value, dict) and isinstance(index, Buffer)):
        context.fail(
            node.slice,
            f"a Python {type(value).__name__} is indexed with a value that only the kernel knows",
            "index it with a Python integer (a loop over Python's own range is unrolled), or use a buffer",
        )
    return python(context, node, operator.getitem, value, index)


def _tensor_declaration(context: Context, node: ast.Subscript, index: object) -> TensorDeclaration:
    """`T.Tensor[shape, dtype]`."""
    if not isinstance(index, tuple) or len(index) != 2:
        context.fail(node, "T.Tensor takes a shape and a dtype", "write T.Tensor((M, N), dtype)")
    shape, dtype = index
    items = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    return TensorDeclaration(items, dtype, None, context.location(node))


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
                context.fail(node, "only Python sequences can be unpacked", "pass its elements one by one")
            values.extend(cast(Iterable[object], python(context, node, list, value)))
        else:
            values.append(context.evaluate(node))
    return values


def evaluate_tuple(context: Context, node: ast.Tuple) -> object:
    return tuple(items_of(context, node.elts))


def evaluate_list(context: Context, node: ast.List) -> object:
    return items_of(context, node.elts)


def evaluate_set(context: Context, node: ast.Set) -> object:
    return python(context, node, set, items_of(context, node.elts))


def evaluate_dict(context: Context, node: ast.Dict) -> object:
    result: dict[object, object] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            result.update(cast(dict[object, object], context.evaluate(value)))
        else:
            result[context.evaluate(key)] = context.evaluate(value)
    return result


_CONVERSIONS: dict[str, Callable[[object], object]] = {"s": str, "r": repr, "a": ascii}


def evaluate_string(context: Context, node: ast.JoinedStr) -> object:
    pieces: list[str] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = context.evaluate(part.value)
            if holds_tile_value(value):
                context.fail(
                    part.value,
                    "a string cannot hold a value that only the kernel knows",
                    "it may hold what is known when text is generated: shapes, types, Python numbers",
                )
            convert: Callable[[object], object] = _CONVERSIONS.get(chr(part.conversion % 256), lambda x: x)
            form = context.evaluate(part.format_spec) if part.format_spec else ""
            pieces.append(format(convert(value), cast(str, form)))
        else:
            pieces.append(str(context.evaluate(part)))
    return "".join(pieces)


def evaluate_walrus(context: Context, node: ast.NamedExpr) -> object:
    value = context.evaluate(node.value)
    if is_tile_value(value):
        context.fail(
            node, "a value of the kernel is assigned inside an expression", "assign it on a line of its own"
        )
    context.bind(node.target.id, value)
    return value


def evaluate_lambda(context: Context, node: ast.Lambda) -> object:
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


def evaluate_comprehension(
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
            node,
            "this condition is only known to the kernel, but a comprehension runs at generation time",
            "write T.if_then_else(condition, a, b) for the element",
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
            context.fail(target, "only names can be bound here", "bind a name, and store it in the next line")


def unpack(context: Context, target: ast.expr, value: object, count: int) -> list[object]:
    """The `count` items of a Python sequence."""
    if is_tile_value(value):
        context.fail(target, "a single value of the kernel cannot be unpacked", "bind it to one name")
    items = cast(list[object], python(context, target, list, value))
    if len(items) != count:
        context.fail(target, f"{count} names are bound to {len(items)} values", f"bind {len(items)} names")
    return items
