"""Gemms outside a schedule that tracks them: issued, and waited for at once where they run asynchronously."""

from __future__ import annotations

from typing import assert_never

from tilegen.ir.nodes import Fill, Gemm
from tilegen.lower import gemm_mma_sync, gemm_wgmma
from tilegen.lower.context import Context
from tilegen.lower.fill import lower_fill
from tilegen.model import build as c
from tilegen.model.expressions import Literal
from tilegen.model.statements import CStmt, Expression, Scope


def lower_gemm(context: Context, gemm: Gemm) -> list[CStmt]:
    """The gemm, complete when the next statement runs."""
    family = context.decisions.gemms[gemm].family
    match family:
        case "wgmma":
            context.primitive("warpgroup_wait")
            wait = Expression(c.call("warpgroup_wait", template=(0,)))
            return [*gemm_wgmma.lower_gemm(context, gemm, Literal(not gemm.clear, "bool")), wait]
        case "mma_sync":
            code = gemm_mma_sync.lower_gemm(context, gemm)
            # Its operand registers are named alike in every gemm.
            code = [Scope(tuple(code))] if len(context.decisions.gemms) > 1 else code
            return [*_cleared(context, gemm), *code]
        case "mfma":
            from tilegen.lower import gemm_mfma

            return [*_cleared(context, gemm), *gemm_mfma.lower_gemm(context, gemm)]
        case _:
            assert_never(family)


def _cleared(context: Context, gemm: Gemm) -> list[CStmt]:
    """Zeros in the accumulators of a gemm that assigns instead of adding."""
    if not gemm.clear:
        return []
    from tilegen.ir.build import const

    return lower_fill(context, Fill(gemm.c, const(0, gemm.c.buffer.dtype), gemm.location))
