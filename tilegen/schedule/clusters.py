"""Clusters: which tiles a cluster of blocks loads once for all of them.

Blocks along one grid axis read the same tile of a tensor whose position does not depend on that axis, or is the same
for all blocks of a cluster; each loads a share of it and the TMA unit delivers it to all (PTX ISA,
"cp.async.bulk.tensor", .multicast::cluster).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

from tilegen.diagnostics import ProgramError
from tilegen.inference.decisions import Decisions
from tilegen.ir.affine import children
from tilegen.ir.effects import blocks_of
from tilegen.ir.expressions import Binary, Const, Expr, Load, Var
from tilegen.ir.nodes import Assign, Copy, For, If, Kernel, Let, Persistent, Stmt
from tilegen.schedule.analysis import each_statement
from tilegen.schedule.cluster_overhang import check_overhang
from tilegen.target import Target, load_target, target_names

SWIZZLE_ROWS = 8  # shares of a tile begin at whole swizzle atoms


@dataclass(frozen=True, slots=True)
class Multicast:
    """How a tile is shared out: each block of the cluster loads `1 / blocks` of its column groups or, where they do not
    divide, of its rows: more boxes, of fewer bytes each."""

    buffer: str
    by: Literal["rows", "groups"]


def cluster_size(cluster: tuple[int, int, int]) -> int:
    return prod(cluster)


def cluster_axis(cluster: tuple[int, int, int]) -> int:
    """The grid axis along which a cluster lies."""
    return max(range(3), key=lambda axis: cluster[axis])


def check_cluster(kernel: Kernel, target: Target, divisors: Mapping[str, int]) -> None:
    """Raises ProgramError for a cluster that the target cannot run; `divisors` are those of extents."""
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
    check_overhang(kernel, cluster_axis(kernel.cluster), size, divisors)


def _clustering() -> list[str]:
    """The targets that have clusters."""
    return [name for name in target_names() if load_target(name).has("cluster")]


def multicasts(kernel: Kernel, copies: tuple[Copy, ...], decisions: Decisions) -> tuple[Multicast, ...]:
    """The tiles that the blocks of a cluster share."""
    size = cluster_size(kernel.cluster)
    if size == 1:
        return ()
    different = _different(kernel, kernel.block_vars[cluster_axis(kernel.cluster)].name, size)
    found: list[Multicast] = []
    for copy in copies:
        layout = decisions.layout(copy.target.buffer)
        if any(map(different, copy.source.offsets)) or not _loaded_alike(kernel.body, copy, different):
            continue
        if layout.groups % size == 0:
            found.append(Multicast(copy.target.buffer.name, "groups"))
        elif copy.target.buffer.rank == 2 and layout.rows % (size * SWIZZLE_ROWS) == 0:
            found.append(Multicast(copy.target.buffer.name, "rows"))
    return tuple(found)


def _different(kernel: Kernel, along: str, size: int) -> Callable[[Expr], bool]:
    """What tells of an expression whether it may differ from block to block of a cluster: where it holds the cluster's
    axis other than as `axis // size`, or what is computed from that, from memory or again and again."""
    names = {along}

    def differs(expression: Expr) -> bool:
        match expression:
            case Load():
                return True
            case Var(name, role=role):
                return name in names or role in ("thread", "parallel", "last")
            case Binary("//", Var(name), Const(int(divisor))) if (
                name == along and divisor > 0 and divisor % size == 0
            ):
                return False  # clusters begin at multiples of their size
            case _:
                return any(differs(part) for part in children(expression))

    for _ in range(2):  # a variable may be used above where it is assigned
        for statement in each_statement(kernel.body):
            match statement:
                case Assign(var=var) | Let(var=var, mutable=True):
                    names.add(var.name)
                case Let(var=var, value=value) if differs(value):
                    names.add(var.name)
                case For(var=var, start=start, stop=stop) if differs(start) or differs(stop):
                    names.add(var.name)
                case _:
                    pass
    return differs


def _loaded_alike(statements: tuple[Stmt, ...], copy: Copy, differs: Callable[[Expr], bool]) -> bool:
    """Whether all blocks of a cluster come to a copy alike often: those that share a load wait for each other."""
    for statement in statements:
        inner = blocks_of(statement)
        if not any(one is copy for one in each_statement((statement,))):
            continue
        if isinstance(statement, For) and (differs(statement.start) or differs(statement.stop)):
            return False
        if isinstance(statement, If) and differs(statement.condition):
            return False
        if isinstance(statement, Persistent):  # by hand: blocks have tiles of their own, maybe fewer of them
            return False
        return all(_loaded_alike(block, copy, differs) for block in inner)
    return True
