"""Gemms of parts of buffers, such as T.gemm(A_shared[:, 32:64], B_shared[stage, :, :], C_local)."""

from __future__ import annotations

from collections.abc import Mapping

from tilegen.diagnostics import ProgramError
from tilegen.ir.affine import divisor_of
from tilegen.ir.nodes import Gemm, Region


def is_part(region: Region) -> bool:
    """Whether a region is not the whole of its buffer."""
    return region.shape != region.buffer.extents or bool(region.dropped)


def shared_parts(gemm: Gemm) -> list[Region]:
    """The operands that are parts of shared tiles."""
    return [region for region in (gemm.a, gemm.b) if region.buffer.scope == "shared" and is_part(region)]


def starts_on(region: Region, axis: int, multiple: int, divisors: Mapping[str, int]) -> bool:
    """Whether the region starts at a multiple along an axis of its buffer, by known divisors of variables."""
    return divisor_of(region.offsets[axis], divisors) % multiple == 0


def refuse_columns(gemm: Gemm, multiple: int, divisors: Mapping[str, int]) -> None:
    """Raises ProgramError for a part of a shared tile that may begin at another column than a multiple."""
    for region in shared_parts(gemm):
        if not starts_on(region, -1, multiple, divisors):
            raise ProgramError(
                region.location,
                f"matrix instructions here read {multiple} columns at once, but this part of {region.buffer.name} may "
                "begin between two reads",
                remedy=f"begin it at a multiple of {multiple} columns",
            )


def refuse_parts(gemm: Gemm) -> None:
    """Raises ProgramError for parts that no instruction takes: of fragments, and matrices along other axes than a
    shared tile's last two."""
    for region in (gemm.a, gemm.b, gemm.c):
        buffer = region.buffer
        if not is_part(region):
            continue
        if buffer.scope != "shared":
            raise ProgramError(
                region.location,
                f"T.gemm takes whole fragments, but this is a part of {buffer.name}",
                remedy="give the part a fragment of its own",
            )
        if region.kept != (buffer.rank - 2, buffer.rank - 1):
            raise ProgramError(
                region.location,
                f"T.gemm takes matrices of a shared tile's last two axes, but this one of {buffer.name} has others",
                remedy=f"give {buffer.name} its axes in another order",
            )
