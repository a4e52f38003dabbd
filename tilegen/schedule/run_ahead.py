"""Which copies of a pipelined loop may run ahead of their iteration."""

from __future__ import annotations

from tilegen.ir.nodes import Assign, Copy, For, If, Kernel, Let, Persistent
from tilegen.schedule.analysis import each_statement, loaded, reads, variables, writes


def bound_to_iteration(loop: For, copy: Copy, kernel: Kernel) -> str:
    """Why a copy that stands in a loop cannot run ahead of its iteration; empty when it can."""
    problem = bound_to_order(loop, copy, kernel)
    if problem:
        return problem
    if loaded(copy.source.offsets):
        return f"{copy.location.place} loads no tile ahead: its position is read from memory"
    own = [s.var.name for s in each_statement(loop.body) if isinstance(s, Let | Assign | For)]
    if any(name in own for name in variables(copy.source.offsets)):
        return f"{copy.location.place} loads no tile ahead: its position is computed in the iteration"
    return ""


def bound_to_order(loop: For, copy: Copy, kernel: Kernel) -> str:
    """Why a tile cannot have several stages: someone else fills it, or reads it before or after its iteration."""
    buffer = copy.target.buffer
    leaves = [s for s in each_statement(kernel.body) if not isinstance(s, For | If | Persistent)]
    if sum(buffer in writes(s) for s in leaves) > 1:
        return f"{buffer.name} is written by more than one statement"
    inside = list(each_statement(loop.body))
    if any(buffer in reads(s) and not any(s is other for other in inside) for s in leaves):
        return f"{buffer.name} is read outside the loop"
    own = [s for s in inside if not isinstance(s, For | If | Persistent)]
    before = own[: next(position for position, s in enumerate(own) if s is copy)]
    if any(buffer in reads(s) for s in before):
        return f"{buffer.name} is read before it is filled"
    return ""
