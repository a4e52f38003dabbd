"""The kernel, its memory, and what concerns the whole of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tilegen.language.operation import operation, outside_kernel


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What a tile program may know of the target that text is generated for.

    `shared_bytes` is what a block may use of shared memory (LDS); `warpgroups` says whether matrix instructions are
    those of whole warpgroups (wgmma).
    """

    name: str
    language: Literal["cuda", "hip"]
    shared_bytes: int
    warp_size: int
    warpgroups: bool


@operation
def assume(condition: Any) -> None:
    """What holds of the extents that a call fixes: checked before the launch, and relied upon."""
    raise outside_kernel("assume")


@operation
def target() -> TargetFacts:
    """The target that text is generated for, so that Python can choose tiles by it."""
    raise outside_kernel("target")


@operation
def Kernel(
    *grid: Any,
    threads: Any = 128,
    persistent: bool | None = None,
    cluster_dims: Any = None,
    min_blocks: int | None = None,
) -> Any:
    """`with T.Kernel(x, y, z, threads=128) as (bx, by, bz)`: a grid of blocks of `threads` computing threads.

    Args:
        grid: one to three extents, the fastest first.
        threads: computing threads a block.
        persistent: True wraps the grid in a loop over a resident set of blocks, None lets the schedule decide.
        cluster_dims: blocks a cluster along each grid axis.
        min_blocks: blocks that a multiprocessor shall hold at least, None lets the schedule decide.
    """
    raise outside_kernel("Kernel")


@operation
def alloc_shared(shape: Any, dtype: Any, scope: str = "shared") -> Any:
    """A tile in shared memory (LDS)."""
    raise outside_kernel("alloc_shared")


@operation
def alloc_fragment(shape: Any, dtype: Any, scope: str = "local.fragment") -> Any:
    """A tile spread over the registers of the block's threads."""
    raise outside_kernel("alloc_fragment")


@operation
def alloc_local(shape: Any, dtype: Any, scope: str = "local") -> Any:
    """An array of each thread's own."""
    raise outside_kernel("alloc_local")


@operation
def alloc_var(dtype: Any, init: Any = None) -> Any:
    """A scalar of each thread's own that may be assigned again; 0 at first unless `init` is given."""
    raise outside_kernel("alloc_var")


@operation
def use_swizzle(panel_size: int = 10, order: str = "row", enable: bool = True) -> None:
    """Walks the grid in panels of `panel_size` rows (or columns) of tiles, so that neighbours share L2."""
    raise outside_kernel("use_swizzle")


@operation
def annotate_layout(layouts: Any) -> None:
    """`{buffer: layout}`: fixes layouts that would be inferred."""
    raise outside_kernel("annotate_layout")


@operation
def get_thread_binding(dim: int = 0) -> Any:
    """The index of the computing thread in its block, 0 … threads - 1."""
    raise outside_kernel("get_thread_binding")


@operation
def get_block_binding(dim: int = 0) -> Any:
    """The block's index along a grid axis."""
    raise outside_kernel("get_block_binding")


@operation
def sync_threads() -> None:
    """A barrier of the block's computing threads."""
    raise outside_kernel("sync_threads")
