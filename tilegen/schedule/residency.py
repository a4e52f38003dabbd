"""How a warp-specialised kernel shares a multiprocessor: blocks that are resident together, their walk over the tiles,
the registers of their roles.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.diagnostics import ProgramError
from tilegen.inference import gemm_wgmma
from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Copy, For, If, Kernel, Persistent
from tilegen.schedule.analysis import each_statement, reads
from tilegen.schedule.min_blocks import wanted_blocks
from tilegen.schedule.plan import HandOver, Plan, Registers
from tilegen.schedule.registers import fragment_registers, live_registers
from tilegen.schedule.skew import find_skew
from tilegen.schedule.uneven import uneven_axes
from tilegen.target import Target

BARRIER_BYTES = 8
SHARED_ALIGNMENT = 1024
PRODUCER_REGISTERS = 40  # a loop of TMA loads with its tile coordinates; nvcc spills under 32
OVERHEAD_REGISTERS = 40  # addresses, loop counters and descriptors of a consumer
LEAST_OVERHEAD = 20  # of them, those that are alive at once


def rounded(used: int) -> int:
    """Bytes of shared memory with the padding of SharedStorage's alignment."""
    return -(-used // SHARED_ALIGNMENT) * SHARED_ALIGNMENT


def residency(kernel: Kernel, plan: Plan, decisions: Decisions, target: Target, used: int) -> int:
    """As the program says, else as many blocks a multiprocessor as shared memory and registers allow, at most those
    that the device gains by."""
    wanted = wanted_blocks(kernel, target, decisions, plan.threads, rounded(used))
    if wanted is not None:
        return wanted
    limits = target.limits
    size = rounded(used) + limits.reserved_shared_bytes
    held = max(fragment_registers(kernel, decisions), live_registers(kernel, decisions))
    needed = held + OVERHEAD_REGISTERS
    least = _least_registers(decisions, target)
    for resident in range(target.device.resident_blocks, 1, -1):
        if (
            resident * size > limits.shared_bytes_per_multiprocessor
            or resident * plan.threads > limits.threads_per_multiprocessor
        ):
            continue
        entry = _entry_registers(plan.threads * resident, target)
        if entry < least:
            continue
        owned = entry * (plan.consumers + 1) - PRODUCER_REGISTERS
        consumer = owned // plan.consumers // limits.register_granularity * limits.register_granularity
        if min(consumer, limits.registers_per_thread) >= needed:
            return resident
    return 1


def _least_registers(decisions: Decisions, target: Target) -> int:
    """Registers at launch that every instruction finds enough: what setmaxnreg gives later is no help to ptxas."""
    return max(
        (
            gemm_wgmma.least_registers(gemm, decision, target)
            for gemm, decision in decisions.gemms.items()
            if decision.family == "wgmma"
        ),
        default=0,
    )


def loaded_ahead(kernel: Kernel, plan: Plan, target: Target, used: int) -> tuple[HandOver, ...]:
    """What is loaded once a tile gets a second stage where shared memory has room: the next tile's is then on its way
    while this one's is in use. What threads copy to registers is out of use at once."""
    once = [h for h in plan.hand_overs if h.loop is None and not _goes_to_registers(kernel, h)]
    extra = sum(h.bytes + 2 * BARRIER_BYTES for h in once)
    if extra > room(plan, target, used):
        return plan.hand_overs
    return tuple(replace(h, stages=2) if any(h is one for one in once) else h for h in plan.hand_overs)


def _goes_to_registers(kernel: Kernel, hand_over: HandOver) -> bool:
    """Whether copies to fragments are all that reads a hand-over's tiles."""
    return all(
        isinstance(statement, Copy) and statement.target.buffer.scope == "fragment"
        for statement in each_statement(kernel.body)
        if not isinstance(statement, For | If | Persistent)
        and any(buffer.name in hand_over.buffers for buffer in reads(statement))
    )


def room(plan: Plan, target: Target, used: int) -> int:
    """Bytes of shared memory that a block may still take without costing a resident one."""
    limits = target.limits
    most = min(
        limits.shared_bytes_per_block,
        limits.shared_bytes_per_multiprocessor // plan.blocks_per_multiprocessor
        - limits.reserved_shared_bytes,
    )
    return most // SHARED_ALIGNMENT * SHARED_ALIGNMENT - used


def _entry_registers(threads: int, target: Target) -> int:
    limits = target.limits
    step = limits.register_granularity
    return min(limits.registers_per_multiprocessor // threads, limits.registers_per_thread) // step * step


def is_persistent(kernel: Kernel, plan: Plan) -> bool:
    """As the user says; else where one block fills a multiprocessor, and all blocks do the same work or draw their
    tiles in the order of falling work."""
    if any(isinstance(statement, Persistent) for statement in each_statement(kernel.body)):
        return False
    if kernel.persistent is not None:
        return kernel.persistent
    if plan.overlays:  # in the place of what the next tile's loads would fill
        return False
    if plan.blocks_per_multiprocessor > 1:
        return False
    return plan.longest_first is not None or not uneven_axes(kernel)


def takes_turns(kernel: Kernel, plan: Plan, decisions: Decisions) -> bool:
    """Whether the warpgroups alternate between gemms and element-wise work."""
    loops = [s for s in each_statement(kernel.body) if isinstance(s, For) and s.kind == "pipelined"]
    skewed = [loop for loop in loops if find_skew(loop, decisions, plan) is not None]
    return plan.consumers > 1 and len(loops) == 1 and len(skewed) == 1


def registers_of(kernel: Kernel, plan: Plan, decisions: Decisions, target: Target) -> Registers | None:
    """The register budget: what the launch gives, what the producer returns, what the consumers take; None where the
    launch gives every thread at least what a consumer could ask for.

    Raises:
        ProgramError: when the fragments do not fit the consumers' share.
    """
    assert target.setmaxnreg is not None
    entry = _entry_registers(plan.threads * plan.blocks_per_multiprocessor, target)
    fragments = fragment_registers(kernel, decisions)
    needed = fragments + OVERHEAD_REGISTERS
    for producer in (PRODUCER_REGISTERS, target.setmaxnreg.minimum):
        consumer = _consumer_registers(plan.consumers, entry, producer, target)
        if consumer >= needed:
            break
    if consumer < fragments + LEAST_OVERHEAD:
        raise ProgramError(
            kernel.location,
            f"the fragments take {fragments} registers a thread, addresses and descriptors at least {LEAST_OVERHEAD} "
            f"more, but {plan.consumers} consumer warpgroup(s) beside a producer get {consumer} each on {target.name}",
            remedy=_fewer_registers(kernel, plan, fragments, target),
        )
    return Registers(entry, producer, consumer) if consumer > entry else None


def _consumer_registers(consumers: int, entry: int, producer: int, target: Target) -> int:
    """What a consumer's thread gets of a block's registers."""
    assert target.setmaxnreg is not None
    owned = entry * (consumers + 1) - producer
    step = target.setmaxnreg.step
    return min(owned // consumers // step * step, target.setmaxnreg.maximum)


def _fewer_registers(kernel: Kernel, plan: Plan, fragments: int, target: Target) -> str:
    """The remedy for fragments that do not fit: more threads have smaller parts, but of registers smaller shares."""
    assert target.setmaxnreg is not None
    threads = 2 * kernel.threads
    block = threads + target.limits.warpgroup_size
    if block <= target.limits.threads_per_block:
        entry = _entry_registers(block, target)
        given = _consumer_registers(2 * plan.consumers, entry, target.setmaxnreg.minimum, target)
        if given >= fragments // 2 + LEAST_OVERHEAD:
            return f"use more threads (threads={threads}) or a smaller tile"
    return "use a smaller tile"
