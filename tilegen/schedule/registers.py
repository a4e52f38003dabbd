"""An estimate of the registers that a kernel's fragments take."""

from __future__ import annotations

from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Buffer, For, Gemm, If, Kernel, Persistent, Stmt
from tilegen.schedule.analysis import each_statement, reads, writes


def fragment_registers(kernel: Kernel, decisions: Decisions) -> int:
    """32-bit registers a thread for all fragments, as if all were alive at once."""
    return sum(_registers(buffer, decisions) for buffer in kernel.allocations)


def _registers(buffer: Buffer, decisions: Decisions) -> int:
    """32-bit registers a thread for a fragment; none for other buffers."""
    if buffer.scope != "fragment" or buffer.name not in decisions.fragments:
        return 0
    return -(-decisions.fragments[buffer.name].register_count * buffer.dtype.bits // 32)


def live_registers(kernel: Kernel, decisions: Decisions) -> int:
    """32-bit registers a thread for the fragments that are alive together, at the statement where they are most.

    A fragment lives from the first statement that mentions it to the last one, and to the end of a loop that mentions
    it as well.
    """
    spans: dict[str, tuple[int, int]] = {}
    _number(kernel.body, 0, spans)
    sizes = {buffer.name: _registers(buffer, decisions) for buffer in kernel.allocations}
    starts = {first for first, _ in spans.values()}
    return max(
        (sum(sizes.get(name, 0) for name, (first, last) in spans.items() if first <= at <= last) for at in starts),
        default=0,
    )


def _number(statements: tuple[Stmt, ...], position: int, spans: dict[str, tuple[int, int]]) -> int:
    """Notes for each buffer the first and the last of the statements, counted from `position`, that mention it; returns
    the position after them."""
    for statement in statements:
        match statement:
            case For(body=body) | Persistent(body=body):
                inner: dict[str, tuple[int, int]] = {}
                end = _number(body, position, inner)
                for name, span in inner.items():
                    spans[name] = (spans[name][0], end - 1) if name in spans else span
                position = end
            case If(_, then, otherwise):
                position = _number(otherwise, _number(then, position, spans), spans)
            case _:
                for buffer in (*reads(statement), *writes(statement)):
                    spans[buffer.name] = (spans.get(buffer.name, (position, position))[0], position)
                position += 1
    return position


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
