"""Shared tiles that lie over others which nobody needs any more, where a block's shared memory does not hold both.

Behind a pipelined loop nothing is on its way into its rings: the consumers have waited for all that was loaded. Once
they have met, other tiles may take the rings' place, unless the producer is already loading the next tile. So may they
that of tiles which were filled once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import For, If, Kernel, Persistent, Stmt
from tilegen.ir.walk import each_statement
from tilegen.schedule.analysis import reads, writes


@dataclass(frozen=True, slots=True)
class Overlay:
    """`buffer` lies over the buffer `over`, and is first touched behind it; `loop` is the loop whose ring that is, if
    it is one."""

    buffer: str
    over: str
    loop: str = ""


def overlays(
    kernel: Kernel, stages: Mapping[str, tuple[str, int]], decisions: Decisions, excess: int
) -> tuple[Overlay, ...]:
    """The tiles to lay over others so that `excess` bytes are saved; none where they cannot be. `stages` has the loop
    (empty for none) and the number of stages of what the producer fills. A buffer takes one tile; the smallest that
    holds it is asked first."""
    if (
        excess <= 0
        or kernel.persistent
        or any(isinstance(s, Persistent) for s in each_statement(kernel.body))
    ):
        return ()
    size = {b.name: decisions.shared[b.name].bytes for b in kernel.allocations if b.scope == "shared"}
    room = {name: size[name] * (stages[name][1] if name in stages else 1) for name in size}
    free = sorted(room, key=lambda name: room[name])
    found: list[Overlay] = []
    for tile in sorted((name for name in size if name not in stages), key=lambda name: -size[name]):
        first = _first_touch(kernel, tile)
        under = next(
            (name for name in free if size[tile] <= room[name] and _last_touch(kernel, name) < first), None
        )
        if excess > 0 and under is not None and first < len(kernel.body) and tile in free:
            found.append(Overlay(tile, under, stages[under][0] if under in stages else ""))
            free.remove(under)
            free.remove(tile)
            excess -= size[tile]
    return tuple(found) if excess <= 0 else ()


def _first_touch(kernel: Kernel, name: str) -> int:
    """The position in the kernel's body of the first statement that touches a buffer; -1 where it is control flow,
    around which threads do not all meet."""
    for position, statement in enumerate(kernel.body):
        if _touches(statement, name):
            return -1 if isinstance(statement, For | If) else position
    return len(kernel.body)


def _last_touch(kernel: Kernel, name: str) -> int:
    return max((i for i, statement in enumerate(kernel.body) if _touches(statement, name)), default=-1)


def _touches(statement: Stmt, name: str) -> bool:
    return any(buffer.name == name for buffer in (*reads(statement), *writes(statement)))
