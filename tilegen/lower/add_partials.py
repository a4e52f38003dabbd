"""Sums of a gemm whose k is shared: each thread leaves its part in shared memory; after a barrier every thread adds up
those of its own elements, in the order of k, so that all get the same bits."""

from __future__ import annotations

from tilegen.inference.decisions import GemmDecision
from tilegen.ir.nodes import AddPartials, Stmt
from tilegen.lower.addresses import as_vector
from tilegen.lower.context import Context
from tilegen.lower.dtypes import type_name
from tilegen.lower.fragments import register_names
from tilegen.lower.own_k import own_part
from tilegen.lower.words import settled
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import AssignC, CStmt, Declare, ForC, Scope


def lower_add_partials(context: Context, statement: Stmt) -> list[CStmt]:
    """The code of the addition."""
    assert isinstance(statement, AddPartials)
    buffer = statement.target.buffer
    decision = next(
        d for gemm, d in context.decisions.gemms.items() if gemm.c.buffer == buffer and d.k_parts > 1
    )
    note = _note(context, statement, decision)
    context.pipeline_notes += [] if note in context.pipeline_notes else [note]
    vectors = _Vectors(context, statement)
    own = own_part(context, decision, _threads_of_warp(context, decision))
    leave = vectors.move(vectors.place(own), vectors.element(Literal(0)))
    start = vectors.move(vectors.element(Literal(0)), vectors.place(Literal(0)))
    meeting = context.synchronise(settled([statement.partials.name]))
    return [*vectors.each((leave,)), meeting, *vectors.each((start, *_other_parts(vectors)))]


def _other_parts(vectors: _Vectors) -> list[CStmt]:
    """The parts behind the first one are added to it."""
    context, plan = vectors.context, vectors.context.plan
    parts, width = vectors.partials.extents[0], vectors.width
    part: CExpr = Name("part") if parts > 2 else Literal(1)
    add = AssignC(vectors.element(Name("v")), c.index("partial", "v"), "+=")
    body: list[CStmt] = [
        Declare(
            type_name(vectors.buffer.dtype, context.target.language),
            "partial",
            dimensions=(Literal(width),),
            alignment=width * vectors.buffer.dtype.bytes,
        ),
        vectors.move(c.index("partial", 0), vectors.place(part)),
        ForC("v", Literal(0), Literal(width), (add,), unroll=True),
    ]
    if parts == 2:
        return body
    by_consumers = plan.kind == "warp_specialised" and parts == plan.consumers
    count = Name("kConsumers") if by_consumers else Literal(parts)
    return [ForC("part", Literal(1), count, tuple(body), unroll=True)]


class _Vectors:
    """The accumulators of a thread, a vector at a time."""

    def __init__(self, context: Context, statement: AddPartials) -> None:
        self.context = context
        self.buffer = statement.target.buffer
        self.partials = statement.partials
        self.width = width = self.partials.extents[-1]
        context.align(self.buffer.name, width * self.buffer.dtype.bytes)
        shape = context.decisions.fragment(self.buffer).register_shape
        steps = (*(1 for _ in shape[:-1]), width)
        self.loops = list(zip(register_names(len(shape)), shape, steps, strict=True))
        self.indices: list[CExpr] = [
            Name(name) if extent > step else Literal(0) for name, extent, step in self.loops
        ]

    def move(self, target: CExpr, source: CExpr) -> CStmt:
        """A whole vector, from one first element on to another."""
        dtype, language = self.buffer.dtype, self.context.target.language
        value = as_vector(source, dtype, self.width, language, const=True)
        return AssignC(as_vector(target, dtype, self.width, language), value)

    def element(self, position: CExpr) -> CExpr:
        """An accumulator of the vector."""
        *outer, last = self.indices
        return c.index(self.buffer.name, *outer, c.add(last, position))

    def place(self, part: CExpr) -> CExpr:
        """Where the vector of the thread that has a part lies in shared memory."""
        vector: CExpr = Literal(0)
        for index, (_, extent, step) in zip(self.indices, self.loops, strict=True):
            vector = c.add(c.mul(extent // step, vector), c.div(index, step))
        base = c.member("shared", self.partials.name)
        return c.index(base, part, vector, self._thread(), 0)

    def _thread(self) -> CExpr:
        """The number of a thread among those that have the same part."""
        threads, count = self.context.threads, self.partials.extents[2]
        known = next((level for level in threads.extras if level.count == count and level.unit == 1), None)
        if known is not None:
            return threads.name(known.name)
        return threads.digit(1, count)

    def each(self, body: tuple[CStmt, ...]) -> list[CStmt]:
        """The statements for each vector."""
        for name, extent, step in reversed(self.loops):
            if extent > step:
                by = Literal(step) if step > 1 else None
                body = (ForC(name, Literal(0), Literal(extent), body, by, unroll=True),)
        if any(isinstance(one, Declare) for one in body):
            return [Scope(body)]
        return list(body)


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
