"""Gemms whose operands change places, C^T = B^T A^T: an instruction whose rows are 64 and whose columns any multiple of
8 then computes tiles whose columns are the former and whose rows the latter."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.nodes import Gemm, GemmPolicy

_MIRRORED: dict[GemmPolicy, GemmPolicy] = {"full_row": "full_col", "full_col": "full_row"}


def exchanged(gemm: Gemm) -> Gemm:
    """The gemm of the exchanged operands. Its `c` tells the extents of the transposed tile, of the same buffer."""
    return replace(
        gemm,
        a=gemm.b,
        b=gemm.a,
        c=replace(gemm.c, shape=gemm.c.tile[::-1], dropped=()),
        transpose_a=not gemm.transpose_b,
        transpose_b=not gemm.transpose_a,
        policy=_MIRRORED.get(gemm.policy, gemm.policy),
    )
