"""What a statement itself evaluates, reads and writes; nested blocks are left out."""

from __future__ import annotations

from tilegen.ir.expressions import Expr
from tilegen.ir.nodes import (
    AddPartials,
    AddParts,
    Assign,
    AtomicElement,
    AtomicTile,
    Buffer,
    Copy,
    CustomOperation,
    Fill,
    For,
    Gemm,
    If,
    LeaveParts,
    Let,
    ParallelFor,
    Persistent,
    Program,
    Reduce,
    Region,
    Stmt,
    Store,
    SyncThreads,
)
from tilegen.ir.walk import each_statement


def blocks_of(statement: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The nested blocks of a statement."""
    match statement:
        case If(then=then, otherwise=otherwise):
            return (then, otherwise)
        case For(body=body) | ParallelFor(body=body) | Persistent(body=body):
            return (body,)
        case _:
            return ()


def expressions_of(statement: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement evaluates."""
    match statement:
        case Copy(source=source, target=target) | AtomicTile(source=source, target=target):
            return source.offsets + target.offsets
        case Reduce(source=source, target=target):
            return source.offsets + target.offsets
        case AddPartials(target=target) | AddParts(target=target):
            return target.offsets
        case LeaveParts(sources=sources):
            return tuple(offset for region in sources for offset in region.offsets)
        case Fill(target=target, value=value):
            return (*target.offsets, value)
        case Gemm(a=a, b=b, c=c):
            return a.offsets + b.offsets + c.offsets
        case Store(indices=indices, value=value) | AtomicElement(indices=indices, value=value):
            return (*indices, value)
        case Let(value=value) | Assign(value=value):
            return (value,)
        case If(condition=condition):
            return (condition,)
        case For(start=start, stop=stop, step=step):
            return (start, stop, step)
        case ParallelFor(extents=extents) | Persistent(extents=extents):
            return extents
        case CustomOperation(reads=reads, writes=writes, arguments=arguments):
            return tuple(offset for region in reads + writes for offset in region.offsets) + arguments
        case SyncThreads():
            return ()


def regions_read(statement: Stmt) -> tuple[Region, ...]:
    """The regions that a tile operation reads, an accumulator's old value included."""
    match statement:
        case Copy(source=source):
            return (source,)
        case AtomicTile(source=source, target=target):
            return (source, target)
        case Gemm(a=a, b=b, c=c, clear=clear):
            return (a, b) if clear else (a, b, c)
        case Reduce(source=source, target=target, clear=clear):
            return (source,) if clear else (source, target)
        case AddPartials(target=target):
            return (target,)
        case LeaveParts(sources=sources):
            return sources
        case CustomOperation(reads=reads):
            return reads
        case _:
            return ()


def regions_written(statement: Stmt) -> tuple[Region, ...]:
    """The regions that a tile operation writes."""
    match statement:
        case Copy(target=target) | Fill(target=target) | Reduce(target=target) | AtomicTile(target=target):
            return (target,)
        case AddPartials(target=target) | AddParts(target=target):
            return (target,)
        case Gemm(c=c):
            return (c,)
        case CustomOperation(writes=writes):
            return writes
        case _:
            return ()


def buffers_written(statement: Stmt) -> tuple[Buffer, ...]:
    """The buffers that a statement writes, atomics included."""
    if isinstance(statement, Store | AtomicElement):
        return (statement.buffer,)
    return tuple(region.buffer for region in regions_written(statement))


def summed_outputs(program: Program) -> tuple[Buffer, ...]:
    """The new output tensors that the kernel only ever adds to, atomically: they start from zeros."""
    leaves = [s for s in each_statement(program.kernel.body) if not blocks_of(s)]
    found = []
    for tensor in program.tensors:
        writers = [s for s in leaves if tensor in buffers_written(s)]
        adding = all(isinstance(s, AtomicTile | AtomicElement) and s.op == "add" for s in writers)
        if tensor.role == "output" and writers and adding:
            found.append(tensor)
    return tuple(found)
