"""How many parts of sums over blocks a thread loads at once (T.sum_blocks) beside a wgmma's accumulators.

nvcc 13 unrolls a loop over few blocks and starts the loads of all their parts. Where these do not fit in registers,
it spilled up to 1.9 KB a thread; beside the accumulators of mma.sync it spilled nothing.
"""

from __future__ import annotations

from tilegen.inference.decisions import Decisions
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import AddParts, Kernel
from tilegen.schedule.add_partials import vector_elements
from tilegen.schedule.analysis import each_statement
from tilegen.schedule.plan import Plan
from tilegen.schedule.registers import registers_at, registers_of_thread
from tilegen.schedule.residency import OVERHEAD_REGISTERS
from tilegen.target import Target

SPILLING = 1.2  # parts to the registers left: ptxas starts fewer loads up to 1.18, and spills from 1.23 on
PARTS_AHEAD = 4  # of one vector of sums, in a loop over more blocks


def sums_at_once(
    kernel: Kernel, statement: AddParts, plan: Plan, decisions: Decisions, target: Target
) -> int | None:
    """Elements whose parts may be under way together; None where that needs no limit."""
    blocks = kernel.grid[[var.name for var in kernel.block_vars].index(statement.axis.name)]
    buffer = statement.target.buffer
    by_wgmma = any(g.c.buffer == buffer and d.family == "wgmma" for g, d in decisions.gemms.items())
    if not by_wgmma or not isinstance(blocks, Const) or not 1 < int(blocks.value) <= PARTS_AHEAD + 1:
        return None
    free = registers_of_thread(plan, target) - _beside(kernel, statement, decisions)
    fragment = decisions.fragment(buffer)
    parts = (int(blocks.value) - 1) * fragment.register_count * buffer.dtype.bits // 32
    if parts <= SPILLING * free:
        return None
    return max((free - OVERHEAD_REGISTERS) * 32 // buffer.dtype.bits, vector_elements(fragment, buffer))


def _beside(kernel: Kernel, statement: AddParts, decisions: Decisions) -> int:
    """Registers a thread for the fragments that are alive beside the parts: sums that are still to be read back are
    not."""
    later = [s.target.buffer for s in each_statement(kernel.body) if isinstance(s, AddParts)]
    later = later[later.index(statement.target.buffer) + 1 :]
    alive = registers_at(kernel, decisions, lambda buffer: buffer not in later)
    return next(count for one, count in alive if one is statement)
