"""Sums of a gemm whose k is shared: each thread leaves its part in shared memory; after a barrier every thread adds up
those of its own elements, in the order of k (of two, either order gives the same sum), so that all get the same bits.
"""

from __future__ import annotations

from tilegen.inference.decisions import GemmDecision
from tilegen.ir.nodes import AddPartials, Stmt
from tilegen.lower.gemms.own_k import own_part
from tilegen.lower.reductions.accumulator_vectors import AccumulatorVectors, Place
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.words import settled
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import CStmt, ForC
from tilegen.schedule.registers import registers_of_thread


def lower_add_partials(context: Context, statement: Stmt) -> list[CStmt]:
    """The code of the addition."""
    assert isinstance(statement, AddPartials)
    buffer = statement.target.buffer
    decision = next(
        d for gemm, d in context.decisions.gemms.items() if gemm.c.buffer == buffer and d.k_parts > 1
    )
    note = _note(context, statement, decision)
    context.pipeline_notes += [] if note in context.pipeline_notes else [note]
    vectors = AccumulatorVectors(context, buffer, statement.partials.extents[-1])
    own = own_part(context, decision, _threads_of_warp(context, decision))
    leave = vectors.leave(_place(context, statement, own))
    take = vectors.take(_place(context, statement, Literal(0)))
    parts = statement.partials.extents[0]
    meeting = context.synchronise(settled([statement.partials.name]))
    start = [*vectors.each((leave,)), meeting]
    if parts == 2:  # each keeps its own: half the loads, which compilers would start beside all sums
        return [*start, *vectors.each(tuple(vectors.add(_place(context, statement, c.sub(1, own)))))]
    other = vectors.add(_place(context, statement, Name("part")))
    if parts * vectors.registers <= registers_of_thread(context.plan, context.target):
        return [*start, *vectors.each((take, _each_other(context, parts, other, unroll=True)))]
    # Compilers would load all parts before they add: one at a time.
    others = _each_other(context, parts, vectors.each(tuple(other)), unroll=1)
    return [*start, *vectors.each((take,)), others]


def _each_other(context: Context, parts: int, body: list[CStmt], unroll: bool | int) -> CStmt:
    """The parts behind the first one are added to it."""
    plan = context.plan
    by_consumers = plan.kind == "warp_specialised" and parts == plan.consumers
    count = Name("kConsumers") if by_consumers else Literal(parts)
    return ForC("part", Literal(1), count, tuple(body), unroll=unroll)


def _place(context: Context, statement: AddPartials, part: CExpr) -> Place:
    """Where the vectors of the thread that has a part lie in shared memory."""
    base = c.member("shared", statement.partials.name)
    thread = _thread(context, statement.partials.extents[2])
    return lambda vector: c.index(base, part, vector, thread, 0)


def _thread(context: Context, count: int) -> CExpr:
    """The number of a thread among those that have the same part."""
    threads = context.threads
    known = next((level for level in threads.extras if level.count == count and level.unit == 1), None)
    if known is not None:
        return threads.name(known.name)
    return threads.digit(1, count)


def _threads_of_warp(context: Context, decision: GemmDecision) -> int:
    limits = context.target.limits
    return limits.warpgroup_size if decision.family == "wgmma" else limits.warp_size


def _note(context: Context, statement: AddPartials, decision: GemmDecision) -> str:
    """The line of the header's Pipeline section."""
    size = _threads_of_warp(context, decision)
    count = context.plan.computing // size
    if context.plan.kind == "warp_specialised" and decision.family == "wgmma":
        units = "consumer warpgroups"
    else:
        units = {"wgmma": "warpgroups", "mma_sync": "warps", "mfma": "waves"}[decision.family]
    share = {2: "half", 4: "a quarter"}.get(count, f"1/{count}")
    who = f"the {count} {units} each take {share} of every tile's k"
    if count != decision.k_parts:
        who = f"the {count} {units} share every tile's k in {decision.k_parts} parts"
    where = "at once" if statement.loop is None else f"behind loop {statement.loop.name}"
    return f"{who}; their sums {statement.target.buffer.name} are added up {where}"
