"""An estimate of the registers that a kernel without gemms lives with.

Measured with nvcc 13 on softmax, RMS and layer norm of rows of 2048 to 16384 elements, by 128 to 1024 threads: the
fewest registers under which nothing is spilled.
"""

from __future__ import annotations

from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Buffer, Kernel, ParallelFor
from tilegen.schedule.analysis import each_statement, reads
from tilegen.schedule.registers import live_registers

_ADDRESSES = 15  # registers beside fragments: addresses, counters, what a reduction exchanges
_BOUNDS = 2  # of tiles that threads do not divide evenly
_KEPT = 6  # beside converted elements that are kept


def streaming_registers(kernel: Kernel, decisions: Decisions) -> int:
    """32-bit registers a thread.

    Vectors of tensors that an element-wise statement reads are loaded ahead. Beside them the compiler keeps half as
    much again as the fragments have, of what it has converted and computed; of fp16 it does not, which instructions
    convert as they read it.
    """
    even = all(fragment.exact for fragment in decisions.fragments.values())
    needed = live_registers(kernel, decisions) + _ADDRESSES + (0 if even else _BOUNDS)
    tensors = _loaded_tensors(kernel)
    if not tensors:
        return needed
    ahead = sum(map(_ahead, tensors))
    kept = live_registers(kernel, decisions, lambda buffer: buffer.dtype.name != "float16")
    return max(needed, live_registers(kernel, decisions) + max(ahead, kept // 2 + _KEPT))


def _ahead(tensor: Buffer) -> int:
    """Registers for a tensor that is read beside the fragments: its address, and elements on their way."""
    return 4 + 3 * tensor.dtype.bits // 8


def _loaded_tensors(kernel: Kernel) -> tuple[Buffer, ...]:
    """The tensors that an element-wise statement reads, at the statement that reads most: compilers load their elements
    ahead."""
    found = (
        tuple(buffer for buffer in reads(statement) if buffer.scope == "global")
        for statement in each_statement(kernel.body)
        if isinstance(statement, ParallelFor)
    )
    return max(found, key=len, default=())
