"""Blocks that a program wants a multiprocessor to hold, in place of the schedule's own estimate."""

from __future__ import annotations

from tilegen.diagnostics import ProgramError
from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Kernel
from tilegen.schedule.registers import allotted_registers, live_registers
from tilegen.target import Target


def wanted_blocks(
    kernel: Kernel, target: Target, decisions: Decisions, threads: int, shared_bytes: int
) -> int | None:
    """Blocks of `threads` and `shared_bytes` that T.Kernel's `min_blocks` asks a multiprocessor to hold; None where it
    leaves that to the schedule.

    Raises:
        ProgramError: more than threads, shared memory or registers allow.
    """
    wanted = kernel.min_blocks
    if wanted is None:
        return None
    limits = target.limits
    each = shared_bytes + limits.reserved_shared_bytes
    live = live_registers(kernel, decisions, widened=False)
    room = {
        f"{target.name} holds {limits.blocks_per_multiprocessor}": limits.blocks_per_multiprocessor,
        f"{threads} threads each leave room for {limits.threads_per_multiprocessor // threads}": (
            limits.threads_per_multiprocessor // threads
        ),
    }
    if shared_bytes:
        fitting = limits.shared_bytes_per_multiprocessor // each
        room[f"{shared_bytes:,} bytes of shared memory each leave room for {fitting}"] = fitting
    fitting = max(
        (n for n in range(1, wanted + 1) if allotted_registers(target, n * threads) >= live), default=1
    )
    room[f"fragments of {live} registers a thread leave room for {fitting}"] = fitting
    reason = min(room, key=lambda text: room[text])
    if room[reason] < wanted:
        raise ProgramError(
            kernel.location,
            f"min_blocks={wanted} blocks do not fit a multiprocessor of {target.name}: {reason}",
            remedy=f"use min_blocks={max(1, room[reason])}, or smaller tiles",
        )
    return wanted
