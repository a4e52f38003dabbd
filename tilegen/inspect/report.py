"""The report of a kernel: what was decided, why, and how long the target needs at least."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from tilegen.driver import Generated
from tilegen.inference.decisions import GemmDecision
from tilegen.inspect.work import Work, measure_work, open_extents
from tilegen.ir.nodes import Gemm
from tilegen.location import Location
from tilegen.schedule.plan import HandOver, Plan
from tilegen.target import Target, TargetError

_WIDTH = 14


def report(generated: Generated, extents: Mapping[str, int] | None = None) -> str:
    """Launch, buffers, instructions, pipeline, loops, notes, work and roofline as text.

    Args:
        generated: the kernel.
        extents: integers for extents that are open in it; without them work and roofline are left out.
    """
    model, target = generated.model, generated.target
    lines = [f"{model.name} for {target.name} ({target.device.product}), from {model.source}", ""]
    sections = (
        ("Launch", _launch(generated)),
        ("Arguments", _arguments(generated)),
        ("Buffers", _buffers(generated)),
        ("Instructions", _instructions(generated)),
        ("Pipeline", _pipeline(generated.plan, target)),
        ("Loops", _loops(generated)),
        ("Decisions", _decisions(generated)),
        ("Work", _work(generated, dict(extents or {}))),
    )
    for title, body in sections:
        for position, line in enumerate(body):
            lines.append(f"{title if position == 0 else '':<{_WIDTH}}{line}".rstrip())
        if body:
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _launch(generated: Generated) -> list[str]:
    launch, plan = generated.model.launch, generated.plan
    lines = [
        f"grid {launch.grid_text}",
        f"block {launch.block_text}",
    ]
    if launch.cluster != (1, 1, 1):
        lines.append("cluster " + " x ".join(str(extent) for extent in launch.cluster))
    resident = _counted(max(plan.blocks_per_multiprocessor, 1), "block")
    processor = "compute unit" if generated.target.language == "hip" else "multiprocessor"
    lines.append(
        f"{launch.shared_bytes:,} of {generated.target.limits.shared_bytes_per_block:,} bytes of shared memory, "
        f"{resident} a {processor} planned"
    )
    if launch.registers_text:
        lines.append(f"registers {launch.registers_text}")
    return lines


def _arguments(generated: Generated) -> list[str]:
    rows = [
        (
            tensor.name,
            tensor.role,
            tensor.dtype,
            f"[{', '.join(tensor.shape)}]",
            f"{tensor.alignment}-byte aligned",
        )
        for tensor in generated.manifest.tensors
    ]
    return _columns(rows) + [requirement.text for requirement in generated.manifest.requirements]


def _buffers(generated: Generated) -> list[str]:
    head = ("name", "scope", "shape", "layout", "bytes", "bank conflicts")
    rows = [
        (row.name, row.scope, row.shape, row.layout, row.bytes, row.conflicts)
        for row in generated.model.buffers
    ]
    known = {**generated.decisions.reasons, **_without_registers(generated.plan)}
    reasons = [f"{name}: {reason}" for name, reason in known.items()]
    reasons += [f"{row.name} {row.note}" for row in generated.model.buffers if row.note]
    return (_columns([head, *rows]) if rows else []) + reasons


def _without_registers(plan: Plan) -> dict[str, str]:
    """Why nothing is left of a fragment, by its name."""
    folded = {
        entry.reduction.source.buffer.name: f"no registers, {_place(entry.reduction.location)} computes each element"
        for entry in plan.folded
    }
    deferred = {
        entry.reduction.target.buffer.name: f"no registers, {_place(entry.update.location)} adds the lanes' own parts"
        for entry in plan.deferred
    }
    return {**folded, **deferred}


def _instructions(generated: Generated) -> list[str]:
    lines = []
    for gemm, decision in generated.decisions.gemms.items():
        lines.append(f"{_place(gemm.location)}  {decision.atom}, {_shape(gemm, decision)}")
        sources = (("A", decision.a_source, decision.a_major), ("B", decision.b_source, decision.b_major))
        lines.append(
            "  " + ", ".join(f"{name} from {source} ({major}-major)" for name, source, major in sources)
        )
        lines += ["  its operands are exchanged: A is the gemm's B"] if decision.exchanged else []
        lines += [f"  {decision.passed_over}"] if decision.passed_over else []
    return lines


def _shape(gemm: Gemm, decision: GemmDecision) -> str:
    units = {"wgmma": "warpgroups", "mma_sync": "warps", "mfma": "waves"}[decision.family]
    m, n, k = gemm.extents
    parts = f" for each of {decision.k_parts} parts of k" if decision.k_parts > 1 else ""
    return (
        f"{m} x {n} x {k} by {decision.warps[0]} x {decision.warps[1]} {units}{parts}, "
        f"{decision.repeats[0]} x {decision.repeats[1]} instructions each in {decision.steps} steps of k"
    )


def _pipeline(plan: Plan, target: Target) -> list[str]:
    waves = "wave" if target.language == "hip" else "warp"
    kinds = {
        "warp_specialised": f"one producer warpgroup loads, {_counted(plan.consumers, 'consumer warpgroup')} beside it",
        "multistage": "every thread loads ahead by cp.async, and computes",
        "register_prefetch": f"every {waves} loads ahead into registers, and computes from LDS",
        "simple": "nothing overlaps",
    }
    lines = [kinds[plan.kind], *(_hand_over(hand_over, plan) for hand_over in plan.hand_overs)]
    for multicast in plan.multicasts:
        lines.append(f"{multicast.buffer}: loaded once for the blocks of a cluster that share it")
    if plan.rasterisation is not None:
        lines.append(f"tiles are walked in panels of {plan.rasterisation.panel} {plan.rasterisation.order}s")
    if plan.registers is not None:
        own = plan.registers
        lines.append(
            f"registers: {own.entry} at entry, {own.producer} for producers, {own.consumer} for consumers"
        )
    return lines


def _hand_over(hand_over: HandOver, plan: Plan) -> str:
    names = ", ".join(hand_over.buffers)
    where = f"each turn of {_place(hand_over.loop.location)}" if hand_over.loop is not None else "once a tile"
    text = f"{names}: {_counted(hand_over.stages, 'stage')} of {hand_over.bytes:,} bytes, filled {where}"
    if plan.kind == "warp_specialised":
        text += f", barriers {hand_over.barrier('full')} and {hand_over.barrier('empty')}"
    return text


def _loops(generated: Generated) -> list[str]:
    rows = []
    for node, fragment in sorted(generated.decisions.loops.items(), key=lambda entry: entry[0].location.line):
        text = node.location.text or type(node).__name__
        rows.append((_place(node.location), text, str(fragment), f"{fragment.register_count} a thread"))
    return _columns(rows)


def _decisions(generated: Generated) -> list[str]:
    return list(dict.fromkeys((*generated.decisions.notes, *generated.plan.reasons, *generated.model.notes)))


def _work(generated: Generated, extents: dict[str, int]) -> list[str]:
    missing = open_extents(generated.program, extents)
    if missing:
        return [f"depends on {', '.join(missing)}, which are open (--dim fixes them)"]
    work = measure_work(generated.program, extents)
    lines = [
        f"{_scaled(amount, 'operation')}s of the matrix units, {name}" for name, amount in work.matrix.items()
    ]
    lines += [
        f"{_scaled(work.elements, 'operation')}s on elements",
        f"{_scaled(work.least_bytes, 'B')} at least: every tensor once; tiles move {_scaled(work.tile_bytes, 'B')}",
    ]
    return lines + _roofline(work, generated.target)


def _roofline(work: Work, target: Target) -> list[str]:
    """The least times on the target's typical device, and what bounds the kernel."""
    device = target.device
    times = {"memory": work.least_bytes / device.dram_bytes_per_second}
    for name, amount in work.matrix.items():
        with contextlib.suppress(TargetError):
            times[f"{name} matrix units"] = amount / device.matrix_flops_per_second(name)
    with contextlib.suppress(TargetError):
        times["float32 units"] = work.elements / device.vector_flops_per_second("float32")
    bound = max(times, key=lambda name: times[name])
    parts = ", ".join(f"{name} {1e3 * seconds:.4g} ms" for name, seconds in times.items())
    return [
        f"roofline on {device.product}: {parts}",
        f"at least {1e3 * times[bound]:.4g} ms, bound by {bound}",
    ]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _scaled(amount: float, unit: str) -> str:
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if amount >= factor:
            return (
                f"{amount / factor:.4g} {prefix}{unit}"
                if unit == "B"
                else f"{amount / factor:.4g} {prefix} {unit}"
            )
    return f"{amount:.4g} {unit}"


def _place(location: Location) -> str:
    return f"{location.file.rpartition('/')[2]}:{location.line}"


def _columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows with aligned columns, two spaces apart."""
    table = [tuple(str(cell) for cell in row) for row in rows]
    if not table:
        return []
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
