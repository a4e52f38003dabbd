"""Finds the statements that read fragments where other threads hold them.

Such a fragment passes through shared memory before an element-wise statement: its threads store it, a barrier, and the
statement reads shared memory instead. The result of a reduction passes through it after the reduction, where its
fragment is laid out otherwise than the reduction leaves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilegen.diagnostics import ProgramError
from tilegen.inference.access import register_digits
from tilegen.inference.decisions import Decisions
from tilegen.inference.fragment import Fragment
from tilegen.inference.loops import Access, Loop, as_loop
from tilegen.inference.propagate import Connections, reduced
from tilegen.inference.reduction import accumulation_dtype
from tilegen.ir import build
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Buffer, Copy, For, Reduce, Region
from tilegen.ir.printer import expression_text
from tilegen.ir.walk import each_statement


def find_exchanges(connections: Connections, decisions: Decisions) -> None:
    """Notes an exchange for each fragment that is read in other threads than its own.

    Raises:
        ProgramError: when a statement writes a fragment in other threads than its own.
    """
    for loop in connections.loops:
        for access in loop.accesses:
            if access.buffer.scope == "fragment" and not is_local(loop, access, decisions):
                if access.kind != "load":
                    raise _foreign_write(loop, access, decisions)
                _exchange(loop, access.buffer, decisions)
    for reduction in connections.reductions:
        target = reduction.target.buffer
        source = decisions.fragments.get(reduction.source.buffer.name)
        if source is None or target.scope != "fragment":
            continue
        natural = reduced(source, reduction)
        if not natural.same_distribution(decisions.fragments[target.name]):
            _pass_on(reduction, decisions)


def _pass_on(reduction: Reduce, decisions: Decisions) -> None:
    """Notes that a reduction's result goes to other threads than those that compute it."""
    target = reduction.target.buffer
    dtype = accumulation_dtype(reduction)
    name = f"{target.name}_result" if dtype.is_float == target.dtype.is_float else f"{target.name}_truth"
    scratch = Buffer(name, target.shape, dtype, "shared", location=target.location)
    decisions.exchanges[reduction] = {target.name: scratch}
    if all(known.name != scratch.name for known in decisions.scratch):
        decisions.scratch.append(scratch)
    decisions.notes.append(
        f"{target.name} passes through shared memory at {reduction.location}: other threads hold it than reduce it"
    )


def result_uses(
    scratch: Buffer, reductions: list[Reduce], decisions: Decisions
) -> Iterator[tuple[Loop, Fragment]]:
    """The accesses to a scratch buffer of reductions' results, as loops."""
    for reduction in reductions:
        target = reduction.target.buffer
        if scratch not in (decisions.exchanges.get(reduction) or {}).values():
            continue
        natural = reduced(decisions.fragments[reduction.source.buffer.name], reduction)
        yield store_loop(replace(scratch, name=target.name, scope="fragment"), scratch), natural
        whole = tuple(build.const(0) for _ in target.shape)
        read = Copy(Region(scratch, whole, scratch.extents), Region(target, whole, target.extents))
        loop = as_loop(read)
        assert loop is not None
        yield loop, decisions.fragments[target.name]


def sequential_variables(loop: Loop, decisions: Decisions) -> tuple[tuple[str, int], ...]:
    """Variables of constant loops inside and around a parallel loop, with their extents; they may index fragments."""
    inner = {
        statement.var.name: int(statement.stop.value)
        for statement in each_statement(loop.body)
        if isinstance(statement, For) and isinstance(statement.stop, Const) and counts_from_zero(statement)
    }
    return (*inner.items(), *decisions.counters.items())


def counts_from_zero(loop: For) -> bool:
    """Whether a loop runs over 0, 1, … to a constant."""
    match loop:
        case For(_, Const(start), Const(), Const(step)):
            return start == 0 and step == 1
        case _:
            return False


def is_local(loop: Loop, access: Access, decisions: Decisions) -> bool:
    """Whether every iteration finds the element in the registers of its own thread."""
    partition = decisions.loops[loop.node]
    fragment = decisions.fragments[access.buffer.name]
    digits = register_digits(
        partition, loop.names, fragment, access.indices, sequential_variables(loop, decisions)
    )
    return digits is not None


def _exchange(loop: Loop, buffer: Buffer, decisions: Decisions) -> None:
    exchanges = decisions.exchanges.get(loop.node) or {}
    scratch = Buffer(
        f"{buffer.name}_exchange", buffer.shape, buffer.dtype, "shared", location=buffer.location
    )
    exchanges[buffer.name] = scratch
    decisions.exchanges[loop.node] = exchanges
    if all(known.name != scratch.name for known in decisions.scratch):
        decisions.scratch.append(scratch)
    decisions.notes.append(
        f"{buffer.name} passes through shared memory at {loop.node.location}: other threads read it than hold it"
    )


def exchange_uses(
    scratch: Buffer, loops: list[tuple[Loop, Fragment]], decisions: Decisions
) -> Iterator[tuple[Loop, Fragment]]:
    """The accesses to a scratch buffer of exchanges, as loops: its fragment's threads store it, others load it."""
    stored: list[str] = []
    for loop, partition in loops:
        for name, buffer in (decisions.exchanges.get(loop.node) or {}).items():
            if buffer.name != scratch.name:
                continue
            reads = [access for access in loop.accesses if access.buffer.name == name]
            moved = tuple(Access(access.kind, scratch, access.indices) for access in reads)
            yield replace(loop, accesses=moved), partition
            if name not in stored:
                stored.append(name)
                source = replace(scratch, name=name, scope="fragment")
                yield store_loop(source, scratch), decisions.fragments[name]


def store_loop(fragment: Buffer, scratch: Buffer) -> Loop:
    """The copy of a whole fragment to shared memory."""
    whole = tuple(build.const(0) for _ in fragment.shape)
    source = Region(fragment, whole, fragment.extents)
    loop = as_loop(Copy(source, Region(scratch, whole, scratch.extents), fragment.location))
    assert loop is not None
    return loop


def _foreign_write(loop: Loop, access: Access, decisions: Decisions) -> ProgramError:
    name = access.buffer.name
    runs, lies = str(decisions.loops[loop.node]), str(decisions.fragments[name])
    remedy = f"write to a new fragment here and copy that to {name} with T.copy, or make {name} a shared tile"
    if runs == lies:  # a new fragment would lie no better
        remedy = f"make {name} a shared tile"
        indices = ", ".join(map(expression_text, access.indices))
        problem = (
            f"the loop is divided among the threads as {name} is, {runs}, but it writes {name}[{indices}]"
        )
    else:
        problem = f"the loop runs as {runs}, but {name} is laid out as {lies}"
    return ProgramError(
        loop.node.location,
        f"{problem}: threads would write elements of {name} that other threads hold",
        related=[
            (
                access.buffer.location,
                f"{name}: {decisions.reasons.get(name, 'laid out by another statement')}",
            )
        ],
        remedy=remedy,
    )
