"""Assignments: names, elements, declarations by annotation."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, cast

from tilegen.frontend import arguments
from tilegen.frontend.containers import bind_target, python, unpack
from tilegen.frontend.context import Context
from tilegen.frontend.early_extents import names_alone
from tilegen.frontend.expressions import binary_operation
from tilegen.frontend.indexing import index_buffer
from tilegen.frontend.stores import store
from tilegen.frontend.values import (
    KernelLaunch,
    Loop,
    NamedInt,
    TensorDeclaration,
    holds_tile_value,
    is_expr,
    is_tile_value,
    named_number,
)
from tilegen.frontend.variables import assign_name, assign_variable, define, typed_definition
from tilegen.ir.expressions import Const, Load, Var
from tilegen.ir.nodes import Buffer
from tilegen.ir.types import DType
from tilegen.ir.walk import subexpressions
from tilegen.language.tensors import TensorSpec


def execute_assign(context: Context, node: ast.Assign) -> None:
    first = node.targets[0]
    context.target = first.id if isinstance(first, ast.Name) else ""
    value = context.evaluate(node.value)
    context.target = ""
    if isinstance(value, Loop | KernelLaunch):
        context.fail(
            node.value,
            "loops and kernels cannot be given names",
            "use it in the for or with statement itself",
        )
    for target in node.targets:
        _assign_target(context, node, target, value)


def _assign_target(context: Context, node: ast.stmt, target: ast.expr, value: object) -> None:
    match target:
        case ast.Name(id=name):
            assign_name(context, name, _named(context, name, value), node, target)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            if any(isinstance(item, ast.Starred) for item in targets):
                bind_starred(context, target, targets, value)
                return
            values = unpack(context, target, value, len(targets))
            if _must_settle(context, targets, values):
                values = [
                    _copy_of(context, inner, item, node) for inner, item in zip(targets, values, strict=True)
                ]
            for inner, item in zip(targets, values, strict=True):
                _assign_target(context, node, inner, item)
        case ast.Subscript():
            _assign_element(context, node, target, value)
        case _:
            context.fail(
                target,
                "attributes cannot be assigned in a tile program",
                "keep the value under a name of its own",
            )


def _named(context: Context, name: str, value: object) -> object:
    """Numbers that remember the name they are given: floats, and integers that take the place of a parameter's. Others
    that are computed from parameters say how they were."""
    if type(value) is int or (isinstance(value, NamedInt) and not value.name):
        replaces = name in context.fixed_parameters and not context.inside_kernel
        return named_number(int(value), name) if replaces else value
    return named_number(value, name)


def bind_starred(context: Context, target: ast.expr, targets: Sequence[ast.expr], value: object) -> None:
    """`first, *rest = values` for Python sequences."""
    items = cast(list[object], python(context, target, list, value))
    position = next(i for i, item in enumerate(targets) if isinstance(item, ast.Starred))
    after = len(targets) - position - 1
    if len(items) < position + after:
        context.fail(
            target, f"at least {position + after} values are needed, not {len(items)}", "bind fewer names"
        )
    starred = cast(ast.Starred, targets[position])
    for inner, item in zip(targets[:position], items, strict=False):
        bind_target(context, inner, item)
    bind_target(context, starred.value, items[position : len(items) - after])
    for inner, item in zip(targets[position + 1 :], items[len(items) - after :], strict=True):
        bind_target(context, inner, item)


def _must_settle(context: Context, targets: Sequence[ast.expr], values: Sequence[object]) -> bool:
    """Whether a parallel assignment (`a, b = b, a`) reads what it writes."""
    if not context.inside_kernel or len(targets) < 2:
        return False
    writes_memory = any(isinstance(target, ast.Subscript) for target in targets)
    written = {
        var.name
        for target in targets
        if isinstance(target, ast.Name)
        and isinstance(var := _peek(context, target.id), Var)
        and var.name in context.mutable
    }
    return any(
        (isinstance(part, Load) and writes_memory) or (isinstance(part, Var) and part.name in written)
        for value in values
        if is_expr(value)
        for part in subexpressions(value)
    )


def _peek(context: Context, name: str) -> object:
    try:
        return context.find(name)
    except KeyError:
        return None


def _copy_of(context: Context, target: ast.expr, value: object, node: ast.stmt) -> object:
    if not is_expr(value) or isinstance(value, Const):
        return value
    hint = f"{target.id}_new" if isinstance(target, ast.Name) else "value"
    return define(context, hint, value, context.location(node))


def _assign_element(context: Context, node: ast.stmt, target: ast.Subscript, value: object) -> None:
    container = context.evaluate(target.value)
    if isinstance(container, Buffer):
        store(context, index_buffer(context, container, target), value, node, target)
        return
    if isinstance(container, Var) and container.name in context.mutable:
        if context.evaluate(target.slice) != 0:
            context.fail(
                target,
                "a scalar variable has the single element [0]",
                "leave the index out, or allocate T.alloc_local((n,), dtype)",
            )
        assign_variable(context, container, context.expression(value, target), node)
        return
    if is_tile_value(container):
        context.fail(target, "this value cannot be assigned by element", "assign to an element of a buffer")
    index = context.evaluate(target.slice)
    if holds_tile_value(index) and not isinstance(container, dict):
        context.fail(
            target.slice,
            "a Python container is indexed with a value that only the kernel knows",
            "index by Python integers, as T.unroll counts, or keep the values in T.alloc_local",
        )
    if context.tile_depth and context.inside_kernel:
        context.fail(
            target,
            "a Python container is changed inside a loop or branch of the kernel, which generation walks only once",
            "use T.alloc_local for an array of each thread's own",
        )
    cast(Any, container)[index] = value


def execute_annotated(context: Context, node: ast.AnnAssign) -> None:
    if not isinstance(node.target, ast.Name):
        context.fail(
            node.target, "only a name can be annotated", "annotate the argument: A: T.Tensor(shape, dtype)"
        )
    name = node.target.id
    annotation = _annotation(context, node.annotation)
    if isinstance(annotation, str):
        annotation = evaluate_text(context, annotation, node.annotation)
    if node.value is None:
        if isinstance(annotation, TensorDeclaration | TensorSpec):
            arguments.declare_tensor(context, name, annotation, node)
        elif isinstance(annotation, DType):
            arguments.declare_scalar(context, name, annotation, node)
        return
    context.target = name
    value = context.evaluate(node.value)
    context.target = ""
    if isinstance(annotation, DType) and context.inside_kernel:
        typed_definition(context, name, annotation, context.expression(value, node.value), node)
    else:
        assign_name(context, name, value, node, node.target)


def evaluate_text(context: Context, text: str, at: ast.expr) -> object:
    """The value of an annotation that is written as a string."""
    try:
        parsed = ast.parse(text, mode="eval").body
    except SyntaxError:
        context.fail(
            at,
            f"the annotation {text!r} is no expression",
            "write T.Tensor(shape, dtype), or a dtype for a number",
        )
    for inner in ast.walk(parsed):
        ast.copy_location(inner, at)
    return _annotation(context, parsed)


def _annotation(context: Context, node: ast.expr) -> object:
    context.binding = names_alone(node)
    value = context.evaluate(node)
    context.binding = frozenset()
    return value


def execute_augmented(context: Context, node: ast.AugAssign) -> None:
    match node.target:
        case ast.Name(id=name):
            old = context.evaluate(ast.copy_location(ast.Name(name, ast.Load()), node.target))
            value = binary_operation(context, node, node.op, old, context.evaluate(node.value), node.target)
            assign_name(context, name, value, node, node.target)
        case ast.Subscript() as target:
            container = context.evaluate(target.value)
            if isinstance(container, Buffer):
                element = index_buffer(context, container, target)
                if not isinstance(element, Load):
                    context.fail(
                        target,
                        "a slice cannot be updated in place",
                        "update element by element: for i, j in T.Parallel(…): "
                        + f"{container.name}[i, j] …",
                    )
                old = element
            else:
                old = context.evaluate(
                    ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
                )
            value = binary_operation(context, node, node.op, old, context.evaluate(node.value), target)
            _assign_element(context, node, target, value)
        case _:
            context.fail(
                node.target,
                "attributes cannot be assigned in a tile program",
                "keep the value under a name of its own",
            )
