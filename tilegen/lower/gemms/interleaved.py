"""A gemm on warpgroup instructions beside the work that makes its register operand, a slice of k at a time.

Registers that an instruction reads may be written when its group is over (PTX ISA, "wgmma.mma_async"): each slice is a
group, and as many groups stay under way as there are other slices.
"""

from __future__ import annotations

from tilegen.inference.loops import as_loop
from tilegen.lower.elements.loop import lower_loop
from tilegen.lower.gemms.wgmma import GemmParts, gemm_parts
from tilegen.lower.statements import quoted
from tilegen.lower.vocabulary.context import Context
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal
from tilegen.model.statements import Blank, CStmt, Declare, Expression, ForC
from tilegen.schedule.interleave import Interleaving


def lower_interleaved(context: Context, interleaving: Interleaving, accumulate: CExpr) -> list[CStmt]:
    """The code of producers and gemm; behind it one group a slice is under way."""
    gemm = interleaving.gemm
    decision = context.decisions.gemms[gemm]
    for name in ("warpgroup_arrive", "warpgroup_commit", "warpgroup_wait"):
        context.primitive(name)
    context.pipeline_notes.append(
        f"consumers: {gemm.a.buffer.name} in {interleaving.slices} slices along k, each a group of wgmma: one is "
        "computed while the others are multiplied"
    )
    each = decision.steps // interleaving.slices
    variable = "kk" if each == 1 else context.name("slice")
    work: list[CStmt] = []
    for producer in interleaving.producers:
        loop = as_loop(producer)
        assert loop is not None
        work += [
            *context.comment(quoted(producer)),
            *lower_loop(context, loop, interleaving.partition, variable),
        ]
    comments = context.comment(gemm.location)
    parts = gemm_parts(context, gemm, accumulate)
    multiply, slices = parts.multiply, parts.steps
    if each > 1:
        multiply, slices = (_steps_of_slice(context, parts, variable, each),), c.div(parts.steps, each)
        context.taken.pop(variable)
    # ptxas keeps groups under way across the loop's end only where the wait follows the commit.
    free = Expression(
        c.call("warpgroup_wait", template=(c.sub(slices, 1),)),
        comment="what read the next slice's registers is over",
    )
    body = (
        *work,
        Blank(),
        Expression(c.call("warpgroup_arrive")),
        *multiply,
        Expression(c.call("warpgroup_commit")),
        free,
    )
    head = "" if each > 1 else parts.note
    return [
        *comments,
        *parts.descriptors,
        ForC(variable, Literal(0), slices, body, unroll=True, comment=head),
    ]


def _steps_of_slice(context: Context, parts: GemmParts, variable: str, each: int) -> CStmt:
    """The `each` steps along k of one slice."""
    step = context.name("step")
    context.taken.pop(step)
    kk = Declare("int", "kk", c.add(c.mul(each, variable), step), const=True)
    return ForC(step, Literal(0), Literal(each), (kk, *parts.multiply), unroll=True, comment=parts.note)
