"""Which tiles of accumulators leave through the TMA unit: stores, and additions where the unit adds."""

from __future__ import annotations

from tilegen.inference.decisions import Decisions
from tilegen.inference.matrices import matrices
from tilegen.inference.shared import SharedLayout, swizzled
from tilegen.inference.warpgroup_part import warpgroup_part
from tilegen.ir.nodes import AtomicTile, Copy, For, If, Kernel, Persistent, Program, Stmt
from tilegen.schedule.analysis import each_statement, reads, writes
from tilegen.schedule.plan import Plan, Staging
from tilegen.schedule.ranges import integer_ranges
from tilegen.schedule.residency import SHARED_ALIGNMENT
from tilegen.schedule.tma import pitch_problem, place_problem, store_place_problem
from tilegen.target import Target


def stage_by_tma(program: Program, plan: Plan, decisions: Decisions, target: Target, used: int) -> int:
    """Gives each store of a fragment a shared tile to leave through by TMA, where it fits; returns the bytes."""
    kernel, ranges = program.kernel, integer_ranges(program)
    limit = target.limits.shared_bytes_per_block
    extra = 0
    for statement in each_statement(kernel.body):
        if not _is_eligible(statement, target):
            continue
        assert isinstance(statement, Copy | AtomicTile)
        source, sink = statement.source, statement.target
        wanted = "TMA store" if isinstance(statement, Copy) else "TMA addition"
        if _touched_elsewhere(kernel, statement):
            plan.reasons.append(
                f"{statement.location.place}: no {wanted}, another statement reads or writes {sink.buffer.name}"
            )
            continue
        if source.buffer.scope != "fragment" or len(source.tile) != 2:  # threads store it
            continue
        layout = swizzled(source.tile, sink.buffer.dtype)
        problem = (
            pitch_problem(sink.buffer, decisions, target)
            or place_problem(sink, decisions, target)
            or store_place_problem(sink, ranges, target)
            or _problem(statement, layout, decisions, target)
        )
        if problem:
            plan.reasons.append(f"{statement.location.place}: no {wanted}, {problem}")
            continue
        if used + extra + layout.bytes > limit - SHARED_ALIGNMENT:
            plan.reasons.append(
                f"{statement.location.place}: no {wanted}, {layout.bytes:,} bytes of shared memory are not left"
            )
            continue
        name = sink.buffer.name + "_shared"
        taken = {buffer.name for buffer in kernel.allocations} | {s.name for _, s in plan.staging.items()}
        while name in taken:
            name += "_out"
        plan.staging[statement] = Staging(name, layout)
        extra += layout.bytes
    return extra


def _is_eligible(statement: Stmt, target: Target) -> bool:
    """Whether a statement writes a tile that the TMA unit could store, or add."""
    match statement:
        case Copy(_, sink):
            return sink.buffer.scope == "global"
        case AtomicTile(op, _, sink):
            return op == "add" and target.has("tma_reduce") and sink.buffer.dtype.is_float
        case _:
            return False


def _touched_elsewhere(kernel: Kernel, copy: Copy | AtomicTile) -> bool:
    """Whether another statement reads or writes the tensor that a copy writes: TMA stores land later than it."""
    buffer = copy.target.buffer
    return any(
        buffer in (*reads(s), *writes(s))
        for s in each_statement(kernel.body)
        if s is not copy and not isinstance(s, For | If | Persistent)
    )


def _problem(
    copy: Copy | AtomicTile, layout: SharedLayout, decisions: Decisions, target: Target
) -> str | None:
    fragment = decisions.fragment(copy.source.buffer)
    if not fragment.exact or copy.source.shape != copy.source.buffer.extents:
        return "the fragment does not cover the tile evenly"
    part = warpgroup_part(fragment, target.limits.warpgroup_size)
    if part is None:
        return "what a warpgroup holds is no rectangle of the tile"
    if part[1] != layout.columns and part[1] % layout.group:
        return f"the {part[1]} columns of a warpgroup are no whole groups of the swizzle"
    if copy.target.kept[-1] != copy.target.buffer.rank - 1:
        return "the tile's rows do not run along the tensor's last axis"
    if not layout.xors:
        return f"rows of {layout.columns} elements have no swizzle"
    if copy.target.buffer.dtype.bits != 16:
        return (
            f"elements of {copy.target.buffer.dtype.bits} bits leave the registers in whole sectors already"
        )
    if fragment.contiguous_registers(1) >= 2 or (target.has("stmatrix") and matrices(fragment) == "columns"):
        return None
    if fragment.contiguous_registers(0) >= 2 and fragment.tile[0] % 16:
        return f"stmatrix turns 16 rows at once, the tile has {fragment.tile[0]}"
    return "no thread holds neighbouring elements of a row"
