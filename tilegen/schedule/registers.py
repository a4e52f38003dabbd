"""An estimate of the registers that a kernel's fragments take."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import is_

from tilegen.diagnostics import ProgramError
from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Buffer, For, Gemm, If, Kernel, ParallelFor, Persistent, Program, Reduce, Stmt
from tilegen.location import Location
from tilegen.schedule.analysis import each_statement, reads, writes
from tilegen.schedule.fold_elements import FoldedElements, fold_elements
from tilegen.schedule.plan import Plan
from tilegen.target import Target

ADDRESS_REGISTERS = (
    62  # addresses, bounds and counters of a loop of loads and ldmatrix, as nvcc 13 allots them
)
_SPARE = 16  # registers that a thread needs beside a fragment in any case


def fragment_registers(kernel: Kernel, decisions: Decisions) -> int:
    """32-bit registers a thread for all fragments that the text has, as if all were alive at once."""
    folded = [entry.reduction.source.buffer for entry in fold_elements(kernel, decisions)]
    return sum(_registers(buffer, decisions) for buffer in kernel.allocations if buffer not in folded)


def _registers(buffer: Buffer, decisions: Decisions) -> int:
    """32-bit registers a thread for a fragment; none for other buffers."""
    if buffer.scope != "fragment" or buffer.name not in decisions.fragments:
        return 0
    return -(-decisions.fragments[buffer.name].register_count * buffer.dtype.bits // 32)


def live_registers(
    kernel: Kernel,
    decisions: Decisions,
    counts: Callable[[Buffer], bool] = lambda buffer: True,
    widened: bool = True,
) -> int:
    """32-bit registers a thread for the fragments that are alive together, at the statement where they are most, as
    `registers_at` counts them."""
    return max((count for _, count in registers_at(kernel, decisions, counts, widened)), default=0)


def registers_at(
    kernel: Kernel,
    decisions: Decisions,
    counts: Callable[[Buffer], bool] = lambda buffer: True,
    widened: bool = True,
) -> list[tuple[Stmt, int]]:
    """32-bit registers a thread for the fragments that are alive at each statement that holds no others.

    A fragment lives from the first statement that mentions it to the last one, and to the end of a loop that mentions
    it as well. One that passes from an element-wise statement to the next statement takes none: its elements are used
    one by one as they are computed; nor does one whose elements a reduction computes itself. A narrow one that several
    statements compute with takes whole registers, if `widened`, since compilers keep what they have converted. A
    reduction that adds to what its target holds has partial results beside it. Only buffers that `counts` count.
    """
    folded = fold_elements(kernel, decisions)
    spans: dict[str, tuple[int, int]] = {}
    leaves: list[Stmt] = []
    _number(kernel.body, folded, leaves, spans)
    sizes = {buffer.name: _registers(buffer, decisions) for buffer in kernel.allocations if counts(buffer)}
    computing = [
        buffer
        for leaf in leaves
        if isinstance(leaf, ParallelFor | Reduce)
        for buffer in _operands(leaf, folded)
    ]
    for buffer in kernel.allocations:
        if widened and sizes.get(buffer.name) and computing.count(buffer) > 1:
            sizes[buffer.name] = max(sizes[buffer.name], decisions.fragments[buffer.name].register_count)
    for name, (first, last) in spans.items():
        passed = isinstance(leaves[first], ParallelFor) and isinstance(leaves[last], ParallelFor | Reduce)
        if last == first + 1 and passed:
            sizes[name] = 0
    return [
        (
            leaf,
            sum(sizes.get(name, 0) for name, (first, last) in spans.items() if first <= at <= last)
            + _partial_results(leaf, decisions),
        )
        for at, leaf in enumerate(leaves)
    ]


def allotted_registers(target: Target, threads: int) -> int:
    """Registers a thread at most where so many threads share a multiprocessor: each of its schedulers has as many
    registers, and whole warps."""
    limits = target.limits
    parts = limits.schedulers_per_multiprocessor
    warps = -(-threads // (parts * limits.warp_size))
    registers = limits.registers_per_multiprocessor // parts
    share = registers // (warps * limits.warp_size) // limits.register_granularity
    return min(share * limits.register_granularity, limits.registers_per_thread)


def registers_of_thread(plan: Plan, target: Target) -> int:
    """Registers at most of a thread that computes."""
    if plan.registers is not None:
        return plan.registers.consumer
    return allotted_registers(target, plan.threads * plan.blocks_per_multiprocessor)


def check_registers(program: Program, target: Target, decisions: Decisions) -> None:
    """Raises ProgramError where the sums of gemms that are alive together, or one fragment alone, are more than a
    thread's registers: each use would read and write them in memory."""
    kernel = program.kernel
    sums = {gemm.c.buffer for gemm in each_statement(kernel.body) if isinstance(gemm, Gemm)}
    limit = allotted_registers(target, kernel.threads)
    wanted = live_registers(kernel, decisions, lambda buffer: buffer in sums)
    if wanted > limit:
        raise _too_many(kernel, target, kernel.location, "the sums of gemms take", wanted, limit)
    for fragment in kernel.allocations:
        if _registers(fragment, decisions) <= limit:
            continue
        wanted = live_registers(kernel, decisions, partial(is_, fragment), widened=False)
        if wanted > limit:
            raise _too_many(kernel, target, fragment.location, f"{fragment.name} takes", wanted, limit)


def _too_many(
    kernel: Kernel, target: Target, location: Location, takes: str, wanted: int, limit: int
) -> ProgramError:
    most, threads = target.limits.threads_per_block, 2 * kernel.threads
    while threads <= most and wanted * kernel.threads // threads + _SPARE > allotted_registers(
        target, threads
    ):
        threads *= 2
    return ProgramError(
        location,
        f"{takes} {wanted} registers a thread, but a thread has {limit} on {target.name} where {kernel.threads} share "
        "a block",
        remedy=f"use more threads (threads={threads}) or a smaller tile"
        if threads <= most
        else "use a smaller tile",
    )


def _partial_results(statement: Stmt, decisions: Decisions) -> int:
    match statement:
        case Reduce(target=target, clear=False):
            return _registers(target.buffer, decisions)
        case _:
            return 0


def _operands(statement: Stmt, folded: tuple[FoldedElements, ...]) -> tuple[Buffer, ...]:
    """What a statement reads; a reduction also what it computes its elements from."""
    work = next((entry for entry in folded if entry.reduction is statement), None)
    return reads(statement) if work is None else reads(work.elements)


def _number(
    statements: tuple[Stmt, ...],
    folded: tuple[FoldedElements, ...],
    leaves: list[Stmt],
    spans: dict[str, tuple[int, int]],
) -> None:
    """Counts the statements that hold no others into `leaves`, and notes for each buffer the first and the last of them
    that mention it. Folded ones are part of their reduction."""
    for statement in statements:
        match statement:
            case For(body=body) | Persistent(body=body):
                inner: dict[str, tuple[int, int]] = {}
                _number(body, folded, leaves, inner)
                for name, span in inner.items():
                    spans[name] = (spans[name][0], len(leaves) - 1) if name in spans else span
            case If(_, then, otherwise):
                _number(then, folded, leaves, spans)
                _number(otherwise, folded, leaves, spans)
            case _ if any(entry.elements is statement for entry in folded):
                pass
            case _:
                for buffer in (*_operands(statement, folded), *writes(statement)):
                    spans[buffer.name] = (spans.get(buffer.name, (len(leaves), 0))[0], len(leaves))
                leaves.append(statement)


def operand_registers(kernel: Kernel, decisions: Decisions) -> int:
    """32-bit registers a thread for operands that gemms read from shared memory into registers, one step of k ahead:
    16-bit elements, two in a register, two slots."""
    total = 0
    for statement in each_statement(kernel.body):
        if isinstance(statement, Gemm) and decisions.gemms[statement].family == "mma_sync":
            decision = decisions.gemms[statement]
            m, n, k = decision.instruction
            a = m * k * decision.repeats[0] if decision.a_source == "shared" else 0
            b = n * k * decision.repeats[1] if decision.b_source == "shared" else 0
            total = max(total, 2 * (a + b) // 64)
    return total


def operand_slots(program: Program, decisions: Decisions, target: Target, blocks: int) -> int:
    """Into how many register slots operands are read: 2, so that they run a step ahead, where they fit beside the
    accumulators, else 1. `blocks` share a multiprocessor."""
    kernel, limits = program.kernel, target.limits
    owned = min(limits.registers_per_multiprocessor // (blocks * kernel.threads), limits.registers_per_thread)
    needed = fragment_registers(kernel, decisions) + operand_registers(kernel, decisions) + ADDRESS_REGISTERS
    return 2 if needed <= owned else 1
