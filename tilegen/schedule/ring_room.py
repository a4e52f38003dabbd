"""What rings that TMA fills take of shared memory, beside the other tiles."""

from __future__ import annotations

from tilegen.diagnostics import ProgramError
from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Kernel
from tilegen.schedule.add_partials import room_of_partials
from tilegen.schedule.plan import HandOver
from tilegen.schedule.residency import BARRIER_BYTES, rounded
from tilegen.target import Target


def shared_bytes(kernel: Kernel, hand_overs: tuple[HandOver, ...], decisions: Decisions) -> int:
    """Bytes of rings with their barriers, and of the other tiles."""
    rings = {name for hand_over in hand_overs for name in hand_over.buffers}
    others = [b for b in kernel.allocations if b.scope == "shared" and b.name not in rings]
    return sum(h.stages * (h.bytes + 2 * BARRIER_BYTES) for h in hand_overs) + sum(
        decisions.shared[buffer.name].bytes for buffer in others
    )


def require_shared(kernel: Kernel, target: Target, used: int, hand_overs: tuple[HandOver, ...]) -> None:
    """Raises ProgramError, with the number of stages that fits, where the kernel uses more than a block has."""
    limit = target.limits.shared_bytes_per_block
    total = rounded(used)
    if total <= limit:
        return
    ring = max(hand_overs, key=lambda h: h.stages * h.bytes)
    fitting = ring.stages - -(-(total - limit) // ring.bytes)
    remedy = (
        f"num_stages={fitting} fits" if fitting >= 1 else "make the tile smaller: not even one stage fits"
    )
    raise ProgramError(
        ring.loop.location if ring.loop is not None else kernel.location,
        f"the kernel needs {total:,} bytes of shared memory, {total - limit:,} more than a block has on {target.name} "
        f"({limit:,})",
        remedy=f"{remedy} ({ring.bytes:,} bytes a stage)",
        related=room_of_partials(kernel),
    )
