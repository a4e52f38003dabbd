"""The order in which a grid of tiles is walked, where the program does not say."""

from __future__ import annotations

from math import log2

from tilegen.ir.build import const
from tilegen.ir.nodes import Gemm, Kernel, Rasterisation
from tilegen.schedule.analysis import each_statement
from tilegen.target import Target


def default_rasterisation(kernel: Kernel, target: Target) -> Rasterisation | None:
    """Panels of tile rows for a two-dimensional grid of gemm tiles, whose blocks share operands along both axes; None
    where the hardware's order is as good, or the only one: of one row or column of tiles.

    The tiles that run at once then make up a region as nearly square as a power of two of rows allows: of all regions
    of that many elements it reads the fewest bytes of both operands. Yet no more rows than the device gains by: what
    they read of A stays in L2 from region to region, and requests of neighbours meet there more often.
    """
    if not target.device.panel_rows:
        return None
    if len(kernel.grid) != 2 or const(1) in kernel.grid:
        return None
    gemms = [statement for statement in each_statement(kernel.body) if isinstance(statement, Gemm)]
    if not gemms:
        return None
    m, n, _ = gemms[0].extents
    rows = (target.device.multiprocessors * n / m) ** 0.5
    return Rasterisation(min(2 ** round(log2(rows)), target.device.panel_rows), "row", kernel.location)
