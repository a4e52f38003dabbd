"""Rewriting trees of the tile IR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar, cast

Node = TypeVar("Node")

_LEAVES = ("location", "dtype", "layout")


@lru_cache(maxsize=64)
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name not in _LEAVES)


def transform(node: Node, function: Callable[[Any], Any]) -> Node:
    """Rebuilds a tree of nodes, children first: `function` gets each rebuilt dataclass and returns its replacement,
    or the same object. Locations are kept; unchanged nodes are shared."""
    if isinstance(node, tuple):
        items = tuple(transform(item, function) for item in node)
        return cast(Node, items) if any(a is not b for a, b in zip(items, node, strict=True)) else node
    if not is_dataclass(node) or isinstance(node, type):
        return node
    changed: dict[str, Any] = {}
    for name in _field_names(type(node)):
        old = getattr(node, name)
        if isinstance(old, tuple) or is_dataclass(old):
            new = transform(old, function)
            if new is not old:
                changed[name] = new
    rebuilt = replace(cast(Any, node), **changed) if changed else node
    return cast(Node, function(rebuilt))
