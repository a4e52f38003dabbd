"""Scalars with the user's names: definitions, variables that are assigned again, and their scopes."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tilegen.diagnostics import ProgramError
from tilegen.frontend.context import Context, WidenVariable
from tilegen.frontend.values import (
    holds_tile_value,
    is_expr,
    is_number,
    is_tile_value,
    named_number,
    number_to_const,
)
from tilegen.ir import build
from tilegen.ir.expressions import Const, Expr, Load, Var
from tilegen.ir.nodes import Assign, Let
from tilegen.ir.types import DType
from tilegen.ir.walk import subexpressions
from tilegen.location import Location


def define(context: Context, name: str, value: Expr, location: Location, mutable: bool = False) -> Var:
    """A named scalar of the kernel (Let)."""
    var = Var(context.names.unique(name), value.dtype, "let", location)
    if mutable:
        context.mutable[var.name] = None
    context.emit(Let(var, value, mutable, location))
    return var


def assign_name(context: Context, name: str, value: object, node: ast.stmt, target: ast.expr) -> None:
    """`name = value` with Python's meaning, kept up at the kernel's run time."""
    if isinstance(value, Var) and value.name in context.fresh:
        context.fresh.discard(value.name)
        context.bind(name, value)
        return
    old = _bound(context, name)
    if isinstance(old, Var) and old.name in context.mutable and _is_scalar(value):
        anew = _in_innermost_scope(context, name) and _changes_type(context, old, value, target)
        if not anew:
            assign_variable(context, old, context.expression(value, target), node)
            return
    if not context.inside_kernel:
        context.bind(name, value)
        return
    if old is not None and not _in_innermost_scope(context, name):
        _refuse_rebinding(context, name, old, target)
    rebound = name in context.frame.rebound
    if is_expr(value) and (rebound or not isinstance(value, Const | Var) or _is_mutable(context, value)):
        location = context.location(node)
        context.bind(name, define(context, name, value, location, mutable=rebound))
    elif isinstance(value, tuple | list) and holds_tile_value(value):
        context.bind(name, type(value)(_settled(context, name, item, node) for item in value))
    else:
        context.bind(name, value)


def _bound(context: Context, name: str) -> object:
    try:
        return context.find(name)
    except KeyError:
        return None


def _is_scalar(value: object) -> bool:
    return is_expr(value) or is_number(value)


def _is_mutable(context: Context, value: object) -> bool:
    return isinstance(value, Var) and value.name in context.mutable


def _in_innermost_scope(context: Context, name: str) -> bool:
    return name in context.frame.scopes[-1]


def _changes_type(context: Context, old: Var, value: object, target: ast.expr) -> bool:
    """Whether a variable is bound anew, in a straight line, to a value that its dtype cannot hold."""
    if is_number(value) or context.mutable[old.name] is not None:
        return False
    new = context.expression(value, target)
    return build.common_dtype(old, new) != old.dtype


def _settled(context: Context, name: str, item: object, node: ast.stmt) -> object:
    """An item of a tuple that is bound to a name: computed now where its value could change later."""
    if is_expr(item) and not isinstance(item, Const):
        assert isinstance(item, Expr)
        if isinstance(item, Var) and item.name not in context.mutable:
            return item
        if any(isinstance(part, Load) or _is_mutable(context, part) for part in subexpressions(item)):
            return define(context, name, item, context.location(node))
    return item


def _refuse_rebinding(context: Context, name: str, old: object, target: ast.expr) -> None:
    """A Python value or a buffer cannot change from one iteration of the kernel to the next."""
    kind = "a buffer" if is_tile_value(old) else f"a Python {type(old).__name__}"
    context.fail(
        target,
        f"{name} is {kind} outside this block of the kernel and cannot be bound anew inside it",
        "use another name inside the block",
    )


def assign_variable(context: Context, var: Var, value: Expr, node: ast.stmt) -> None:
    """`var = value` for a variable of the kernel; the value is converted to the variable's dtype.

    Raises:
        WidenVariable: when the variable began as a literal and needs a wider dtype.
        ProgramError: when an integer variable is assigned a floating value.
    """
    location = context.location(node)
    common = build.common_dtype(var, value)
    key = context.mutable[var.name]
    if common != var.dtype and key is not None and not isinstance(value, Const):
        raise WidenVariable(key, common)
    if isinstance(value, Const) and value.dtype.is_float and not var.dtype.is_float and key is not None:
        raise WidenVariable(key, value.dtype)
    if value.dtype.is_float and not var.dtype.is_float:
        raise ProgramError(
            location,
            f"{var.name} is {var.dtype} and is assigned a {value.dtype} value",
            remedy=f"declare it as {var.name} = T.alloc_var(T.{value.dtype}), or convert with T.cast",
            related=[(var.location, f"{var.name} begins here")],
        )
    context.assigned.add(var.name)
    context.emit(Assign(var, build.cast(value, var.dtype), location))


def promote(context: Context, statements: Sequence[ast.stmt], node: ast.stmt) -> None:
    """Before a block that the kernel may run more or less than once: every number bound outside that the block
    assigns becomes a variable of the kernel."""
    location = context.location(node)
    for name in assigned_names(statements):
        value = _bound(context, name)
        if isinstance(value, Var) and value.name in context.mutable:
            continue
        if is_number(value):
            literal = number_to_const(value, location)
            key = f"{location.file}:{location.line}:{location.column}:{name}"
            start = build.cast(literal, context.widened.get(key, literal.dtype))
            var = define(context, name, start, location, mutable=True)
            context.mutable[var.name] = key
        elif is_expr(value):
            var = define(context, name, value, location, mutable=True)
        else:
            continue
        _rebind(context, name, var)


def _rebind(context: Context, name: str, var: Var) -> None:
    """Binds the name anew in the scope that holds it."""
    for scope in reversed(context.frame.scopes):
        if name in scope:
            scope[name] = var
            return


def assigned_names(statements: Sequence[ast.stmt]) -> list[str]:
    """The names that statements assign, loops' own variables left out."""
    names: dict[str, None] = {}

    def bind(target: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                names[name] = None
            case ast.Tuple(elts=items) | ast.List(elts=items):
                for item in items:
                    bind(item)

    def visit(node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets):
                for target in targets:
                    bind(target)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                bind(target)
            case ast.FunctionDef() | ast.Lambda() | ast.ClassDef():
                return
        for child in ast.iter_child_nodes(node):
            visit(child)

    for statement in statements:
        visit(statement)
    return list(names)


def typed_definition(context: Context, name: str, dtype: DType, value: Expr, node: ast.stmt) -> None:
    """`name: T.float32 = value`."""
    location = context.location(node)
    converted = build.cast(value, dtype, location)
    mutable = name in context.frame.rebound
    context.bind(name, define(context, name, converted, location, mutable=mutable))


def parameter_number(name: str, value: object) -> object:
    """A generation-time parameter as the walk sees it: numbers remember their names."""
    return named_number(value, name)
