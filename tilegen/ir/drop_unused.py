"""Leaves out what a program allocates and never uses: emitted text has no dead declarations."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.nodes import Buffer, Program
from tilegen.ir.walk import each_node


def drop_unused(program: Program) -> Program:
    """The program without the allocations that no statement names."""
    kernel = program.kernel
    used = {node.name for node in each_node(kernel.body) if isinstance(node, Buffer)}
    kept = tuple(buffer for buffer in kernel.allocations if buffer.name in used)
    if len(kept) == len(kernel.allocations):
        return program
    annotations = tuple(note for note in kernel.annotations if note.buffer.name in used)
    return replace(program, kernel=replace(kernel, allocations=kept, annotations=annotations))
