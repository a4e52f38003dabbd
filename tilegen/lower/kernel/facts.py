"""What the header tells of a kernel: its buffers with their layouts, and its pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tilegen.ir.nodes import Buffer, For
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.fragments import fragments_in_use
from tilegen.lower.vocabulary.words import listed
from tilegen.model.dialect import SHORT_NAMES
from tilegen.model.kernel import BufferRow
from tilegen.schedule.analysis import each_statement
from tilegen.schedule.plan import Plan
from tilegen.schedule.skew import find_skew
from tilegen.schedule.tma import bytes_of_stage


def buffer_rows(context: Context) -> tuple[BufferRow, ...]:
    """Shared tiles, then fragments, in the order of the program; scratch and staging tiles after the program's own.
    Fragments that are alike share a row."""
    scope = "LDS" if context.target.language == "hip" else "shared"
    members = {member.name: None for member in context.members}
    scratch = (buffer for buffer in context.decisions.scratch if buffer.name in members)
    rows = []
    for buffer in (*context.program.kernel.allocations, *scratch):
        if buffer.scope == "shared" and buffer.name in context.decisions.shared:
            rows.append(_shared_row(context, buffer, scope))
    for _, staging in context.plan.staging.items():
        layout = staging.layout
        shape = _shape(layout.dtype.name, layout.shape)
        row = BufferRow(staging.name, scope, shape, str(layout), f"{layout.bytes:,}", "0")
        rows.append(replace(row, note=f"lies over {listed(staging.over)}") if staging.over else row)
    return (*rows, *_fragment_rows(context))


def _shared_row(context: Context, buffer: Buffer, scope: str) -> BufferRow:
    layout = context.decisions.layout(buffer)
    hand_over = context.plan.hand_over_reading(buffer.name)
    stages = hand_over.stages if hand_over is not None else context.ring_depths.get(buffer.name, 1)
    shape = _shape(buffer.dtype.name, buffer.extents, f"[{stages}]" if stages > 1 else "")
    conflicts = context.decisions.conflicts.get(buffer.name, 0)
    overlay = context.plan.overlay_of(buffer.name)
    note = f"lies over {overlay.over}" if overlay is not None else ""
    in_tma_ring = hand_over is not None and stages > 1
    size = bytes_of_stage(layout, context.target) if in_tma_ring else layout.bytes
    return BufferRow(buffer.name, scope, shape, str(layout), f"{size * stages:,}", str(conflicts), note)


def _fragment_rows(context: Context) -> list[BufferRow]:
    alike: dict[tuple[str, str], list[str]] = {}
    for buffer in fragments_in_use(context):
        fragment = context.decisions.fragment(buffer)
        shape = _shape(buffer.dtype.name, fragment.tile)
        layout = f"{fragment}, {fragment.register_count} a thread"
        alike.setdefault((shape, layout), []).append(buffer.name)
    return [BufferRow(", ".join(names), "registers", *row, "", "") for row, names in alike.items()]


def _shape(dtype: str, extents: Iterable[int], ring: str = "") -> str:
    """`fp16 [3][128, 64]`."""
    return f"{SHORT_NAMES.get(dtype, dtype)} {ring}[{', '.join(map(str, extents))}]"


def pipeline_lines(context: Context) -> tuple[str, ...]:
    """Who loads and who computes, what overlaps and what was saved, or why nothing better was possible."""
    plan = context.plan
    lines = [*_producer_lines(plan), *context.pipeline_notes, *plan.reasons]
    atoms = dict.fromkeys(decision.atom for _, decision in context.decisions.gemms.items())
    if atoms:
        who = "consumers: " if plan.hand_overs else ""
        turned = any(decision.exchanged for _, decision in context.decisions.gemms.items())
        how = ", of exchanged operands: C^T = B^T A^T" if turned else ""
        lines.append(f"{who}math by {listed(list(atoms))}{how}")
        lines += dict.fromkeys(d.passed_over for _, d in context.decisions.gemms.items() if d.passed_over)
    return (*lines, *_skew_lines(context))


def _producer_lines(plan: Plan) -> list[str]:
    """What is loaded once a tile, and what each loop's rings hold."""
    once = [
        f"{hand_over.stages} stages of {name}" if hand_over.stages > 1 else name
        for hand_over in plan.hand_overs
        if hand_over.loop is None
        for name in hand_over.buffers
    ]
    parts = [f"{listed(once)} once a tile"] if once else []
    rings: dict[str, dict[int, list[str]]] = {}
    for hand_over in plan.hand_overs:
        if hand_over.loop is not None:
            depths = rings.setdefault(hand_over.loop.var.name, {})
            depths.setdefault(hand_over.stages, []).extend(hand_over.buffers)
    for loop, depths in rings.items():
        stages = [
            f"{count} stage{'s' if count > 1 else ''}{' each' if len(names) > 1 else ''} of {listed(names)}"
            for count, names in depths.items()
        ]
        parts.append(f"{listed(stages)} ahead of loop {loop}")
    lines = [f"producer: TMA to {', '.join(parts)}"] if parts else []
    if plan.multicasts:
        shared = listed([multicast.buffer for multicast in plan.multicasts])
        lines.append(
            f"producer: a block loads 1/{plan.cluster_size} of {shared}, for all blocks of its cluster"
        )
    if plan.draws_tiles:
        lines.append(
            "producer: draws the block's next tile from tile_counter, ahead of its loads for this one"
        )
    return lines


def _skew_lines(context: Context) -> list[str]:
    plan, lines = context.plan, []
    loops = [s for s in each_statement(context.program.kernel.body) if isinstance(s, For)]
    for loop in loops:
        skew = find_skew(loop, context.decisions, plan)
        if skew is None:
            continue
        var = loop.var.name
        first, second = skew.first.c.buffer.name, skew.second.c.buffer.name
        lines.append(
            f"loop {var} is skewed: {second} of iteration {var} - 1 runs under the element-wise work on {first} of "
            f"iteration {var}"
        )
        if plan.next_tile is not None:
            lines.append(
                f"the first {first} of a tile is issued behind the last {second} of the tile before it"
            )
        if plan.turns:
            lines.append(
                f"the {plan.consumers} consumer warpgroups take turns to issue gemms: one multiplies while "
                f"{'the other works' if plan.consumers == 2 else 'the others work'}"
            )
    return lines
