"""Loops of consumers that must stay loops: nvcc unrolls short ones by itself, and starts the loads of all iterations.

Measured with nvcc 13 on consumers of 256 to 512 threads: loops of up to some 160 elements a thread are unrolled, none
with a wgmma in them, and where the elements did not fit in registers up to 630 bytes a thread were spilled.
"""

from __future__ import annotations

from math import prod

from tilegen.inference.decisions import Decisions
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Copy, For, Gemm, Kernel, ParallelFor, Reduce, Stmt
from tilegen.schedule.analysis import each_statement, reads
from tilegen.schedule.plan import Plan
from tilegen.schedule.registers import registers_at, registers_of_thread
from tilegen.schedule.residency import LEAST_OVERHEAD
from tilegen.target import Target

_UNROLLED = 192  # elements a thread, of all iterations: more are not unrolled


def stays_rolled(kernel: Kernel, loop: For, plan: Plan, decisions: Decisions, target: Target) -> bool:
    """Whether a thread's registers are too few for what all iterations load from shared memory."""
    loads = _all_loads(loop, plan.computing)
    if _trips(loop) < 2 or not 0 < sum(elements for elements, _ in loads) <= _UNROLLED:
        return False
    inside = tuple(each_statement(loop.body))
    alive = registers_at(kernel, decisions)
    held = max((count for one, count in alive if any(one is s for s in inside)), default=0)
    loading = sum(elements * bits for elements, bits in loads) // 32
    return loading + held + LEAST_OVERHEAD > registers_of_thread(plan, target)


def _all_loads(loop: For, threads: int) -> list[tuple[int, int]]:
    """What all iterations of a loop load, with those of loops inside; nothing where it is not unrolled anyway."""
    trips = _trips(loop)
    if trips == 0 or any(isinstance(s, Gemm) for s in each_statement(loop.body)):
        return []
    found: list[tuple[int, int]] = []
    for statement in loop.body:
        if isinstance(statement, For):
            inner = _all_loads(statement, threads)
            if not inner:  # a loop that stays one keeps the iterations around it apart
                return []
            found += inner
        else:
            found += [load for one in each_statement((statement,)) for load in _loads(one, threads)]
    return [(trips * elements, bits) for elements, bits in found]


def _loads(statement: Stmt, threads: int) -> list[tuple[int, int]]:
    """How many elements of how many bits a thread loads from shared memory in a statement, of each tile."""
    match statement:
        case Copy(source=region) | Reduce(source=region):
            walked = prod(region.tile)
        case ParallelFor(extents=extents):
            walked = prod(int(extent.value) for extent in extents if isinstance(extent, Const))
        case _:
            return []
    tiles = [buffer for buffer in reads(statement) if buffer.scope == "shared"]
    return [(min(walked, prod(tile.extents)) // threads, tile.dtype.bits) for tile in tiles]


def _trips(loop: For) -> int:
    """How often a loop runs, 0 where that is not known."""
    match loop.start, loop.stop, loop.step:
        case Const(int(start)), Const(int(stop)), Const(int(step)):
            return len(range(start, stop, step))
        case _:
            return 0
