"""Loads under a condition: `T.if_then_else(i < n, tile[i], 0)` reads nothing where the condition does not hold.

Vectors are loaded before the elements are computed. Where one condition, which is evaluated in any case, goes for all
elements of a vector and the other branch is 0, it guards the vector's load and no element asks again. Any other load
stays where its condition is evaluated, unless it is inside of its buffer in any case.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tilegen.inference.loops import each_load
from tilegen.ir.expressions import Binary, Cast, Const, Expr, Load, Select
from tilegen.ir.held_names import private_names
from tilegen.ir.named_values import named_values
from tilegen.ir.nodes import AtomicElement, Buffer, Store
from tilegen.ir.rewrite import transform
from tilegen.ir.traversal import free_vars, substitute
from tilegen.ir.walk import each_node
from tilegen.lower.elements.access import ElementAccess, Key
from tilegen.lower.vocabulary.bounds import is_data, tensor_conditions
from tilegen.model.expressions import Literal, Name

_ELEMENT = Name("%element")  # of a vector, any


def guard_loads(access: ElementAccess) -> None:
    """Moves the conditions of loads to their vectors, where they go for a whole one, and notes in `access.lazy` which
    loads cannot run before their condition is known."""
    nodes = tuple(each_node(access.loop.body))
    if access.vector == 1 or not any(_is_conditional(node) for node in nodes):
        return
    loads = [node for node in nodes if isinstance(node, Load)]
    lets = named_values(access.loop.body)
    kept_back = tuple(_behind_conditions(nodes))
    stored = [node.buffer for node in nodes if isinstance(node, Store | AtomicElement)]
    varying = _varying(access)

    def guarded(node: Any) -> Any:
        match node:
            case Select(condition, then, Const(value=0 | 0.0 as zero)) if (
                (load := _only_load(then)) is not None
                and not any(node is other for other in kept_back)
                and not access.in_registers(load.buffer)
                and loads.count(load) == 1
                and not _mentions(asked := substitute(condition, lets), varying)
                and not any(read.buffer in stored for read in each_load(asked))
                and math.copysign(1, zero) > 0
            ):
                access.guards[_key(load, lets)] = _conjuncts(asked)
                return then
            case _:
                return node

    access.loop = replace(access.loop, body=transform(access.loop.body, guarded))
    conditional = [
        _key(node, lets) for node in _behind_conditions(each_node(access.loop.body)) if isinstance(node, Load)
    ]
    buffers = {load.buffer.name: load.buffer for load in loads}
    access.lazy = {key: None for key in conditional if _may_miss(access, buffers[key[0]], key[1])}


def _is_conditional(node: object) -> bool:
    return isinstance(node, Select) or (isinstance(node, Binary) and node.op in ("and", "or"))


def _key(load: Load, lets: dict[str, Expr]) -> Key:
    return load.buffer.name, tuple(substitute(index, lets) for index in load.indices)


def _only_load(expr: Expr) -> Load | None:
    """The load that an expression is, converted or not: it is 0 where the load is."""
    match expr:
        case Load():
            return expr
        case Cast(operand=Load() as load):
            return load
        case _:
            return None


def _varying(access: ElementAccess) -> list[str]:
    """Names that differ from element to element of a vector, or are not known before its elements are computed."""
    first, other = access.names.at(Literal(0)), access.names.at(_ELEMENT)
    return [name for name, value in first.items() if other[name] != value] + [
        *private_names(access.loop.body)
    ]


def _mentions(condition: Expr, names: list[str]) -> bool:
    return any(name in names for name in free_vars(condition))


def _conjuncts(condition: Expr) -> tuple[Expr, ...]:
    match condition:
        case Binary("and", left, right):
            return *_conjuncts(left), *_conjuncts(right)
        case _:
            return (condition,)


def _behind_conditions(nodes: Iterable[object]) -> Iterator[object]:
    """What is evaluated only as a condition has it."""
    for node in nodes:
        match node:
            case Select(_, then, otherwise):
                yield from (*each_node(then), *each_node(otherwise))
            case Binary("and" | "or", _, right):
                yield from each_node(right)
            case _:
                pass


def _may_miss(access: ElementAccess, buffer: Buffer, indices: tuple[Expr, ...]) -> bool:
    """Whether a load may lie outside of its buffer. Those of tensors have guards of their own, except against what is
    read from memory to index them."""
    actual = access.memory(buffer)
    if any(is_data(index) for index in indices):
        return True
    return actual.scope == "shared" and bool(
        tensor_conditions(access.context, indices, actual.shape, access.known)
    )
