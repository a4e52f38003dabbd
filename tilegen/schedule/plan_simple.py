"""The schedule without a pipeline: every thread does everything, with barriers between."""

from __future__ import annotations

from tilegen.diagnostics import ProgramError
from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Program
from tilegen.schedule.plan import Plan
from tilegen.target import Target


def plan_simple(program: Program, target: Target, decisions: Decisions) -> Plan:
    """The plan.

    Raises:
        ProgramError: when threads or shared memory exceed the target's limits.
    """
    kernel = program.kernel
    check_threads(program, target)
    used = sum(decisions.shared[b.name].bytes for b in kernel.allocations if b.scope == "shared")
    limit = target.limits.shared_bytes_per_block
    if used > limit:
        raise ProgramError(
            kernel.location,
            f"the kernel needs {used:,} bytes of shared memory, {used - limit:,} more than a block of {target.name} has "
            f"({limit:,})",
            remedy="make the shared tiles smaller",
        )
    return Plan(
        kind="simple",
        threads=kernel.threads,
        computing=kernel.threads,
        consumers=0,
        persistent=bool(kernel.persistent),
        blocks_per_multiprocessor=1,
        cluster=kernel.cluster,
        rasterisation=kernel.rasterisation,
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
