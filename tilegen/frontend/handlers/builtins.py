"""Python's own functions where they are given tile values."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from typing import cast

from tilegen.frontend.calls import replaces
from tilegen.frontend.context import Context
from tilegen.frontend.handlers.loops import serial_loop
from tilegen.frontend.values import is_tile_value
from tilegen.ir import build
from tilegen.ir.expressions import BinaryOp, Const, Expr
from tilegen.ir.nodes import Buffer
from tilegen.ir.types import float32, int32


def _fold(context: Context, node: ast.Call, values: list[object], op: BinaryOp) -> Expr:
    """The values joined by an operator; a single sequence stands for its items."""
    items = list(cast(Sequence[object], values[0])) if len(values) == 1 else values
    nodes = node.args if len(node.args) == len(items) else [node] * len(items)
    result = context.expression(items[0], nodes[0])
    for value, at in zip(items[1:], nodes[1:], strict=True):
        result = build.binary(op, result, context.expression(value, at), context.location(node))
    return result


@replaces(builtins.min)
def _min(context: Context, node: ast.Call, values: list[object]) -> object:
    return _fold(context, node, values, "min")


@replaces(builtins.max)
def _max(context: Context, node: ast.Call, values: list[object]) -> object:
    return _fold(context, node, values, "max")


@replaces(builtins.sum)
def _sum(context: Context, node: ast.Call, values: list[object]) -> object:
    if len(values) != 1:
        context.fail(
            node, "sum of tile values takes one sequence", "write sum([a, b, c]), or T.reduce_sum for a tile"
        )
    return _fold(context, node, values, "+")


@replaces(builtins.float)
def _float(context: Context, node: ast.Call, values: list[object]) -> object:
    return build.cast(context.expression(values[0], node.args[0]), float32, context.location(node))


@replaces(builtins.int)
def _int(context: Context, node: ast.Call, values: list[object]) -> object:
    return build.cast(context.expression(values[0], node.args[0]), int32, context.location(node))


@replaces(builtins.abs)
def _abs(context: Context, node: ast.Call, values: list[object]) -> object:
    return build.call("abs", context.expression(values[0], node.args[0]), location=context.location(node))


@replaces(builtins.range)
def _range(context: Context, node: ast.Call, values: list[object]) -> object:
    return serial_loop(context, "range", values, node)


@replaces(builtins.len)
def _len(context: Context, node: ast.Call, values: list[object]) -> object:
    value = values[0]
    if isinstance(value, Buffer):
        extent = value.shape[0]
        return int(extent.value) if isinstance(extent, Const) else extent
    if is_tile_value(value):
        context.fail(
            node, "this tile value has no length", "tiles and tensors have: len(tile) is tile.shape[0]"
        )
    return len(cast(Sequence[object], value))
