"""The schedule without a pipeline: every thread does everything, with barriers between."""

from __future__ import annotations

from tilegen.diagnostics import ProgramError
from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Program
from tilegen.schedule.add_partials import room_of_partials
from tilegen.schedule.min_blocks import wanted_blocks
from tilegen.schedule.plan import Plan
from tilegen.schedule.registers import (
    ADDRESS_REGISTERS,
    allotted_registers,
    check_registers,
    live_registers,
    operand_registers,
)
from tilegen.schedule.streaming import streaming_registers
from tilegen.target import Target

_RESIDENT = 2  # the part of the threads that a multiprocessor holds which shall be resident
_FEWEST = 2  # blocks that shall be resident even so: one loads while the other computes


def plan_simple(program: Program, target: Target, decisions: Decisions) -> Plan:
    """The plan.

    Raises:
        ProgramError: when threads or shared memory exceed the target's limits.
    """
    kernel = program.kernel
    check_registers(program, target, decisions)
    used = sum(decisions.shared[b.name].bytes for b in kernel.allocations if b.scope == "shared")
    limit = target.limits.shared_bytes_per_block
    if used > limit:
        raise ProgramError(
            kernel.location,
            f"the kernel needs {used:,} bytes of shared memory, {used - limit:,} more than {target.name} gives a block "
            f"({limit:,})",
            remedy="make the shared tiles smaller",
            related=room_of_partials(kernel),
        )
    return Plan(
        kind="simple",
        threads=kernel.threads,
        computing=kernel.threads,
        consumers=0,
        persistent=bool(kernel.persistent),
        blocks_per_multiprocessor=_residency(program, decisions, target, used),
        cluster=kernel.cluster,
        rasterisation=kernel.rasterisation,
    )


def _residency(program: Program, decisions: Decisions, target: Target, used: int) -> int:
    """Blocks a multiprocessor for which the compiler leaves registers: half of the threads that it holds and at least
    two, so that the loads of some blocks overlap with the arithmetic of others; fewer where fragments or shared memory
    need more room; or as the program says. HIP's compiler takes no such bound: it looks for the occupancy itself."""
    kernel, limits = program.kernel, target.limits
    wanted = wanted_blocks(kernel, target, decisions, kernel.threads, used)
    if wanted is not None:
        return wanted
    if target.language == "hip":
        return 1
    blocks = limits.threads_per_multiprocessor // (_RESIDENT * kernel.threads)
    if not len(decisions.gemms):
        blocks = max(blocks, min(_FEWEST, limits.threads_per_multiprocessor // kernel.threads))
    blocks = min(blocks, limits.blocks_per_multiprocessor)
    if used:
        blocks = min(blocks, limits.shared_bytes_per_multiprocessor // (used + limits.reserved_shared_bytes))
    if len(decisions.gemms):
        # Operands are in registers beside the accumulators, and so are the bounds of guarded loads.
        needed = live_registers(kernel, decisions) + operand_registers(kernel, decisions) + ADDRESS_REGISTERS
        return max(1, min(blocks, limits.registers_per_multiprocessor // (needed * kernel.threads)))
    needed = streaming_registers(kernel, decisions)
    return next(
        (n for n in range(blocks, 1, -1) if allotted_registers(target, n * kernel.threads) >= needed), 1
    )


def check_threads(program: Program, target: Target) -> None:
    """Raises ProgramError for a block that the target cannot run."""
    kernel, limits = program.kernel, target.limits
    if kernel.threads % limits.warp_size:
        nearest = max(1, round(kernel.threads / limits.warp_size)) * limits.warp_size
        raise ProgramError(
            kernel.location,
            f"{kernel.threads} threads are not whole warps of {limits.warp_size} on {target.name}",
            remedy=f"use threads={nearest}",
        )
    if kernel.threads > limits.threads_per_block:
        raise ProgramError(
            kernel.location,
            f"a block has at most {limits.threads_per_block} threads on {target.name}, not {kernel.threads}",
            remedy=f"use threads={limits.threads_per_block} or fewer",
        )
