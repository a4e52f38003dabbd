"""T.Tensor, T.StridedTensor, T.const, T.dynamic, T.empty."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from tilegen.diagnostics import ProgramError
from tilegen.frontend.arguments import create_output
from tilegen.frontend.calls import WordCall, dtype_argument, handles
from tilegen.frontend.extents import named_extent
from tilegen.frontend.values import ConstExtent, TensorDeclaration, is_tile_value


def _items(call: WordCall, name: str) -> tuple[object, ...]:
    value = call.arguments[name]
    if isinstance(value, Iterable) and not isinstance(value, str) and not is_tile_value(value):
        return tuple(value)
    return (value,)


@handles("Tensor", "StridedTensor")
def _tensor(call: WordCall) -> object:
    strides = None if call.arguments["strides"] is None else _items(call, "strides")
    shape = _items(call, "shape")
    if strides is not None and len(strides) != len(shape):
        call.fail(
            "strides",
            f"{len(strides)} strides are given for a tensor of rank {len(shape)}",
            "give one stride an axis, in elements",
        )
    return TensorDeclaration(shape, call.arguments["dtype"], strides, call.location)


@handles("const")
def _const(call: WordCall) -> object:
    given = call.python("names", str, "a string such as 'M, N, K'").strip()
    names = re.split(r"\s*,\s*|\s+", given)
    for name in names:
        if not name.isidentifier():
            call.fail("names", f"{name!r} is not an identifier", 'write T.const("M, N, K")')
        if name in call.context.consts:
            raise ProgramError(
                call.location,
                f"T.const introduces {name} twice",
                remedy="name each extent once",
                related=[(call.context.consts[name].location, "the first time")],
            )
        call.context.consts[name] = ConstExtent(name, call.location)
    made = tuple(call.context.consts[name] for name in names)
    return made if len(made) > 1 else made[0]


@handles("dynamic")
def _dynamic(call: WordCall) -> object:
    name = call.python("name", str, "a string")
    if not name.isidentifier():
        call.fail("name", f"{name!r} is not an identifier", "use letters, digits and _")
    dtype = dtype_argument(call.context, call.arguments["dtype"], call.node_of("dtype"))
    return named_extent(call.context, name, "", dtype)


@handles("empty")
def _empty(call: WordCall) -> object:
    node = call.node_of("dtype")
    dtype = dtype_argument(
        call.context, call.arguments["dtype"], node if isinstance(node, ast.expr) else call.node
    )
    return create_output(call.context, _items(call, "shape"), dtype, call.location)
