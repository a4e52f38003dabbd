"""T.Parallel, T.serial, T.unroll, T.grid, T.Pipelined, T.Persistent."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Literal

from tilegen.frontend.calls import WordCall, handles
from tilegen.frontend.context import Context
from tilegen.frontend.extents import LARGEST_EXTENT
from tilegen.frontend.stores import require_kernel
from tilegen.frontend.values import Loop, is_tile_value
from tilegen.ir import build
from tilegen.ir.affine import difference
from tilegen.ir.expressions import Const, Expr
from tilegen.ir.nodes import Rasterisation


def _integer(context: Context, value: object, node: ast.expr, what: str) -> Expr:
    expr = context.expression(value, node)
    if expr.dtype.is_float:
        context.fail(node, f"{what} is an integer, not {expr.dtype}", "T.ceildiv(a, b) divides upwards")
    if isinstance(expr, Const) and abs(expr.value) > LARGEST_EXTENT:
        context.fail(
            node,
            f"{what} of {expr.value:,} is beyond a kernel's 32-bit indices ({LARGEST_EXTENT:,})",
            "split it among more blocks, or two loops",
        )
    return expr


def serial_loop(context: Context, word: str, values: Sequence[object], node: ast.Call) -> Loop:
    """A sequential loop from range's arguments."""
    nodes = node.args if len(node.args) == len(values) else [node] * len(values)
    exprs = [
        _integer(context, value, at, f"a bound of {word}") for value, at in zip(values, nodes, strict=True)
    ]
    if len(exprs) == 1:
        exprs.insert(0, build.const(0))
    step = exprs[2] if len(exprs) > 2 else build.const(1)
    return Loop(word, _kind(word), (), exprs[0], exprs[1], _step(context, step, node))


def _kind(word: str) -> Literal["serial", "unroll"]:
    return "unroll" if word == "unroll" else "serial"


def _step(context: Context, step: Expr, node: ast.expr) -> Expr:
    if not isinstance(step, Const) or step.value <= 0:
        context.fail(
            node,
            "the step of a loop of the kernel is a positive Python integer",
            "count upwards, and compute what falls: stop - 1 - i",
        )
    return step


@handles("serial", "Serial", "unroll")
def _serial(call: WordCall) -> object:
    context = call.context
    start, stop, step = (call.arguments[name] for name in ("start", "stop", "step"))
    first: Expr = _integer(context, start, call.node_of("start"), "a loop's bound")
    if stop is None:
        last, first = first, build.const(0)
    else:
        last = _integer(context, stop, call.node_of("stop"), "a loop's bound")
    stride: Expr = build.const(1) if step is None else call.scalar("step")
    return Loop(call.word, _kind(call.word), (), first, last, _step(context, stride, call.node_of("step")))


@handles("Parallel", "grid")
def _parallel(call: WordCall) -> object:
    extents = call.arguments["extents"]
    if not extents:
        call.fail("extents", f"T.{call.word} needs at least one extent", f"write T.{call.word}(n)")
    nodes = call.node.args if len(call.node.args) == len(extents) else [call.node] * len(extents)
    exprs = tuple(
        _integer(call.context, extent, node, f"an extent of T.{call.word}")
        for extent, node in zip(extents, nodes, strict=True)
    )
    for expr, node in zip(exprs, nodes, strict=True):
        if isinstance(expr, Const) and expr.value <= 0:
            call.context.fail(
                node,
                f"an extent of T.{call.word} is positive, not {expr.value}",
                "check the shape or parameter that it comes from",
            )
    return Loop(call.word, "parallel" if call.word == "Parallel" else "grid", exprs)


@handles("Pipelined")
def _pipelined(call: WordCall) -> object:
    context = call.context
    first: Expr = _integer(context, call.arguments["start"], call.node_of("start"), "a loop's bound")
    if call.arguments["stop"] is None:
        last, first = first, build.const(0)
    else:
        last = _integer(context, call.arguments["stop"], call.node_of("stop"), "a loop's bound")
    stages = call.arguments["num_stages"]
    if stages is not None and call.python("num_stages", int, "a Python integer, 0 or more") < 0:
        call.fail(
            "num_stages",
            f"num_stages of T.Pipelined is 0 or more, not {stages}",
            "0 and 1 load nothing ahead, None leaves the number to the schedule",
        )
    order, stage = _schedule(call, "order"), _schedule(call, "stage")
    if order is not None and stage is not None and len(order) != len(stage):
        call.fail(
            "stage", f"order has {len(order)} entries, stage has {len(stage)}", "give one of each a statement"
        )
    one = build.const(1)
    return Loop(
        "Pipelined", "pipelined", (), first, last, one, None if stages is None else int(stages), order, stage
    )


def _schedule(call: WordCall, name: str) -> tuple[int, ...] | None:
    value = call.arguments[name]
    if value is None or value == []:
        return None
    if not isinstance(value, tuple | list) or not all(isinstance(item, int) for item in value):
        call.fail(
            name,
            f"{name} of T.Pipelined is a list of integers, one a statement of the body",
            "leave it out: the schedule orders the loop itself",
        )
    return tuple(int(item) for item in value)


@handles("Persistent")
def _persistent(call: WordCall) -> object:
    context = call.context
    require_kernel(context, call.location, call.node, "T.Persistent")
    state = context.kernel
    assert state is not None
    domain = call.arguments["domain"]
    if is_tile_value(domain) or not isinstance(domain, tuple | list) or not 1 <= len(domain) <= 3:
        call.fail(
            "domain",
            "the domain of T.Persistent is a list of one to three extents",
            "write T.Persistent((rows, columns), wave_size, index)",
        )
    extents = tuple(
        _integer(context, item, call.node_of("domain"), "an extent of the domain") for item in domain
    )
    if len(state.block_vars) != 1:
        call.fail(
            "index", "T.Persistent walks tiles by a one-dimensional grid", "open T.Kernel(wave_size) as block"
        )
    if call.arguments["index"] != state.block_vars[0]:
        call.fail(
            "index",
            "index of T.Persistent is the block's index",
            f"pass {state.block_vars[0].name}, the variable of T.Kernel",
        )
    if difference(call.scalar("wave_size"), state.launch.grid[0]) != 0:
        call.context.fail(
            call.node_of("wave_size"),
            "wave_size of T.Persistent differs from the number of blocks",
            "pass the grid's extent, the first argument of T.Kernel",
            [(state.location, "the grid is opened here")],
        )
    group = call.arguments["group_size"]
    if group is not None:
        if call.python("group_size", int, "a positive integer") <= 0 or state.rasterisation is not None:
            call.fail(
                "group_size",
                "group_size is a positive integer, and excludes T.use_swizzle",
                "give one of the two",
            )
        state.rasterisation = Rasterisation(int(group), "row", call.location)
    return Loop("Persistent", "persistent", extents)
