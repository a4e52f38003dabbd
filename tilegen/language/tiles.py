"""Operations on tiles: copies, matrix products, reductions, atomics."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tilegen.language.operation import operation, outside_kernel


class GemmWarpPolicy(Enum):
    """How the warps (or warpgroups) divide the output tile of a gemm; with SlicedK they divide its K, and add up their
    sums once, after the loop."""

    Square = "square"
    FullRow = "full_row"
    FullCol = "full_col"
    SlicedK = "sliced_k"


@operation
def copy(src: Any, dst: Any, eviction_policy: str | None = None) -> None:
    """dst[…] = src[…], converting the dtype. A side is a buffer, a slice (`A[i0:i1, :]`), or an element
    (`A[i, j]`: the corner of a tile of the other side's shape, along the last axes).

    `eviction_policy` ("evict_first", "evict_normal" or "evict_last") tells NVIDIA's L2 which lines of global memory to
    give up first; it changes no result.
    """
    raise outside_kernel("copy")


@operation
def fill(buffer: Any, value: Any) -> None:
    """Every element of a buffer or slice becomes `value`."""
    raise outside_kernel("fill")


@operation
def clear(buffer: Any) -> None:
    """Every element of a buffer or slice becomes 0."""
    raise outside_kernel("clear")


@operation
def gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: Any = GemmWarpPolicy.Square,
    clear_accum: bool = False,
    k_pack: int = 1,
    wg_wait: int = 0,
) -> None:
    """C += A · B on the tensor cores (C = A · B with `clear_accum`).

    `k_pack` (1 or 2) and `wg_wait` are accepted for TileLang's sake: the schedule decides both.
    """
    raise outside_kernel("gemm")


@operation
def reduce(buffer: Any, out: Any, reduce_type: str, dim: int = -1, clear: bool = True) -> None:
    """out = reduction of `buffer` along `dim`; without `clear` the old value of `out` takes part."""
    raise outside_kernel("reduce")


@operation
def reduce_sum(buffer: Any, out: Any, dim: int = -1, clear: bool = True) -> None:
    """The sum along `dim`."""
    raise outside_kernel("reduce_sum")


@operation
def reduce_max(buffer: Any, out: Any, dim: int = -1, clear: bool = True) -> None:
    """The maximum along `dim`."""
    raise outside_kernel("reduce_max")


@operation
def reduce_min(buffer: Any, out: Any, dim: int = -1, clear: bool = True) -> None:
    """The minimum along `dim`."""
    raise outside_kernel("reduce_min")


@operation
def reduce_prod(buffer: Any, out: Any, dim: int = -1, clear: bool = True) -> None:
    """The product along `dim`."""
    raise outside_kernel("reduce_prod")


@operation
def reduce_abssum(buffer: Any, out: Any, dim: int = -1, clear: bool = True) -> None:
    """The sum of magnitudes along `dim`."""
    raise outside_kernel("reduce_abssum")


@operation
def reduce_absmax(buffer: Any, out: Any, dim: int = -1, clear: bool = True) -> None:
    """The largest magnitude along `dim`."""
    raise outside_kernel("reduce_absmax")


@operation
def reduce_any(buffer: Any, out: Any, dim: int = -1, clear: bool = True) -> None:
    """Whether any element along `dim` is true."""
    raise outside_kernel("reduce_any")


@operation
def reduce_all(buffer: Any, out: Any, dim: int = -1, clear: bool = True) -> None:
    """Whether every element along `dim` is true."""
    raise outside_kernel("reduce_all")


@operation
def reduce_bitand(buffer: Any, out: Any, dim: int = -1, clear: bool = True) -> None:
    """The bitwise and along `dim`."""
    raise outside_kernel("reduce_bitand")


@operation
def reduce_bitor(buffer: Any, out: Any, dim: int = -1, clear: bool = True) -> None:
    """The bitwise or along `dim`."""
    raise outside_kernel("reduce_bitor")


@operation
def reduce_bitxor(buffer: Any, out: Any, dim: int = -1, clear: bool = True) -> None:
    """The bitwise exclusive or along `dim`."""
    raise outside_kernel("reduce_bitxor")


@operation
def sum_blocks(fragments: Any, axis: Any) -> None:
    """Adds up a fragment, or each of several, over the blocks that differ along the grid axis `axis` (a block variable)
    alone. What follows runs in one of them, the last to arrive, with the sums, which are added up in the order of the
    axis: the same bits in every run. The others end here."""
    raise outside_kernel("sum_blocks")


@operation
def atomic_add(dst: Any, value: Any, memory_order: str | None = None) -> None:
    """dst += value without a race: one element, or a whole tile into a region. The order is relaxed."""
    raise outside_kernel("atomic_add")


@operation
def atomic_max(dst: Any, value: Any, memory_order: str | None = None) -> None:
    """dst = max(dst, value) without a race."""
    raise outside_kernel("atomic_max")


@operation
def atomic_min(dst: Any, value: Any, memory_order: str | None = None) -> None:
    """dst = min(dst, value) without a race."""
    raise outside_kernel("atomic_min")
