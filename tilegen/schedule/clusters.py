"""Clusters: which tiles a cluster of blocks loads once for all of them.

Blocks along one grid axis read the same tile of a tensor whose position does not depend on that axis; each loads a
share of it and the TMA unit delivers it to all (PTX ISA, "cp.async.bulk.tensor", .multicast::cluster).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from tilegen.diagnostics import ProgramError
from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Copy, For, Kernel
from tilegen.schedule.analysis import each_statement, variables
from tilegen.target import Target, load_target, target_names

SWIZZLE_ROWS = 8  # shares of a tile begin at whole swizzle atoms


@dataclass(frozen=True, slots=True)
class Multicast:
    """How a tile is shared out: each block of the cluster loads `1 / blocks` of its rows or of its column groups."""

    buffer: str
    by: Literal["rows", "groups"]


def cluster_size(cluster: tuple[int, int, int]) -> int:
    return prod(cluster)


def cluster_axis(cluster: tuple[int, int, int]) -> int:
    """The grid axis along which a cluster lies."""
    return max(range(3), key=lambda axis: cluster[axis])


def check_cluster(kernel: Kernel, target: Target) -> None:
    """Raises ProgramError for a cluster that the target cannot run."""
    size = cluster_size(kernel.cluster)
    if size == 1:
        return
    if not target.has("cluster"):
        raise ProgramError(
            kernel.location,
            f"cluster_dims asks for {size} blocks a cluster, but {target.name} has no clusters",
            remedy=f"leave cluster_dims out here; {' and '.join(_clustering())} can run it",
        )
    limit = target.limits.cluster_blocks
    if size > limit:
        raise ProgramError(
            kernel.location,
            f"cluster_dims asks for {size} blocks a cluster, but {target.name} runs at most {limit}",
            remedy=f"make its product {limit} or less",
        )
    if sum(extent > 1 for extent in kernel.cluster) > 1 or cluster_axis(kernel.cluster) >= len(kernel.grid):
        raise ProgramError(
            kernel.location,
            f"a cluster of {kernel.cluster} blocks does not lie along one axis of the grid",
            remedy="give cluster_dims one extent above 1, along an axis that the grid has",
        )


def _clustering() -> list[str]:
    """The targets that have clusters."""
    return [name for name in target_names() if load_target(name).has("cluster")]


def multicasts(kernel: Kernel, copies: tuple[Copy, ...], decisions: Decisions) -> tuple[Multicast, ...]:
    """The tiles that the blocks of a cluster share."""
    size = cluster_size(kernel.cluster)
    if size == 1:
        return ()
    along = kernel.block_vars[cluster_axis(kernel.cluster)].name
    loops = [s.var.name for s in each_statement(kernel.body) if isinstance(s, For)]
    same = {var.name for var in kernel.block_vars if var.name != along} | set(loops)
    found: list[Multicast] = []
    for copy in copies:
        roles = [name for name in variables(copy.source.offsets) if name not in same]
        layout = decisions.layout(copy.target.buffer)
        if roles:
            continue
        if layout.groups % size == 0:
            found.append(Multicast(copy.target.buffer.name, "groups"))
        elif layout.groups == 1 and layout.rows % (size * SWIZZLE_ROWS) == 0:
            found.append(Multicast(copy.target.buffer.name, "rows"))
    return tuple(found)
