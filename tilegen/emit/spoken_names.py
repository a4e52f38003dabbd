"""The names that an emitted file speaks for itself: what it declares at file scope, calls, and uses as types.

A tensor or variable of a tile program that is called the same would hide them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tilegen.emit.tokens import split_tokens
from tilegen.model.expressions import CallC, Lambda, Name
from tilegen.model.walk import fields_of

_WORD = re.compile(r"[A-Za-z_]\w*")
_UNSCOPED = re.compile(r"(?<!::)\b[A-Za-z_]\w*")
_COMMENT = re.compile(r"//[^\n]*")
_AFTER_A_NAME = ("(", "=", ";", "[", "{", ":")  # where something is declared


def declared_names(source: str) -> frozenset[str]:
    """What a file declares outside of functions and classes, namespaces looked into: functions, types, constants and
    macros."""
    found = set(re.findall(r"(?m)^#define (\w+)", source))
    plain = re.sub(r"(?m)^#.*$", "", _COMMENT.sub("", source))
    tokens = split_tokens(plain)
    depth = 0  # of brackets that hide what is inside
    opened: list[bool] = []
    for position, (token, following) in enumerate(zip(tokens, [*tokens[1:], ""], strict=True)):
        if token in "({[":
            namespace = token == "{" and "namespace" in tokens[max(0, position - 2) : position]
            external = token == "{" and tokens[max(0, position - 2) : position] == ["extern", '"C"']
            opened.append(not (namespace or external))
            depth += opened[-1]
        elif token in ")}]" and opened:
            depth -= opened.pop()
        elif depth == 0 and _WORD.fullmatch(token) and following in _AFTER_A_NAME:
            found.add(token)
    return frozenset(found)


def called_names(node: object) -> frozenset[str]:
    """The functions and types that a kernel model names."""
    return frozenset(word for text in _spoken(node) for word in _UNSCOPED.findall(text))


def _spoken(node: object) -> Iterator[str]:
    stack: list[Any] = [node]
    while stack:
        top = stack.pop()
        match top:
            case tuple() | list():
                stack.extend(top)
                continue
            case CallC(Name(function)):
                yield function
            case Name(name) if "::" in name:
                yield name
            case Lambda(parameters=parameters):
                yield from (kind for kind, _ in parameters)
            case _:
                pass
        fields = fields_of(type(top))
        if "type_name" in fields:
            yield top.type_name
        stack.extend(getattr(top, field) for field in fields)
