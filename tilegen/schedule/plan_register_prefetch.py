"""The schedule of CDNA: tile k + 2 on its way from global memory to registers, tile k + 1 from registers to LDS, tile k
from LDS to the matrix cores.

Registers hold one tile that global memory delivers while the block computes; LDS holds two where they fit (one barrier
an iteration), else one (two barriers). More stages than that would only wait in LDS. CDNA4 loads tiles that need no
transposition straight to LDS, one iteration ahead, where two fit.
"""

from __future__ import annotations

from tilegen.diagnostics import ProgramError
from tilegen.inference.decisions import Decisions
from tilegen.inference.gemm_mfma import operand_conflicts
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Copy, For, Program, Stmt
from tilegen.schedule.add_partials import room_of_partials
from tilegen.schedule.analysis import each_statement, wanted_stages, writes
from tilegen.schedule.min_blocks import wanted_blocks
from tilegen.schedule.plan import Plan
from tilegen.schedule.ranges import integer_ranges
from tilegen.schedule.registers import check_registers
from tilegen.schedule.run_ahead import bound_to_iteration
from tilegen.schedule.staged_store import stage_stores
from tilegen.schedule.tile_copy import TileCopy, tile_copy
from tilegen.target import Target

MOST_STAGES = 2  # LDS buffers that help: one is read while the next is filled


def plan_register_prefetch(program: Program, target: Target, decisions: Decisions) -> Plan | str:
    """The plan, or why the kernel cannot run so ("" when there is nothing to say).

    Raises:
        ProgramError: when threads or shared memory exceed the target's limits.
    """
    if not (target.has("buffer_load") and target.has("mfma")):
        return ""
    check_registers(program, target, decisions)
    kernel = program.kernel
    plan = Plan(
        kind="register_prefetch",
        threads=kernel.threads,
        computing=kernel.threads,
        consumers=0,
        persistent=bool(kernel.persistent),
        blocks_per_multiprocessor=1,
        cluster=kernel.cluster,
        rasterisation=kernel.rasterisation,
    )
    loops = _prefetched(program, decisions, target, plan)
    used = sum(
        decisions.shared[buffer.name].bytes
        for buffer in (*kernel.allocations, *decisions.scratch)
        if buffer.scope == "shared"
    )
    limit = target.limits.shared_bytes_per_block
    if used > limit:
        raise ProgramError(
            kernel.location,
            f"the kernel needs {used:,} bytes of shared memory, {used - limit:,} more than a block has on "
            f"{target.name} ({limit:,})",
            remedy="make the shared tiles smaller",
            related=room_of_partials(kernel),
        )
    plan.blocks_per_multiprocessor = wanted_blocks(kernel, target, decisions, kernel.threads, used) or 1
    limit = min(limit, target.limits.shared_bytes_per_multiprocessor // plan.blocks_per_multiprocessor)
    for loop, copies in loops:
        ring = sum(decisions.shared[tile.copy.target.buffer.name].bytes for tile in copies)
        double = used + ring <= limit
        plan.stages[loop] = MOST_STAGES if double else 1
        used += ring if double else 0
        plan.reasons.append(_words(loop, copies, MOST_STAGES if double else 1))
    _count_conflicts(program, decisions, target)
    stage_stores(program, plan, decisions, target, used, integer_ranges(program))
    return plan


def prefetched_copies(
    loop: For, program: Program, decisions: Decisions, target: Target
) -> tuple[TileCopy, ...] | str:
    """The copies of a loop that run ahead, or why they cannot: all that fill shared tiles from tensors must."""
    ranges = integer_ranges(program)
    written = {b.name for s in program.kernel.body for b in writes(s) if b.scope == "global"}
    found = []
    for statement in loop.body:
        if not isinstance(statement, Copy) or statement.source.buffer.scope != "global":
            continue
        if statement.target.buffer.scope != "shared":
            continue
        if statement.source.buffer.name in written:
            return f"{statement.source.buffer.name} is written by the kernel"
        tile = tile_copy(statement, program, decisions, target, ranges)
        if isinstance(tile, str):
            return f"{statement.location.place} loads no tile ahead: {tile}"
        problem = bound_to_iteration(loop, statement, program.kernel)
        if problem:
            return problem
        found.append(tile)
    if not found:
        return "it copies no tile from global to shared memory"
    return tuple(found)


def _prefetched(
    program: Program, decisions: Decisions, target: Target, plan: Plan
) -> list[tuple[For, tuple[TileCopy, ...]]]:
    loops: list[tuple[For, tuple[TileCopy, ...]]] = []
    for statement in each_statement(program.kernel.body):
        if not isinstance(statement, For) or statement.kind != "pipelined":
            continue
        if wanted_stages(statement) < 2:
            continue
        copies = prefetched_copies(statement, program, decisions, target)
        if isinstance(copies, str) and _to_registers(statement):
            continue  # unrolled instead, see tilegen.lower.pipelines.unrolled_loads
        if isinstance(copies, str):
            plan.reasons.append(f"{statement.var.name}: no prefetch, {copies}")
        elif not _unit_step(statement):
            plan.reasons.append(f"{statement.var.name}: no prefetch, its step is not 1")
        elif _inside_pipeline(statement, loops):
            plan.reasons.append(f"{statement.var.name}: no prefetch inside another pipeline")
        else:
            loops.append((statement, copies))
    return loops


def _to_registers(loop: For) -> bool:
    """Whether all that a loop copies from tensors goes straight to registers."""
    targets = [
        s.target.buffer for s in loop.body if isinstance(s, Copy) and s.source.buffer.scope == "global"
    ]
    return bool(targets) and all(buffer.scope == "fragment" for buffer in targets)


def _unit_step(loop: For) -> bool:
    return isinstance(loop.step, Const) and loop.step.value == 1


def _inside_pipeline(loop: Stmt, loops: list[tuple[For, tuple[TileCopy, ...]]]) -> bool:
    return any(inner is loop for outer, _ in loops for inner in each_statement(outer.body))


def _words(loop: For, copies: tuple[TileCopy, ...], stages: int) -> str:
    """The header's line on a pipeline."""
    k = loop.var.name
    direct = [tile.copy.target.buffer.name for tile in copies if tile.direct and stages > 1]
    through = [name for tile in copies if (name := tile.copy.target.buffer.name) not in direct]
    steps = []
    if direct:
        steps.append(f"tile {k} + 1 global -> LDS ({', '.join(direct)})")
    if through:
        which = f" ({', '.join(through)})" if direct else ""
        steps.append(f"tile {k} + 2 global -> registers{which}, tile {k} + 1 registers -> LDS")
    held = f"{stages} in LDS" + (", 1 in registers" if through else "")
    chosen = "stages that fit" if loop.num_stages is None else f"num_stages={loop.num_stages}"
    barriers = "one barrier" if stages > 1 else "two barriers"
    ways = ", ".join((*steps, f"tile {k} LDS -> operands"))
    return f"loop {k}: {ways}; {chosen}: {held}; {barriers} a tile"


def _count_conflicts(program: Program, decisions: Decisions, target: Target) -> None:
    """Bank conflicts of the operand tiles that buffer loads fill: their element-wise loops do not run."""
    ranges = integer_ranges(program)
    for gemm, decision in decisions.gemms.items():
        for which, region in (("a", gemm.a), ("b", gemm.b)):
            buffer = region.buffer
            if buffer.scope != "shared" or decision.family != "mfma" or region.tile != buffer.extents:
                continue
            layout = decisions.layout(buffer)
            for statement in each_statement(program.kernel.body):
                if isinstance(statement, Copy) and statement.target.buffer == buffer:
                    tile = tile_copy(statement, program, decisions, target, ranges)
                    if isinstance(tile, TileCopy):
                        lost = operand_conflicts(decision, which, layout, tile.transfer, target)
                        decisions.conflicts[buffer.name] = lost
