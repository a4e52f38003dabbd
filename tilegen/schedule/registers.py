"""An estimate of the registers that a kernel's fragments take."""

from __future__ import annotations

from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Gemm, Kernel
from tilegen.schedule.analysis import each_statement


def fragment_registers(kernel: Kernel, decisions: Decisions) -> int:
    """32-bit registers a thread for all fragments, as if all were alive at once."""
    total = 0
    for buffer in kernel.allocations:
        if buffer.scope == "fragment" and buffer.name in decisions.fragments:
            bits = decisions.fragments[buffer.name].register_count * buffer.dtype.bits
            total += -(-bits // 32)
    return total


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
