"""Gemms outside a schedule that tracks them: issued, and waited for at once where they run asynchronously."""

from __future__ import annotations

from typing import assert_never

from tilegen.ir.build import const
from tilegen.ir.nodes import Fill, Gemm
from tilegen.lower.elements.fill import lower_fill
from tilegen.lower.gemms import mma_sync, wgmma
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.scalar import scalar
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import CStmt, Expression, Scope


def lower_gemm(context: Context, gemm: Gemm) -> list[CStmt]:
    """The gemm, complete when the next statement runs."""
    family = context.decisions.gemms[gemm].family
    match family:
        case "wgmma":
            context.primitive("warpgroup_wait")
            wait = Expression(c.call("warpgroup_wait", template=(0,)))
            return [*wgmma.lower_gemm(context, gemm, accumulates(context, gemm)), wait]
        case "mma_sync":
            code = mma_sync.lower_gemm(context, gemm)
            # Its operand registers are named alike in every gemm.
            code = [Scope(tuple(code))] if len(context.decisions.gemms) > 1 else code
            return [*_cleared(context, gemm), *code]
        case "mfma":
            from tilegen.lower.gemms import mfma

            return [*_cleared(context, gemm), *mfma.lower_gemm(context, gemm)]
        case _:
            assert_never(family)


def accumulates(context: Context, gemm: Gemm) -> CExpr:
    """Whether the gemm's first step adds to the accumulators: never after `clear`, and where a clear was folded into
    it not in the first iteration of its loop."""
    if gemm.clear:
        return Literal(False, "bool")
    if gemm not in context.folded.gemms:
        return Literal(True, "bool")
    loop = context.folded.gemms[gemm]
    if loop is None:
        return Literal(False, "bool")
    variable = context.environment.get(loop.var.name, Name(loop.var.name))
    return c.operation(">", variable, scalar(context, loop.start))


def _cleared(context: Context, gemm: Gemm) -> list[CStmt]:
    """Zeros in the accumulators of a gemm that assigns instead of adding."""
    if not gemm.clear:
        return []
    return lower_fill(context, Fill(gemm.c, const(0, gemm.c.buffer.dtype), gemm.location))
