"""Leaves out what a program allocates and never uses, and what it computes for nobody: emitted text has no dead
declarations, and no producer waits for a reader of what nobody reads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilegen.ir.build import logical_not
from tilegen.ir.effects import blocks_of, expressions_of
from tilegen.ir.nodes import (
    Buffer,
    Copy,
    Fill,
    For,
    If,
    Kernel,
    Let,
    ParallelFor,
    Persistent,
    Program,
    Reduce,
    Stmt,
    Store,
)
from tilegen.ir.walk import each_node, each_statement


def drop_unused(program: Program) -> Program:
    """The program without what fills tiles of the block whose elements nothing reads, without control flow around
    nothing, and without the allocations that no statement names."""
    kernel = program.kernel
    while (body := _without(kernel.body, _unread(kernel))) != kernel.body:
        kernel = replace(kernel, body=body)
    used = {node.name for node in each_node(kernel.body) if isinstance(node, Buffer)}
    kept = tuple(buffer for buffer in kernel.allocations if buffer.name in used)
    if kernel is program.kernel and len(kept) == len(kernel.allocations):
        return program
    annotations = tuple(note for note in kernel.annotations if note.buffer.name in used)
    return replace(program, kernel=replace(kernel, allocations=kept, annotations=annotations))


def left_out(program: Program, kept: Program) -> tuple[str, ...]:
    """What is to be said of the statements that `drop_unused` left out."""
    stay = {id(statement) for statement in each_statement(kept.kernel.body)}
    return tuple(
        f"{statement.location.place}: left out, nothing reads {filled.name}"
        for statement in each_statement(program.kernel.body)
        if (filled := _filled(statement)) is not None and id(statement) not in stay
    )


def _filled(statement: Stmt) -> Buffer | None:
    """What a statement gives new values, if that is all it does."""
    match statement:
        case Copy(target=target) | Fill(target=target) | Reduce(target=target, clear=True):
            return target.buffer
        case Store(buffer=buffer):
            return buffer
        case _:
            return None


def _unread(kernel: Kernel) -> frozenset[str]:
    """The allocations that stand nowhere but where a statement gives them new values."""
    used: set[str] = set()
    for statement in each_statement(kernel.body):
        whole = _filled(statement) is None and not blocks_of(statement)
        parts: tuple[object, ...] = (statement,) if whole else expressions_of(statement)
        if isinstance(statement, Copy | Reduce):
            parts += (statement.source,)
        used |= {node.name for node in each_node(parts) if isinstance(node, Buffer)}
    return frozenset(buffer.name for buffer in kernel.allocations if buffer.name not in used)


def _without(statements: tuple[Stmt, ...], unread: frozenset[str]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for statement in statements:
        filled = _filled(statement)
        if filled is not None and filled.name in unread:
            continue
        match statement:
            case For() | ParallelFor() | Persistent():
                body = _without(statement.body, unread)
                if not _does(body):
                    continue
                if body != statement.body:
                    statement = replace(statement, body=body, **_schedule(statement, unread))
            case If(condition, then, otherwise):
                first, second = _without(then, unread), _without(otherwise, unread)
                if not _does(first) and not _does(second):
                    continue
                if not _does(first):
                    statement = If(logical_not(condition), second, (), statement.location)
                elif (first, second) != (then, otherwise):
                    statement = replace(statement, then=first, otherwise=second)
            case _:
                pass
        out.append(statement)
    return tuple(out)


def _does(statements: tuple[Stmt, ...]) -> bool:
    """Whether statements do anything: names alone are for nobody."""
    return not all(isinstance(statement, Let) for statement in statements)


def _schedule(loop: For | ParallelFor | Persistent, unread: frozenset[str]) -> dict[str, Any]:
    """What a loop says of each of its statements, for those that stay."""
    if not isinstance(loop, For):
        return {}
    stays = [bool(_without((statement,), unread)) for statement in loop.body]
    return {
        name: tuple(entry for entry, stay in zip(entries, stays, strict=True) if stay)
        for name, entries in (("order", loop.order), ("stage", loop.stage))
        if entries is not None
    }
