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
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import AssignC, CStmt, Declare, ForC, Scope


def lower_add_partials(context: Context, statement: Stmt) -> list[CStmt]:
    """The code of the addition."""
    assert isinstance(statement, AddPartials)
    buffer, partials = statement.target.buffer, statement.partials
    decision = next(
        d for gemm, d in context.decisions.gemms.items() if gemm.c.buffer == buffer and d.k_parts > 1
    )
    context.pipeline_notes.append(_note(context, statement, decision))
    parts, _, _, width = partials.extents
    language = context.target.language
    context.align(buffer.name, width * buffer.dtype.bytes)
    registers = _Registers(context, statement, width)
    own = as_vector(registers.first, buffer.dtype, width, language, const=True)
    mine = registers.place(own_part(context, decision, _threads_of_warp(context, decision)))
    leave = registers.each((AssignC(as_vector(mine, buffer.dtype, width, language), own),))
    part: CExpr = Name("part") if parts > 2 else Literal(1)
    more: list[CStmt] = [
        Declare(
            type_name(buffer.dtype, language),
            "partial",
            dimensions=(Literal(width),),
            alignment=width * buffer.dtype.bytes,
        ),
        AssignC(
            as_vector(c.index("partial", 0), buffer.dtype, width, language),
            as_vector(registers.place(part), buffer.dtype, width, language, const=True),
        ),
        ForC(
            "v",
            Literal(0),
            Literal(width),
            (AssignC(registers.element(Name("v")), c.index("partial", "v"), "+="),),
            unroll=True,
        ),
    ]
    if parts > 2:
        more = [ForC("part", Literal(1), Literal(parts), tuple(more), unroll=True)]
    start = AssignC(
        as_vector(registers.first, buffer.dtype, width, language),
        as_vector(registers.place(Literal(0)), buffer.dtype, width, language, const=True),
    )
    return [*leave, context.synchronise(), *registers.each((start, *more))]


class _Registers:
    """The accumulators of a thread, a vector at a time."""

    def __init__(self, context: Context, statement: AddPartials, width: int) -> None:
        self.context = context
        self.statement = statement
        self.width = width
        self.shape = context.decisions.fragment(statement.target.buffer).register_shape
        names = register_names(len(self.shape))
        steps = (*(1 for _ in self.shape[:-1]), width)
        self.loops = [
            (name, extent, step) for name, extent, step in zip(names, self.shape, steps, strict=True)
        ]
        self.indices: list[CExpr] = [
            Name(name) if extent > step else Literal(0) for name, extent, step in self.loops
        ]

    @property
    def first(self) -> CExpr:
        return self.element(Literal(0))

    def element(self, position: CExpr) -> CExpr:
        """An accumulator of the vector."""
        *outer, last = self.indices
        return c.index(self.statement.target.buffer.name, *outer, c.add(last, position))

    def place(self, part: CExpr) -> CExpr:
        """Where the vector of the thread that has a part lies in shared memory."""
        vector: CExpr = Literal(0)
        for index, (_, extent, step) in zip(self.indices, self.loops, strict=True):
            vector = c.add(c.mul(extent // step, vector), c.div(index, step))
        base = c.member("shared", self.statement.partials.name)
        return c.index(base, part, vector, self._thread(), 0)

    def _thread(self) -> CExpr:
        """The number of a thread among those that have the same part."""
        threads, count = self.context.threads, self.statement.partials.extents[2]
        known = next((level for level in threads.extras if level.count == count and level.unit == 1), None)
        if known is not None:
            return threads.name(known.name)
        return c.mod(threads.name(threads.whole.name), count)

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
