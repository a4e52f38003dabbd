"""Gives scalars and buffers of a program other names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tilegen.ir.expressions import Var
from tilegen.ir.nodes import Buffer, Program
from tilegen.ir.rewrite import transform
from tilegen.ir.walk import each_node


def names_of(program: Program) -> tuple[str, ...]:
    """The names of all scalars and buffers of a program, in order of appearance."""
    nodes = each_node(program)
    return tuple(dict.fromkeys(node.name for node in nodes if isinstance(node, Var | Buffer)))


def renamed(program: Program, names: Collection[str]) -> Program:
    """The program with an underscore behind each of `names`, and a number where that is taken."""
    taken = set(names_of(program))
    new: dict[str, str] = {}
    for name in dict.fromkeys(names):
        base, count = name.rstrip("_"), 1
        candidate = f"{base}_"
        while candidate in taken:
            count += 1
            candidate = f"{base}_{count}"
        taken.add(candidate)
        new[name] = candidate

    def rename(node: object) -> object:
        if isinstance(node, Var | Buffer) and node.name in new:
            return replace(node, name=new[node.name])
        return node

    changed = transform(program, rename)
    return replace(changed, outputs=tuple(new.get(name, name) for name in program.outputs))
