"""What the header tells of a kernel: its buffers with their layouts, its pipeline, what it computes."""

from __future__ import annotations

from tilegen.ir.nodes import Buffer, Program
from tilegen.lower.context import Context
from tilegen.model.kernel import BufferRow, SharedMember

SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}


def summary(program: Program) -> str:
    """What the kernel computes, in a line; the outputs' names for want of better."""
    outputs = ", ".join(program.outputs) or ", ".join(t.name for t in program.tensors if t.role != "input")
    inputs = ", ".join(t.name for t in program.tensors if t.role == "input")
    return f"{outputs} from {inputs}" if outputs and inputs else ""


def buffer_rows(context: Context, members: list[SharedMember]) -> tuple[BufferRow, ...]:
    """Shared tiles, then fragments, in the order of the program; staging tiles after the program's own."""
    rows = []
    for buffer in context.program.kernel.allocations:
        if buffer.scope == "shared" and buffer.name in context.decisions.shared:
            rows.append(_shared_row(context, buffer))
    for _, staging in context.plan.staging.items():
        layout = staging.layout
        shape = f"{_short(layout.dtype.name)} [{', '.join(map(str, layout.shape))}]"
        rows.append(BufferRow(staging.name, "shared", shape, str(layout), f"{layout.bytes:,}", "0"))
    for buffer in context.program.kernel.allocations:
        if buffer.scope == "fragment" and buffer.name in context.decisions.fragments:
            fragment = context.decisions.fragment(buffer)
            shape = f"{_short(buffer.dtype.name)} [{', '.join(map(str, fragment.tile))}]"
            layout_text = f"{fragment} -> {fragment.register_count} a thread"
            rows.append(BufferRow(buffer.name, "registers", shape, layout_text, "-", "-"))
    return tuple(rows)


def _shared_row(context: Context, buffer: Buffer) -> BufferRow:
    layout = context.decisions.layout(buffer)
    hand_over = context.plan.hand_over_reading(buffer.name)
    stages = hand_over.stages if hand_over is not None else context.ring_depths.get(buffer.name, 1)
    ring = f"[{stages}]" if stages > 1 else ""
    shape = f"{_short(buffer.dtype.name)} {ring}[{', '.join(map(str, buffer.extents))}]"
    conflicts = context.decisions.conflicts.get(buffer.name, 0)
    scope = "LDS" if context.target.language == "hip" else "shared"
    return BufferRow(buffer.name, scope, shape, str(layout), f"{layout.bytes * stages:,}", str(conflicts))


def _short(name: str) -> str:
    return SHORT.get(name, name)


def pipeline_lines(context: Context) -> tuple[str, ...]:
    """One line for each pipelined loop, then why nothing better was possible."""
    lines = list(context.pipeline_notes)
    for hand_over in context.plan.hand_overs:
        buffers = ", ".join(hand_over.buffers)
        where = hand_over.loop.var.name if hand_over.loop is not None else "tile"
        stages = f"{hand_over.stages} stage{'s' if hand_over.stages > 1 else ''}"
        lines.append(f"{where}: {stages}, full/empty barriers over {{{buffers}}}; loads by TMA")
    atoms = dict.fromkeys(decision.atom for _, decision in context.decisions.gemms.items())
    if atoms:
        lines.append(f"math by {', '.join(atoms)}")
    return (*lines, *context.plan.reasons)
