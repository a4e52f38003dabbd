"""Tiles are written before they are read, and outputs are written at all.

A read is fine when another statement that writes the buffer stands before it, or anywhere in a loop around both.
An operation that updates its own target (an accumulating gemm, a reduction without clear, x[i] += …) does not count
as the write before its own read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.diagnostics import ProgramError
from tilegen.ir.check_operations import declared
from tilegen.ir.effects import blocks_of, buffers_written, expressions_of, regions_read, summed_outputs
from tilegen.ir.expressions import Load
from tilegen.ir.nodes import (
    AtomicElement,
    AtomicTile,
    Buffer,
    For,
    Gemm,
    ParallelFor,
    Persistent,
    Program,
    Reduce,
    Stmt,
)
from tilegen.ir.walk import subexpressions


@dataclass(frozen=True, slots=True)
class _Access:
    """One statement's access: its position in program order and the positions of the loops around it."""

    statement: Stmt
    position: int
    loops: tuple[int, ...]


def check_initialised(program: Program) -> None:
    """Checks shared memory, fragments, local arrays and new output tensors.

    Raises:
        ProgramError: at the first statement that reads what nothing has written, or at an output that nothing writes.
    """
    reads: list[tuple[Buffer, _Access]] = []
    writes: dict[Buffer, list[_Access]] = {}
    _collect(program.kernel.body, (), [0], reads, writes)
    summed = summed_outputs(program)
    for buffer, read in reads:
        if buffer.scope == "global" and buffer.role != "output":
            continue
        if buffer in summed and isinstance(read.statement, AtomicTile | AtomicElement):
            continue
        if not any(_comes_first(write, read) for write in writes.get(buffer, [])):
            _refuse(buffer, read.statement)
    for tensor in program.tensors:
        if tensor.role == "output" and tensor not in writes:
            raise ProgramError(
                tensor.location,
                f"{tensor.name} is an output, but nothing writes it",
                remedy=f"store to it, such as T.copy(…, {tensor.name}[…]), or take it out of the outputs",
            )


def _collect(
    statements: Sequence[Stmt],
    loops: tuple[int, ...],
    counter: list[int],
    reads: list[tuple[Buffer, _Access]],
    writes: dict[Buffer, list[_Access]],
) -> None:
    for statement in statements:
        counter[0] += 1
        access = _Access(statement, counter[0], loops)
        for buffer in _buffers_read(statement):
            reads.append((buffer, access))
        for buffer in buffers_written(statement):
            writes.setdefault(buffer, []).append(access)
        is_loop = isinstance(statement, For | ParallelFor | Persistent)
        inner = (*loops, counter[0]) if is_loop else loops
        for block in blocks_of(statement):
            _collect(block, inner, counter, reads, writes)


def _buffers_read(statement: Stmt) -> list[Buffer]:
    buffers = [region.buffer for region in regions_read(statement)]
    for expr in expressions_of(statement):
        buffers += [part.buffer for part in subexpressions(expr) if isinstance(part, Load)]
    return list(dict.fromkeys(buffers))


def _comes_first(write: _Access, read: _Access) -> bool:
    if write.statement is read.statement:
        return False
    return write.position < read.position or any(loop in read.loops for loop in write.loops)


def _refuse(buffer: Buffer, statement: Stmt) -> None:
    match statement:
        case Gemm(c=c) if c.buffer == buffer:
            message = f"T.gemm adds to {buffer.name}, which nothing has initialised"
            remedy = f"write T.clear({buffer.name}) before the loop, or pass clear_accum=True"
        case Reduce(target=target) if target.buffer == buffer:
            message = (
                f"the reduction joins with the old value of {buffer.name}, which nothing has initialised"
            )
            remedy = f"fill it first with T.fill({buffer.name}, …), or pass clear=True"
        case _ if buffer.scope == "global":
            message = f"{buffer.name} is a new output tensor, and is read before anything is written to it"
            remedy = "make it a parameter if the caller provides its values"
        case _:
            message = f"{buffer.name} is read, but nothing has written it before"
            remedy = f"copy to it or fill it first, such as T.clear({buffer.name})"
    raise ProgramError(statement.location, message, remedy=remedy, related=declared(buffer))
