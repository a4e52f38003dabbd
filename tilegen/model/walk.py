"""Walks over the kernel model: which identifiers an expression or a statement names."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from tilegen.model.expressions import Name

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def each_name(node: object) -> Iterator[str]:
    """Every identifier named anywhere below `node`, in order, with repetitions; type names count too."""
    if isinstance(node, Name):
        yield from _IDENTIFIER.findall(node.name)
    elif isinstance(node, tuple | list):
        for item in node:
            yield from each_name(item)
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        for field in dataclasses.fields(node):
            value = getattr(node, field.name)
            if isinstance(value, str):
                if field.name in ("type_name",):
                    yield from _IDENTIFIER.findall(value)
            else:
                yield from each_name(value)


def names(node: object) -> list[str]:
    """The identifiers below `node`, each once, in order of appearance."""
    return list(dict.fromkeys(each_name(node)))
