"""What part of a gemm's k a warp (a warpgroup for wgmma) multiplies, where they share it."""

from __future__ import annotations

from tilegen.inference.decisions import GemmDecision
from tilegen.ir.nodes import Gemm
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.context import Context
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name

CONSTANT = "kConsumerK"  # its extent in the text, where each consumer warpgroup has a part of its own


def own_extent(context: Context, gemm: Gemm, decision: GemmDecision) -> CExpr:
    """How much of a tile's k is multiplied by one warp."""
    if decision.k_parts > 1 and CONSTANT in context.constants:
        return Name(CONSTANT)
    axis = gemm.a.kept[0 if gemm.transpose_a else 1]
    whole = gemm.a.shape[axis] == gemm.a.buffer.extents[axis]
    extent = (
        shared_tiles.extent_constants(context, gemm.a.buffer)[axis] if whole else Literal(gemm.extents[2])
    )
    return c.div(extent, decision.k_parts)


def own_part(context: Context, decision: GemmDecision, threads: int) -> CExpr:
    """Which part is multiplied by a warp of so many `threads`: its number's slowest digit."""
    along_m, along_n = decision.warps
    if decision.k_parts == 1:
        return Literal(0)
    return context.threads.digit(threads * along_m * along_n, decision.k_parts)
