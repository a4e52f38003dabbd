"""Accumulators to global memory by way of LDS on CDNA, so that stores are 16 bytes a lane and rows are contiguous.

Lanes run down an accumulator's rows: stored from registers, a wave would touch 32 rows at 16 bytes each. Each wave
turns its own part over in its own piece of LDS, a block of rows at a time; it waits for no other.
"""

from __future__ import annotations

from tilegen.inference.decisions import Decisions, GemmDecision
from tilegen.inference.fragment import Fragment, Mode, merged_modes
from tilegen.inference.lds_layout import SharedAccess, best_layout
from tilegen.inference.mfma_operands import WAVE
from tilegen.inference.shared import SharedLayout
from tilegen.inference.tile_transfer import straight_transfer
from tilegen.inference.vector_access import ACCESS_BYTES
from tilegen.ir.affine import Ranges
from tilegen.ir.nodes import Copy, For, Kernel, Program, Stmt
from tilegen.ir.types import DType
from tilegen.schedule.analysis import each_statement, reads, writes
from tilegen.schedule.plan import Plan, Staging
from tilegen.schedule.tile_copy import window_problem
from tilegen.target import Target

DTYPES = ("float16", "bfloat16", "float32")


def stage_stores(
    program: Program, plan: Plan, decisions: Decisions, target: Target, used: int, ranges: Ranges
) -> None:
    """Gives a staging tile to every copy from an accumulator to a tensor that one fits; `used` bytes are taken by the
    program's own tiles, of which those of pipelined loops are free when a copy outside them runs."""
    filled = rings(program, plan)
    limit = target.limits.shared_bytes_per_block
    taken = [buffer.name for buffer in program.kernel.allocations]
    staged: tuple[str, ...] = ()
    for copy in _outside_pipelines(program.kernel.body, plan):
        dead = {**filled, **_dead_tiles(program.kernel, plan, copy)}
        free = limit - used + sum(decisions.shared[name].bytes * stages for name, stages in dead.items())
        over = (*dead, *staged)
        decision = accumulator_of(copy, decisions)
        if decision is None or window_problem(copy.target, ranges):
            continue
        layout = _strip(decision, copy.target.buffer.dtype, free, target)
        if layout is not None:
            name = f"{copy.source.buffer.name.removesuffix('_local')}_staging"
            while name in taken:
                name += "_out"
            plan.staging[copy] = Staging(name, layout, over)
            taken.append(name)
            staged = (*staged, name)  # the next one may take its place


def accumulator_of(copy: Copy, decisions: Decisions) -> GemmDecision | None:
    """The gemm whose accumulator is laid out as the copy's source; None where the copy is no store of a whole one."""
    source, sink = copy.source.buffer, copy.target.buffer
    if source.scope != "fragment" or sink.scope != "global" or source.rank != 2:
        return None
    if copy.source.tile != source.extents or copy.target.tile != source.extents:
        return None
    if sink.dtype.name not in DTYPES or source.dtype.name not in DTYPES:
        return None
    fragment = decisions.fragments.get(source.name)
    for _, decision in decisions.gemms.items():
        if decision.family == "mfma" and fragment is not None and decision.c.same_distribution(fragment):
            return decision
    return None


def wave_part(decision: GemmDecision, columns: int, elements: int) -> Fragment:
    """What one wave writes to its strip [rows of an instruction, columns], in registers [vectors][elements]."""
    size = decision.instruction[0]
    lanes = _lanes(decision)
    flat = merged_modes(tuple(mode for modes in reversed(decision.c.registers[1:]) for mode in modes))
    head, rest = _cut(flat, elements)
    vectors = columns * size // WAVE // elements
    outer, _ = _cut(rest, vectors)
    return Fragment((size, columns), lanes, (outer or (Mode(1, (0, 0)),), head))


def _lanes(decision: GemmDecision) -> tuple[Mode, ...]:
    """The thread modes of one wave."""
    found: list[Mode] = []
    threads = 1
    for mode in decision.c.threads:
        if threads == WAVE:
            break
        found.append(mode)
        threads *= mode.extent
    return tuple(found)


def _cut(modes: tuple[Mode, ...], size: int) -> tuple[tuple[Mode, ...], tuple[Mode, ...]]:
    """The first `size` positions, and the rest."""
    first: list[Mode] = []
    rest: list[Mode] = []
    left = size
    for mode in modes:
        take = min(left, mode.extent)
        if take > 1:
            first.append(Mode(take, mode.steps))
        if take < mode.extent:
            rest.append(Mode(mode.extent // take, tuple(take * step for step in mode.steps)))
        left //= take
    return tuple(first), tuple(rest)


def _strip(decision: GemmDecision, dtype: DType, free: int, target: Target) -> SharedLayout | None:
    """The strip [waves, rows, columns] that fits and meets no bank conflict; None where none fits."""
    size = decision.instruction[0]
    waves = decision.warps[0] * decision.warps[1]
    columns = decision.c.tile[1] // decision.warps[1]
    elements = ACCESS_BYTES // dtype.bytes
    columns = next(
        (
            width
            for width in (columns // parts for parts in range(1, columns + 1) if columns % parts == 0)
            if waves * size * width * dtype.bytes <= free and _turns_over(decision, width, dtype)
        ),
        0,
    )
    if not columns:
        return None
    writes = SharedAccess("store", wave_part(decision, columns, elements))
    reads = SharedAccess("load", straight_transfer((size, columns), WAVE, dtype.bytes).fragment)
    found = best_layout((size, columns), dtype, reads, (writes,), target)
    return SharedLayout((waves, size, columns), dtype, columns, found.xors, found.padding)


def _turns_over(decision: GemmDecision, columns: int, dtype: DType) -> bool:
    """Whether a strip of this width is written and read in whole pieces, with no lane beyond it."""
    size = decision.instruction[0]
    elements = ACCESS_BYTES // dtype.bytes
    if columns % (8 * WAVE // size) or columns * size % (WAVE * elements):
        return False
    if wave_part(decision, columns, elements).contiguous_registers(1) < elements:
        return False
    return straight_transfer((size, columns), WAVE, dtype.bytes).fragment.exact


def rings(program: Program, plan: Plan) -> dict[str, int]:
    """Shared tiles that pipelined loops fill, with their stages."""
    found: dict[str, int] = {}
    for loop, stages in plan.stages.items():
        for statement in loop.body:
            if not isinstance(statement, Copy) or statement.source.buffer.scope != "global":
                continue
            if statement.target.buffer.scope == "shared":
                found[statement.target.buffer.name] = stages
    return found


def _dead_tiles(kernel: Kernel, plan: Plan, copy: Copy) -> dict[str, int]:
    """Shared tiles, of one stage, that loops without a pipeline have filled and nothing touches any more when the copy
    runs, which it does once."""
    if plan.persistent or not any(statement is copy for statement in kernel.body):
        return {}
    at = next(at for at, statement in enumerate(kernel.body) if statement is copy)
    filled = [
        statement.target.buffer
        for loop in kernel.body[:at]
        if isinstance(loop, For) and loop.kind == "pipelined" and loop not in plan.stages
        for statement in each_statement(loop.body)
        if isinstance(statement, Copy) and statement.source.buffer.scope == "global"
    ]
    later = {buffer for statement in kernel.body[at:] for buffer in (*reads(statement), *writes(statement))}
    return {buffer.name: 1 for buffer in filled if buffer.scope == "shared" and buffer not in later}


def _outside_pipelines(statements: tuple[Stmt, ...], plan: Plan) -> list[Copy]:
    """Copies that no pipelined loop contains."""
    found: list[Copy] = []
    for statement in statements:
        if isinstance(statement, Copy):
            found.append(statement)
        elif isinstance(statement, For) and statement in plan.stages:
            continue
        else:
            for field in ("body", "then", "otherwise"):
                inner = getattr(statement, field, ())
                found += _outside_pipelines(inner, plan)
    return found
