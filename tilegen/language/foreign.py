"""Words of TileLang that only tune its own compiler: accepted with a warning, for tilegen's schedule decides what they
ask for."""

from __future__ import annotations

from typing import Any

from tilegen.language.operation import operation, outside_kernel


@operation
def no_set_max_nreg() -> None:
    """Changes nothing: the schedule decides how registers move between warpgroups."""
    raise outside_kernel("no_set_max_nreg")


@operation
def disable_warp_group_reg_alloc() -> None:
    """Changes nothing: the schedule decides how registers move between warpgroups."""
    raise outside_kernel("disable_warp_group_reg_alloc")


@operation
def annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    """Changes nothing: the schedule decides how registers move between warpgroups."""
    raise outside_kernel("annotate_producer_reg_dealloc")


@operation
def annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    """Changes nothing: the schedule decides how registers move between warpgroups."""
    raise outside_kernel("annotate_consumer_reg_alloc")


@operation
def annotate_l2_hit_ratio(l2_hit_ratio_map: Any) -> None:
    """Changes nothing: the order of the tiles decides what stays in L2."""
    raise outside_kernel("annotate_l2_hit_ratio")
