"""Inlining of functions: macros and functions defined inside a tile program."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tilegen.diagnostics import ProgramError
from tilegen.frontend.context import Context, Frame, Returned
from tilegen.frontend.source import Source, source_of
from tilegen.frontend.values import LocalFunction, is_expr, named_number
from tilegen.frontend.variables import define
from tilegen.ir.expressions import Const, Load, Var
from tilegen.ir.walk import subexpressions
from tilegen.language.functions import Macro
from tilegen.location import Location


def closure_of(function: Callable[..., Any], named: bool) -> Callable[[str], object]:
    """Finds what a function's free names mean: its closure, its module's globals, Python's builtins. With `named`,
    integers of closure and module remember their names."""
    code = function.__code__
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    module: Mapping[str, object] = function.__globals__

    def find(name: str) -> object:
        if name in cells:
            try:
                value = cells[name].cell_contents
            except ValueError:
                raise KeyError(name) from None
        elif name in module:
            value = module[name]
        else:
            return vars(builtins)[name]
        return named_number(value, name) if named else value

    return find


def new_frame(source: Source, tree: ast.FunctionDef, outer: Callable[[str], object]) -> Frame:
    """A frame for one walk of a function."""
    bound_at, rebound = _bindings(tree)
    return Frame(source, outer, bound_at, rebound)


@lru_cache(maxsize=512)
def _bindings(tree: ast.FunctionDef) -> tuple[dict[str, int], frozenset[str]]:
    """The local names with the line that first binds each, and those bound more than once."""
    lines: dict[str, list[int]] = {}

    def bind(target: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                lines.setdefault(name, []).append(target.lineno)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                for item in items:
                    bind(item)
            case ast.Starred(value=value):
                bind(value)

    def visit(node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets):
                for target in targets:
                    bind(target)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    bind(target)
            case ast.AugAssign(target=target) | ast.NamedExpr(target=target):
                bind(target)
            case ast.For(target=target):
                bind(target)
            case ast.With(items=items):
                for item in items:
                    if item.optional_vars is not None:
                        bind(item.optional_vars)
            case ast.FunctionDef(name=name):
                lines.setdefault(name, []).append(node.lineno)
                return
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return
        for child in ast.iter_child_nodes(node):
            visit(child)

    for statement in tree.body:
        visit(statement)
    return {name: min(at) for name, at in lines.items()}, frozenset(
        n for n, at in lines.items() if len(at) > 1
    )


def macro_function(macro: Macro) -> LocalFunction:
    """The inlinable form of a function decorated with T.macro."""
    function = macro.function
    source = source_of(function)
    frame = new_frame(source, source.tree, closure_of(function, named=False))
    return LocalFunction(
        function.__name__,
        source.tree,
        frame,
        function.__defaults__ or (),
        dict(function.__kwdefaults__ or {}),
    )


def local_function(context: Context, node: ast.FunctionDef) -> LocalFunction:
    """A function defined inside a tile program; it sees the names of its surroundings at the time of the call."""
    defaults = tuple(context.evaluate(default) for default in node.args.defaults)
    keyword_defaults = {
        argument.arg: context.evaluate(default)
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default is not None
    }
    return LocalFunction(node.name, node, _nested_frame(context.frame, node), defaults, keyword_defaults)


def _nested_frame(outer: Frame, node: ast.FunctionDef) -> Frame:
    def find(name: str) -> object:
        for scope in reversed(outer.scopes):
            if name in scope:
                return scope[name]
        return outer.outer(name)

    return new_frame(outer.source, node, find)


def inline(
    context: Context,
    node: ast.Call,
    function: LocalFunction,
    positional: list[object],
    keywords: dict[str, object],
) -> object:
    """Walks the function's body in place of the call and returns what it returns.

    Raises:
        ProgramError: for wrong arguments, recursion, and whatever the body does wrong (with the call noted).
    """
    key = f"{function.frame.source.file}:{function.tree.lineno}:{function.name}"
    if key in context.inlined:
        context.fail(
            node,
            f"{function.name} calls itself, but it is inlined where it is called",
            "write the repetition as a loop; a function without tile values, defined outside the program, may recurse",
        )
    arguments = _bind(context, node, function, positional, keywords)
    call_location = context.location(node)
    frame = new_frame(function.frame.source, function.tree, function.frame.outer)
    for name, value in arguments.items():
        frame.scopes[0][name] = _by_value(context, name, value, call_location)
    frame.depth = context.tile_depth
    context.inlined.append(key)
    context.frames.append(frame)
    try:
        context.execute(function.tree.body)
    except Returned as returned:
        return returned.value
    except ProgramError as error:
        error.add_related(call_location, f"{function.name} is inlined here")
        raise
    finally:
        context.frames.pop()
        context.inlined.pop()
    return None


def _bind(
    context: Context,
    node: ast.Call,
    function: LocalFunction,
    positional: list[object],
    keywords: dict[str, object],
) -> dict[str, object]:
    """Python's own rules of matching arguments with parameters."""
    spec = function.tree.args
    names = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
    bound = dict(zip(names, positional, strict=False))
    extra = positional[len(names) :]
    if spec.vararg is not None:
        bound[spec.vararg.arg] = tuple(extra)
    elif extra:
        context.fail(
            node,
            f"{function.name} takes {len(names)} arguments, not {len(positional)}",
            "pass as many as it names",
        )
    keyword_names = [argument.arg for argument in spec.kwonlyargs]
    rest: dict[str, object] = {}
    for name, value in keywords.items():
        if name in bound or (name not in names and name not in keyword_names and spec.kwarg is None):
            problem = "is given twice" if name in bound else "is not one of its parameters"
            context.fail(node, f"{function.name}: {name} {problem}", f"its parameters are {', '.join(names)}")
        if name in names or name in keyword_names:
            bound[name] = value
        else:
            rest[name] = value
    if spec.kwarg is not None:
        bound[spec.kwarg.arg] = rest
    defaults = dict(zip(names[len(names) - len(function.defaults) :], function.defaults, strict=True))
    for name in (*names, *keyword_names):
        if name not in bound:
            if name not in defaults and name not in function.keyword_defaults:
                context.fail(
                    node,
                    f"{function.name} is called without a value for {name}",
                    f"pass {name}=…, or give it a default",
                )
            bound[name] = defaults.get(name, function.keyword_defaults.get(name))
    return bound


def _by_value(context: Context, name: str, value: object, location: Location) -> object:
    """An argument computed from memory or from a variable is computed once, at the call; a bare element stays an
    element, so that a macro can pass it on to T.copy as a corner."""
    if not is_expr(value) or isinstance(value, Const | Load) or not context.inside_kernel:
        return value
    expr = value
    changing = any(
        isinstance(part, Load) or (isinstance(part, Var) and part.name in context.mutable)
        for part in subexpressions(expr)
    )
    return define(context, name, expr, location) if changing else value
