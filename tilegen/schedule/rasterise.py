"""The order in which a grid of tiles is walked, where the program does not say."""

from __future__ import annotations

from tilegen.ir.nodes import Gemm, Kernel, Rasterisation
from tilegen.schedule.analysis import each_statement

PANEL = 8  # tile rows; 8 x 16 tiles of 128 x 256 share 6 MB of operands a step of 2048 k, which L2 holds


def default_rasterisation(kernel: Kernel) -> Rasterisation | None:
    """Panels of a few tile rows for a two-dimensional grid of gemm tiles, whose blocks share operands along both axes;
    None where the hardware's order is as good."""
    if len(kernel.grid) != 2:
        return None
    gemms = [statement for statement in each_statement(kernel.body) if isinstance(statement, Gemm)]
    return Rasterisation(PANEL, "row", kernel.location) if gemms else None
