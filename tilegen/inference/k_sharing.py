"""Into how many parts the warps of a block cut a gemm's k, where they share it.

Each warp (warpgroup for wgmma) multiplies its own part of every tile's k, for all rows and columns that it has; the
sums of the parts are added up once, behind the loop (see tilegen.schedule.add_partials).
"""

from __future__ import annotations

from tilegen.ir.nodes import Gemm
from tilegen.target import Target

SHARE = 4  # partial sums beyond a quarter of a block's shared memory are in the way of stages


def part_counts(gemm: Gemm, warps: int, depth: int, target: Target) -> tuple[int, ...]:
    """The numbers of parts that are possible, best first: one unless the policy says otherwise or there is one warp.

    Parts are whole instructions, `depth` of k deep. As many as there are warps is best (nobody reads what others read),
    while their sums take no more than a quarter of the block's shared memory.
    """
    m, n, k = gemm.extents
    if gemm.policy != "sliced_k" or warps == 1:
        return (1,)
    possible = [parts for parts in range(2, warps + 1) if warps % parts == 0 and k % (depth * parts) == 0]
    room = target.limits.shared_bytes_per_block // SHARE
    fitting = [parts for parts in possible if parts * m * n * gemm.c.buffer.dtype.bytes <= room]
    return (*reversed(fitting), *(parts for parts in possible if parts not in fitting))


def cannot_share(gemm: Gemm, warps: int, units: str) -> str:
    """Why no partition was found: `units` are the warps' name."""
    m, n, k = gemm.extents
    if gemm.policy == "sliced_k":
        return f"{warps} {units} cannot share the k of {k} of a tile of {m} x {n}"
    return f"{warps} {units} cannot share a tile of {m} x {n}"
