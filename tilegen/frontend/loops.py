"""Loops of the kernel."""

from __future__ import annotations

import ast

from tilegen.frontend.context import Context, LeaveLoop
from tilegen.frontend.stores import require_kernel
from tilegen.frontend.values import Loop
from tilegen.frontend.variables import promote
from tilegen.ir import build
from tilegen.ir.expressions import Expr, Var, VarRole
from tilegen.ir.nodes import For, ParallelFor, Persistent, Stmt
from tilegen.location import Location


def kernel_loop(context: Context, node: ast.For, loop: Loop) -> None:
    """A `for` over T.serial, T.Pipelined, T.Parallel and their like.

    Raises:
        ProgramError: outside the kernel, and where the loop variables do not match the extents.
    """
    location = context.location(node)
    require_kernel(context, location, node, f"a T.{loop.word} loop")
    targets = _targets(context, node, loop)
    promote(context, node.body, node)
    match loop.kind:
        case "parallel":
            _parallel(context, node, loop, targets, location)
        case "persistent":
            variables, body = _body(context, node, targets, "block", location)
            context.emit(Persistent(variables, loop.extents, body, location))
        case "grid":
            _grid(context, node, loop, targets, location)
        case _:
            _sequential(context, node, loop, targets, location)


def _targets(context: Context, node: ast.For, loop: Loop) -> list[ast.Name]:
    """The loop's variables, one an extent."""
    items = node.target.elts if isinstance(node.target, ast.Tuple | ast.List) else [node.target]
    names = [item for item in items if isinstance(item, ast.Name)]
    if len(names) != len(items):
        context.fail(
            node.target,
            "the variables of a loop of the kernel are plain names",
            "bind a name, and store it in the body",
        )
    count = len(loop.extents) or 1
    if len(names) != count:
        variables = f"{len(names)} variable{'s' if len(names) > 1 else ''}"
        context.fail(
            node.target,
            f"T.{loop.word} has {count} extent{'s' if count > 1 else ''}, but the loop has {variables}",
            f"write one variable an extent: for {', '.join('ijklmn'[:count])} in T.{loop.word}(…)",
        )
    return names


def _body(
    context: Context, node: ast.For, targets: list[ast.Name], role: VarRole, location: Location
) -> tuple[tuple[Var, ...], tuple[Stmt, ...]]:
    with context.block(location) as statements:
        variables = []
        for target in targets:
            var = Var(context.names.unique(target.id), build.const(0).dtype, role, context.location(target))
            variables.append(var)
            context.bind(target.id, var)
        _execute(context, node)
    return tuple(variables), tuple(statements)


def _execute(context: Context, node: ast.For) -> None:
    try:
        context.execute(node.body)
    except LeaveLoop as leave:
        word = "break" if isinstance(leave.statement, ast.Break) else "continue"
        context.fail(
            leave.statement,
            f"{word} cannot leave a loop of the kernel",
            "put the statements that it would skip under an if",
        )


def _sequential(
    context: Context, node: ast.For, loop: Loop, targets: list[ast.Name], location: Location
) -> None:
    variables, body = _body(context, node, targets, "loop", location)
    assert loop.start is not None and loop.stop is not None and loop.step is not None
    assert loop.kind != "parallel" and loop.kind != "grid"
    context.emit(
        For(
            variables[0],
            loop.start,
            loop.stop,
            loop.step,
            loop.kind,
            body,
            loop.num_stages,
            loop.order,
            loop.stage,
            location,
        )
    )


def _grid(context: Context, node: ast.For, loop: Loop, targets: list[ast.Name], location: Location) -> None:
    """T.grid: nested sequential loops."""
    variables, body = _body(context, node, targets, "loop", location)
    zero, one = build.const(0), build.const(1)
    for var, extent in reversed(list(zip(variables, loop.extents, strict=True))):
        body = (For(var, zero, extent, one, "serial", body, None, None, None, location),)
    context.emit(body[0])


def _parallel(
    context: Context, node: ast.For, loop: Loop, targets: list[ast.Name], location: Location
) -> None:
    """T.Parallel; a T.Parallel that is the whole body of another one makes one loop with it."""
    context.parallel_depth += 1
    try:
        variables, body = _body(context, node, targets, "parallel", location)
    finally:
        context.parallel_depth -= 1
    extents: tuple[Expr, ...] = loop.extents
    inner = [statement for statement in body if isinstance(statement, ParallelFor)]
    if inner:
        if len(body) > 1:
            context.fail(
                node,
                "a T.Parallel loop stands beside other statements inside another T.Parallel loop",
                "write one loop, for i, j in T.Parallel(m, n), or make the inner one T.serial",
                [(inner[0].location, "the inner loop")],
            )
        variables, extents, body = variables + inner[0].vars, extents + inner[0].extents, inner[0].body
    context.emit(ParallelFor(variables, extents, body, location))
