"""The rectangle of a tile that one warpgroup holds."""

from __future__ import annotations

from math import prod

from tilegen.inference.fragment import Fragment, Mode


def warpgroup_part(fragment: Fragment, warpgroup: int) -> tuple[int, int] | None:
    """Rows and columns of the rectangle that each warpgroup, of so many threads, holds of a matrix; None where it holds
    no rectangle, as where warpgroups take rows in turn, or where a dimension of the warps goes across the border of
    two warpgroups."""
    own = [mode for modes in fragment.registers for mode in modes]
    others: list[Mode] = []
    divisor = 1
    for mode in fragment.threads:
        (others if divisor >= warpgroup else own).append(mode)
        if divisor < warpgroup < divisor * mode.extent and not mode.replicates:
            return None
        divisor *= mode.extent
    if any(all(mode.steps) for mode in others):
        return None
    rows, columns = (
        extent // prod(mode.extent for mode in others if mode.steps[axis])
        for axis, extent in enumerate(fragment.tile)
    )
    spans = Fragment(fragment.tile, tuple(own), ()).padded
    return (rows, columns) if spans == (rows, columns) else None
