"""Walks over the kernel model: which identifiers an expression or a statement names."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from tilegen.model.expressions import Name

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


_FIELDS: dict[type[Any], tuple[str, ...]] = {}


def fields_of(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a class of nodes; none for other classes."""
    found = _FIELDS.get(kind)
    if found is None:
        fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        found = _FIELDS[kind] = tuple(field.name for field in fields)
    return found


def each_name(node: object) -> Iterator[str]:
    """Every identifier named anywhere below `node`, in order, with repetitions; type names count too."""
    stack: list[Any] = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, Name):
            yield from _IDENTIFIER.findall(top.name)
        elif isinstance(top, tuple | list):
            stack.extend(reversed(top))
        else:
            parts = fields_of(type(top))
            if "type_name" in parts:
                yield from _IDENTIFIER.findall(top.type_name)
            stack.extend(getattr(top, part) for part in reversed(parts) if part != "type_name")


def names(node: object) -> list[str]:
    """The identifiers below `node`, each once, in order of appearance."""
    return list(dict.fromkeys(each_name(node)))
