"""Loops of a tile program."""

from __future__ import annotations

from typing import Any

from tilegen.language.operation import operation, outside_kernel


@operation
def Parallel(*extents: Any) -> Any:
    """Independent iterations over a box, divided among the threads of the block."""
    raise outside_kernel("Parallel")


@operation
def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int | None = None,
    order: Any = None,
    stage: Any = None,
) -> Any:
    """A sequential loop whose copies run ahead of the arithmetic through `num_stages` shared buffers.

    Args:
        start, stop: the range; a single value is the stop.
        num_stages: shared buffers a tile; 0 or 1 means no overlap, None two where they fit.
        order, stage: one integer a statement of the body, to override the schedule.
    """
    raise outside_kernel("Pipelined")


@operation
def Serial(start: Any, stop: Any = None, step: Any = None) -> Any:
    """A sequential loop."""
    raise outside_kernel("Serial")


@operation
def serial(start: Any, stop: Any = None, step: Any = None) -> Any:
    """A sequential loop."""
    raise outside_kernel("serial")


@operation
def unroll(start: Any, stop: Any = None, step: Any = None) -> Any:
    """A sequential loop that is unrolled."""
    raise outside_kernel("unroll")


@operation
def grid(*extents: Any) -> Any:
    """Nested sequential loops."""
    raise outside_kernel("grid")


@operation
def Persistent(domain: Any, wave_size: Any, index: Any, group_size: int | None = None) -> Any:
    """`for bx, by in T.Persistent((x, y), wave_size, index)`: the block walks tiles index, index + wave_size, …

    Args:
        domain: the tile grid's extents.
        wave_size: the number of blocks, which is the kernel's grid.
        index: the block's index.
        group_size: tiles are walked in panels of this many rows.
    """
    raise outside_kernel("Persistent")


range = serial
Unroll = unroll
vectorized = unroll
