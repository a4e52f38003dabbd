"""Names inside of T.Parallel whose values change behind them: `old = count`, then `count = count + 1`, then `Y[old]`.

An index has the value of a name put in its place, so that all of its parts are seen. That would read the new value
here: such a name keeps its own variable, as one that is assigned again does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tilegen.ir.effects import blocks_of, buffers_written
from tilegen.ir.expressions import Expr, Load
from tilegen.ir.nodes import Assign, AtomicElement, For, Let, ParallelFor, Stmt, Store
from tilegen.ir.rewrite import transform
from tilegen.ir.traversal import free_vars
from tilegen.ir.walk import each_node, each_statement, loaded


def hold_names(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements with names of parallel loops marked as mutable where their values must not stand for them."""

    def held(node: Any) -> Any:
        if not isinstance(node, ParallelFor):
            return node
        names = dict.fromkeys(_outdated(node.body, _index_names(node.body)))
        return transform(node, lambda part: _keep(part, names)) if names else node

    return transform(body, held)


def private_names(body: tuple[Stmt, ...]) -> frozenset[str]:
    """The names whose values each iteration of a parallel loop makes by itself, step by step: what stands for them is
    known only where they stand."""
    found = []
    for statement in each_statement(body):
        match statement:
            case Assign(var=var) | Let(var=var, mutable=True) | For(var=var):
                found.append(var.name)
            case _:
                pass
    return frozenset(found)


def _keep(part: Any, names: dict[str, None]) -> Any:
    return replace(part, mutable=True) if isinstance(part, Let) and part.var.name in names else part


def _outdated(block: tuple[Stmt, ...], placed: frozenset[str]) -> Iterator[str]:
    """The names of a block whose values read what is written behind them; elements only where the name is part of an
    index (`placed`)."""
    for at, statement in enumerate(block):
        for inner in blocks_of(statement):
            yield from _outdated(inner, placed)
        if isinstance(statement, Let) and not statement.mutable:
            later = tuple(each_statement(block[at + 1 :]))
            assigned = {one.var.name for one in later if isinstance(one, Assign)}
            written = {buffer for one in later for buffer in buffers_written(one)}
            name, value = statement.var.name, statement.value
            if assigned & set(free_vars(value)) or (name in placed and written & set(loaded(value))):
                yield name


def _index_names(body: tuple[Stmt, ...]) -> frozenset[str]:
    """The names that indices of elements are made of, through other names, too."""
    indices: list[Expr] = []
    for node in each_node(body):
        if isinstance(node, Load | Store | AtomicElement):
            indices += node.indices
    names = {name for index in indices for name in free_vars(index)}
    for let in reversed([one for one in each_statement(body) if isinstance(one, Let)]):
        if let.var.name in names:
            names |= set(free_vars(let.value))
    return frozenset(names)
