"""What the schedule needs to know of a program: which buffers are read and written where."""

from __future__ import annotations

from tilegen.ir.expressions import Var
from tilegen.ir.nodes import (
    AddPartials,
    AddParts,
    AtomicElement,
    AtomicTile,
    Buffer,
    Copy,
    CustomOperation,
    Fill,
    For,
    Gemm,
    If,
    Kernel,
    LeaveParts,
    ParallelFor,
    Persistent,
    Reduce,
    Stmt,
    Store,
)
from tilegen.ir.walk import each_node, each_statement, loaded

__all__ = [
    "each_node",
    "each_statement",
    "loaded",
    "reads",
    "stands_in_loop",
    "variables",
    "wanted_stages",
    "writes",
    "written_tensors",
]

_STAGES = (
    2  # of a loop that leaves them to the schedule, where they fit: one is read while the next is filled
)


def wanted_stages(loop: For) -> int:
    """Shared buffers a tile of a pipelined loop, as the program asks; two where it leaves the number open."""
    return _STAGES if loop.num_stages is None else max(1, loop.num_stages)


def stands_in_loop(body: tuple[Stmt, ...], statement: Stmt) -> bool:
    """Whether a statement stands in a loop of the body, so that a block may run it more than once."""
    return any(
        inner is statement
        for loop in each_statement(body)
        if isinstance(loop, For | Persistent)
        for inner in each_statement(loop.body)
    )


def written_tensors(kernel: Kernel) -> set[str]:
    """Names of the tensors that the kernel writes."""
    return {
        buffer.name for statement in kernel.body for buffer in writes(statement) if buffer.scope == "global"
    }


def variables(node: object) -> tuple[str, ...]:
    """Names of the variables below `node`."""
    return tuple(dict.fromkeys(n.name for n in each_node(node) if isinstance(n, Var)))


def reads(statement: Stmt) -> tuple[Buffer, ...]:
    """Buffers whose elements the statement (with everything inside it) reads."""
    found: list[Buffer] = []
    for inner in each_statement((statement,)):
        match inner:
            case Copy(source, target):
                found += [source.buffer, *loaded(source.offsets), *loaded(target.offsets)]
            case Gemm():
                found += [inner.a.buffer, inner.b.buffer]
                if not inner.clear:
                    found.append(inner.c.buffer)
            case Reduce():
                found.append(inner.source.buffer)
                if not inner.clear:
                    found.append(inner.target.buffer)
            case AddPartials(target, partials):
                found += [target.buffer, partials]
            case LeaveParts(sources):
                found += [region.buffer for region in sources]
            case AddParts():
                pass
            case AtomicTile(_, source, _):
                found.append(source.buffer)
            case Store():
                found += [*loaded(inner.indices), *loaded(inner.value)]
            case AtomicElement():
                found += [*loaded(inner.indices), *loaded(inner.value)]
            case CustomOperation():
                found += [region.buffer for region in inner.reads]
                found += [*loaded(inner.arguments), *loaded(inner.reads), *loaded(inner.writes)]
            case If(condition, _, _):
                found += loaded(condition)
            case For():
                found += [*loaded(inner.start), *loaded(inner.stop)]
            case ParallelFor() | Persistent():
                pass
            case _:
                found += loaded(inner)
    return tuple(dict.fromkeys(found))


def writes(statement: Stmt) -> tuple[Buffer, ...]:
    """Buffers whose elements the statement (with everything inside it) writes."""
    found: list[Buffer] = []
    for inner in each_statement((statement,)):
        match inner:
            case Copy(_, target) | Fill(target, _) | AtomicTile(_, _, target) | AddParts(target):
                found.append(target.buffer)
            case Gemm(c=region):
                found.append(region.buffer)
            case Reduce(target=region):
                found.append(region.buffer)
            case AddPartials(target, partials):
                found += [target.buffer, partials]
            case Store(buffer, _, _) | AtomicElement(_, buffer, _, _):
                found.append(buffer)
            case CustomOperation():
                found += [region.buffer for region in inner.writes]
            case _:
                pass
    return tuple(dict.fromkeys(found))
