"""The schedule of Ampere and Ada, and of Hopper where the TMA unit cannot load: a ring of cp.async stages.

All threads load and compute. One barrier an iteration tells that a tile has landed and that its predecessor has been
left, so that the copies for a later tile may overwrite it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from tilegen.diagnostics import ProgramError
from tilegen.inference.decisions import Decisions
from tilegen.inference.loops import as_loop
from tilegen.inference.vector_access import aligned_elements
from tilegen.ir.nodes import Copy, For, Kernel, Program
from tilegen.schedule.add_partials import room_of_partials
from tilegen.schedule.analysis import each_statement, wanted_stages, written_tensors
from tilegen.schedule.min_blocks import wanted_blocks
from tilegen.schedule.plan import Plan
from tilegen.schedule.rasterise import default_rasterisation
from tilegen.schedule.registers import (
    ADDRESS_REGISTERS,
    check_registers,
    fragment_registers,
    operand_registers,
)
from tilegen.schedule.run_ahead import bound_to_iteration, bound_to_order
from tilegen.target import Target

StagedLoop = tuple[For, tuple[Copy, ...]]
_NO_TILE = " loads no tile ahead"


def plan_multistage(program: Program, target: Target, decisions: Decisions) -> Plan | str:
    """The plan, or why the kernel cannot run so ("" when there is nothing to say)."""
    if not target.has("cp_async"):
        return ""
    kernel = program.kernel
    loops, reasons = _staged_loops(kernel, decisions)
    limit = target.limits.shared_bytes_per_block
    used = _shared_bytes(kernel, decisions, loops)
    if used > limit:
        open_loops = [loop.var.name for loop, _ in loops if loop.num_stages is None]
        reasons += [f"loop {name}: one stage, two do not fit in shared memory" for name in open_loops]
        loops = [(loop, copies) for loop, copies in loops if loop.num_stages is not None]
        used = _shared_bytes(kernel, decisions, loops)
    if not loops:
        return "; ".join(reasons)
    check_registers(program, target, decisions)
    if used > limit:
        raise _too_much(kernel, target, decisions, loops, used)
    plan = Plan(
        kind="multistage",
        threads=kernel.threads,
        computing=kernel.threads,
        consumers=0,
        persistent=bool(kernel.persistent),
        blocks_per_multiprocessor=_residency(kernel, decisions, target, used),
        cluster=kernel.cluster,
        rasterisation=kernel.rasterisation or default_rasterisation(kernel, target),
    )
    for loop, _ in loops:
        plan.stages[loop] = wanted_stages(loop)
    plan.reasons += reasons
    return plan


def _staged_loops(kernel: Kernel, decisions: Decisions) -> tuple[list[StagedLoop], list[str]]:
    """The loops of several stages with the copies that run ahead in them, and why others do not."""
    loops: list[StagedLoop] = []
    reasons: list[str] = []
    for statement in each_statement(kernel.body):
        if isinstance(statement, For) and statement.kind == "pipelined" and wanted_stages(statement) >= 2:
            copies = staged_copies(kernel, statement, decisions)
            bound = (_bound(kernel, statement, copy, decisions) for copy in _loads(statement))
            reasons += [reason for reason in bound if reason and reason not in reasons]
            if copies:
                loops.append((statement, copies))
    return loops, _together(reasons)


def _together(reasons: Sequence[str]) -> list[str]:
    """The reasons, one for all copies that have the same: `a.py:8 and a.py:9 load no tile ahead: …`."""
    alike: dict[str, list[str]] = {}
    for reason in reasons:
        why = reason.partition(_NO_TILE)[2]
        alike.setdefault(why or reason, []).append(reason)
    return [
        whole[0]
        if len(whole) == 1
        else f"{' and '.join(reason.partition(_NO_TILE)[0] for reason in whole)} load no tile ahead{why}"
        for why, whole in alike.items()
    ]


def _too_much(
    kernel: Kernel, target: Target, decisions: Decisions, loops: Sequence[StagedLoop], used: int
) -> ProgramError:
    """The error where the stages that loops ask for do not fit, at the loop whose stages take the most."""
    limit = target.limits.shared_bytes_per_block
    stages = [sum(decisions.shared[copy.target.buffer.name].bytes for copy in copies) for _, copies in loops]
    largest = max(range(len(loops)), key=lambda number: wanted_stages(loops[number][0]) * stages[number])
    loop, stage = loops[largest][0], stages[largest]
    fitting = wanted_stages(loop) - -(-(used - limit) // stage)
    remedy = (
        f"num_stages={fitting} fits" if fitting >= 1 else "make the tile smaller: not even one stage fits"
    )
    return ProgramError(
        loop.location,
        f"the kernel needs {used:,} bytes of shared memory, {used - limit:,} more than {target.name} gives a block "
        f"({limit:,})",
        remedy=f"{remedy} ({stage:,} bytes a stage)",
        related=room_of_partials(kernel),
    )


def _shared_bytes(kernel: Kernel, decisions: Decisions, loops: Sequence[StagedLoop]) -> int:
    """Shared memory with rings for what these loops load ahead."""
    rings = {copy.target.buffer.name: wanted_stages(loop) for loop, copies in loops for copy in copies}
    return sum(
        decisions.shared[buffer.name].bytes * rings.get(buffer.name, 1)
        for buffer in (*kernel.allocations, *decisions.scratch)
        if buffer.scope == "shared"
    )


def staged_copies(kernel: Kernel, loop: For, decisions: Decisions) -> tuple[Copy, ...]:
    """The copies of a loop that run ahead: whole shared tiles from tensors that nothing writes, filled once an
    iteration."""
    return tuple(copy for copy in _loads(loop) if not _bound(kernel, loop, copy, decisions))


def _loads(loop: For) -> tuple[Copy, ...]:
    """The copies of a loop from tensors to shared tiles."""
    copies = (statement for statement in loop.body if isinstance(statement, Copy))
    return tuple(c for c in copies if c.source.buffer.scope == "global" and c.target.buffer.scope == "shared")


def _bound(kernel: Kernel, loop: For, copy: Copy, decisions: Decisions) -> str:
    """Why a copy cannot run ahead of its iteration as cp.async; empty when it can."""
    source, sink = copy.source, copy.target
    written = written_tensors(kernel)
    no_tile = f"{copy.location.place}{_NO_TILE}"
    if source.buffer.name in written:
        return f"{no_tile}: {source.buffer.name} is written by the kernel"
    if source.buffer.dtype != sink.buffer.dtype:
        return f"{no_tile}: cp.async converts no elements"
    if sink.tile != sink.buffer.extents:
        return f"{no_tile}: it fills a part of {sink.buffer.name}"
    if len(source.kept) > 2:
        return f"{no_tile}: the tile has more than two axes"
    if decisions.layout(sink.buffer).transposed:
        return f"{no_tile}: {sink.buffer.name} is stored transposed"
    if not async_bytes(copy, decisions):
        return f"{no_tile}: not even 4 bytes are aligned in both places"
    order = bound_to_order(loop, copy, kernel)
    return f"{no_tile}: {order}" if order else bound_to_iteration(loop, copy, kernel)


def async_bytes(copy: Copy, decisions: Decisions) -> int:
    """Bytes of one cp.async of this copy: 16, 8 or 4; 0 where not even 4 are aligned in both places."""
    loop = as_loop(copy)
    assert loop is not None
    layout = decisions.layout(copy.target.buffer)
    width = min(
        aligned_elements(
            access,
            loop.names,
            len(loop.names) - 1,
            decisions.divisors,
            layout if access.buffer.scope == "shared" else None,
        )
        for access in loop.accesses
    )
    size = gcd(width, layout.group) * copy.target.buffer.dtype.bytes
    return size if size >= 4 else 0


def _residency(kernel: Kernel, decisions: Decisions, target: Target, used: int) -> int:
    """As the program says, else two blocks a multiprocessor where shared memory and registers allow both, else one."""
    wanted = wanted_blocks(kernel, target, decisions, kernel.threads, used)
    if wanted is not None:
        return wanted
    limits = target.limits
    if 2 * (used + limits.reserved_shared_bytes) > limits.shared_bytes_per_multiprocessor:
        return 1
    registers = limits.registers_per_multiprocessor // (2 * kernel.threads)
    needed = fragment_registers(kernel, decisions) + operand_registers(kernel, decisions) + ADDRESS_REGISTERS
    return 2 if registers >= needed else 1
