"""Statements: Python's control flow at generation time, the kernel's control flow as IR."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from tilegen.frontend import assignments
from tilegen.frontend.containers import bind_target, python
from tilegen.frontend.context import Context, LeaveLoop, Returned
from tilegen.frontend.expressions import to_condition
from tilegen.frontend.loops import kernel_loop
from tilegen.frontend.macros import local_function
from tilegen.frontend.values import (
    KernelLaunch,
    Loop,
    is_expr,
    is_tile_value,
)
from tilegen.frontend.variables import promote
from tilegen.frontend.with_kernel import kernel_block
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import If

_GENERATION_LIMIT = 1_000_000


def execute(context: Context, statements: Sequence[ast.stmt]) -> None:
    """Runs statements in order.

    Raises:
        ProgramError: at the first statement that cannot be honoured.
    """
    frame = context.frame
    for statement in statements:
        frame.text = frame.source.statement_text(statement)
        handler = _HANDLERS.get(type(statement))
        if handler is None:
            message, remedy = _REFUSED.get(
                type(statement), (f"{type(statement).__name__} cannot be used in a tile program", "")
            )
            context.fail(statement, message, remedy)
        handler(context, statement)


# --------------------------------------------------------------------------------------------- simple statements


def _expression(context: Context, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        return
    value = context.evaluate(node.value)
    if is_expr(value):
        context.fail(
            node, "this value is computed and thrown away", "assign it to a name, or delete the line"
        )
    if isinstance(value, Loop):
        context.fail(
            node, f"T.{value.word} only makes sense in a for statement", f"for i in T.{value.word}(…):"
        )
    if isinstance(value, KernelLaunch):
        context.fail(node, "T.Kernel only makes sense in a with statement", "with T.Kernel(…) as (bx, by):")


def _return(context: Context, node: ast.Return) -> None:
    if context.tile_depth > context.frame.depth:
        context.fail(
            node,
            "return stands inside a loop or branch of the kernel",
            "return once, as the last statement, and keep the value in a variable until then",
        )
    value = None if node.value is None else context.evaluate(node.value)
    if len(context.frames) == 1 and context.inside_kernel:
        context.fail(
            node, "return stands inside the kernel", "close the with T.Kernel block first (dedent the return)"
        )
    raise Returned(value)


def _assert(context: Context, node: ast.Assert) -> None:
    value = context.evaluate(node.test)
    if isinstance(value, Const):
        value = value.value
    if is_tile_value(value):
        context.fail(
            node, "this assertion depends on values that only the kernel knows", "assert Python values only"
        )
    if not value:
        reason = "" if node.msg is None else f": {context.evaluate(node.msg)}"
        context.fail(node, f"the assertion does not hold{reason}", "change the parameters that it speaks of")


def _raise(context: Context, node: ast.Raise) -> None:
    if context.tile_depth:
        context.fail(node, "a kernel cannot raise", "raise only under conditions of Python values")
    error = None if node.exc is None else context.evaluate(node.exc)
    context.fail(
        node, f"the program raises {type(error).__name__}: {error}", "change the parameters that lead here"
    )


def _import(context: Context, node: ast.Import | ast.ImportFrom) -> None:
    names: dict[str, object] = {}
    module = ast.fix_missing_locations(ast.Module([node], []))
    try:
        exec(compile(module, context.frame.source.file, "exec"), names)  # the user's own import statement
    except ImportError as error:
        context.fail(node, f"the import fails: {error}", "install the module, or leave the import out")
    names.pop("__builtins__", None)
    for name, value in names.items():
        context.bind(name, value)


def _function(context: Context, node: ast.FunctionDef) -> None:
    for decorator in node.decorator_list:
        value = context.evaluate(decorator)
        if getattr(value, "__name__", "") != "macro":
            context.fail(
                decorator,
                "inside a tile program only @T.macro can decorate a function",
                "leave the decorator out, or move the function out of the program",
            )
    for inner in ast.walk(node):
        if isinstance(inner, ast.Yield | ast.YieldFrom | ast.Await):
            context.fail(inner, "a function that yields cannot be inlined", "return a tuple or a list")
    context.bind(node.name, local_function(context, node))


# --------------------------------------------------------------------------------------------- control flow


def _if(context: Context, node: ast.If) -> None:
    condition = context.evaluate(node.test)
    if isinstance(condition, Const):
        condition = condition.value
    if not is_tile_value(condition):
        execute(context, node.body if condition else node.orelse)
        return
    test = to_condition(context, context.expression(condition, node.test), node.test)
    if not context.inside_kernel:
        context.fail(
            node.test,
            "this condition depends on values known at launch, but stands outside the kernel",
            "move the if into the with T.Kernel block",
        )
    location = context.location(node)
    promote(context, [*node.body, *node.orelse], node)
    with context.block(location) as then:
        execute(context, node.body)
    with context.block(location) as otherwise:
        execute(context, node.orelse)
    context.emit(If(test, tuple(then), tuple(otherwise), location))


def _while(context: Context, node: ast.While) -> None:
    for _ in range(_GENERATION_LIMIT):
        context.frame.text = context.frame.source.statement_text(node)
        condition = context.evaluate(node.test)
        if is_tile_value(condition):
            context.fail(
                node.test,
                "a while loop's condition depends on values that only the kernel knows",
                "write for i in T.serial(bound): with an if inside; the tile language has no while loop",
            )
        if not condition:
            execute(context, node.orelse)
            return
        if _run_iteration(context, node.body):
            return
    context.fail(
        node,
        f"this loop runs more than {_GENERATION_LIMIT} times at generation time",
        "for a loop of the kernel write T.serial(n)",
    )


def _for(context: Context, node: ast.For) -> None:
    iterable = context.evaluate(node.iter)
    if isinstance(iterable, Loop):
        if node.orelse:
            context.fail(
                node.orelse[0], "a loop of the kernel has no else", "put the statements after the loop"
            )
        kernel_loop(context, node, iterable)
        return
    if is_tile_value(iterable):
        context.fail(
            node.iter,
            "a tile value cannot be iterated over",
            "loop over its indices: for i, j in T.Parallel(…) or for i in T.serial(…)",
        )
    for item in cast(Iterable[object], python(context, node.iter, iter, iterable)):
        bind_target(context, node.target, item)
        if _run_iteration(context, node.body):
            return
    execute(context, node.orelse)


def _run_iteration(context: Context, body: Sequence[ast.stmt]) -> bool:
    """Runs a body at generation time; True when it breaks out of the loop."""
    depth = context.tile_depth
    try:
        execute(context, body)
    except LeaveLoop as leave:
        if leave.tile_depth != depth:
            context.fail(
                leave.statement,
                "this statement leaves a loop that runs at generation time, under a condition that only the kernel "
                "knows",
                "use T.serial for the loop's range and put what follows under an if",
            )
        return isinstance(leave.statement, ast.Break)
    return False


def _leave(context: Context, node: ast.Break | ast.Continue) -> None:
    raise LeaveLoop(node, context.tile_depth)


def _with(context: Context, node: ast.With) -> None:
    if len(node.items) != 1:
        context.fail(
            node, "a tile program's with statement opens one kernel", "with T.Kernel(…) as (bx, by):"
        )
    item = node.items[0]
    launch = context.evaluate(item.context_expr)
    if not isinstance(launch, KernelLaunch):
        context.fail(item.context_expr, "with is only used to open a kernel", "with T.Kernel(…) as (bx, by):")
    kernel_block(context, node, item, launch)


def _pass(context: Context, node: ast.Pass) -> None:
    return


_HANDLERS: dict[type[ast.stmt], Callable[[Context, Any], None]] = {
    ast.Expr: _expression,
    ast.Assign: assignments.execute_assign,
    ast.AnnAssign: assignments.execute_annotated,
    ast.AugAssign: assignments.execute_augmented,
    ast.Return: _return,
    ast.Assert: _assert,
    ast.Raise: _raise,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.FunctionDef: _function,
    ast.If: _if,
    ast.While: _while,
    ast.For: _for,
    ast.Break: _leave,
    ast.Continue: _leave,
    ast.With: _with,
    ast.Pass: _pass,
}
_REFUSED: dict[type[ast.stmt], tuple[str, str]] = {
    ast.Try: ("try cannot be used in a tile program: a kernel raises nothing", "check with an if instead"),
    ast.ClassDef: ("a class cannot be defined in a tile program", "define it outside"),
    ast.Global: ("global names cannot be changed by a tile program", "pass the value as a parameter"),
    ast.Nonlocal: ("nonlocal names cannot be changed by a tile program", "return the new value instead"),
    ast.Delete: (
        "del has no meaning in a tile program",
        "buffers live until the kernel ends; remove the line",
    ),
    ast.AsyncFor: ("async for cannot be used in a tile program", "for k in T.Pipelined(…) overlaps copies"),
    ast.AsyncWith: ("async with cannot be used in a tile program", "use a plain with"),
    ast.AsyncFunctionDef: ("async functions cannot be used in a tile program", "use a plain def"),
    ast.Match: ("match cannot be used in a tile program", "write if / elif on Python values"),
}
