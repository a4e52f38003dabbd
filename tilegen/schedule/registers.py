"""An estimate of the registers that a kernel's fragments take."""

from __future__ import annotations

from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Kernel


def fragment_registers(kernel: Kernel, decisions: Decisions) -> int:
    """32-bit registers a thread for all fragments, as if all were alive at once."""
    total = 0
    for buffer in kernel.allocations:
        if buffer.scope == "fragment" and buffer.name in decisions.fragments:
            bits = decisions.fragments[buffer.name].register_count * buffer.dtype.bits
            total += -(-bits // 32)
    return total
