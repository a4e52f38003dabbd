"""What TileLang's programs say to its own compiler: options and words that only tune are accepted with a warning, those
that change results are refused with what to write instead."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping

from tilegen.frontend.context import Context

# Keywords of TileLang's words that change no result.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "copy": ("coalesced_width", "disable_tma", "loop_layout", "annotations"),
    "Parallel": ("coalesced_width", "loop_layout", "annotations"),
    "Pipelined": ("sync", "group", "annotations"),
    "serial": ("annotations",),
    "unroll": ("unroll_factor", "annotations"),
}
_PARTS = "tiles take their parts by index: tile[i0 : i0 + n, :]"
_IM2COL = (
    "gather the tile in T.Parallel, tile[i, j] = T.if_then_else(inside, X[…], 0), and multiply it by T.gemm"
)
_SCAN = (
    "go back and forth between two shared tiles: b[i] = {} where i >= step, else a[i], for step 1, 2, 4, …"
)
# Words of TileLang that tilegen lacks → what to write instead.
_WORDS: Mapping[str, str] = {
    "alloc_barrier": "delete the barriers: T.Pipelined and T.sync_threads place them",
    "alloc_descriptor": "delete it: T.gemm makes its descriptors itself",
    "alloc_global": "pass a tensor as a parameter of the program; sums over blocks are T.sum_blocks",
    "alloc_reducer": "add up in a fragment, T.alloc_fragment, and reduce it by T.reduce_sum",
    "alloc_tmem": "there is no Blackwell target yet: make it T.alloc_fragment",
    "all_of": "T.reduce_all(tile, result), or conditions joined by and",
    "annotate_safe_value": "guard the values: T.if_then_else(index < extent, value, safe); elsewhere beyond a tensor "
    "tiles read as 0",
    "any_of": "T.reduce_any(tile, result), or conditions joined by or",
    "async_copy": "write T.copy in T.Pipelined, which runs ahead of the arithmetic",
    "atomic_addx2": "T.atomic_add of a tile, which moves vectors where the target can",
    "atomic_addx4": "T.atomic_add of a tile, which moves vectors where the target can",
    "atomic_load": "read the element; what other blocks write in the same launch is not seen in any order",
    "atomic_store": "T.atomic_max or T.atomic_min of an element, or a plain assignment",
    "attr": "delete it: the schedule takes no attributes",
    "c2d_im2col": _IM2COL,
    "call_extern": "register the function as an operation: tilegen.register_operation",
    "call_intrin": "register it as an operation: tilegen.register_operation",
    "copy_async": "write T.copy in T.Pipelined, which runs ahead of the arithmetic",
    "cummax": _SCAN.format("T.max(a[i], a[i - step])"),
    "cumsum": _SCAN.format("a[i] + a[i - step]"),
    "dec_max_nreg": "delete it: the schedule decides how registers move between warpgroups",
    "device_assert": "delete it: T.assume states what must hold of extents, e.emulate(…) finds bad addresses and "
    "races, and values are compared in Python",
    "dp4a": "multiply and add the four products as T.int32 in T.Parallel",
    "gemm_blockscaled": "there is no Blackwell target yet: convert and scale the operands, then T.gemm",
    "gemm_sp": "T.gemm takes dense operands: expand the sparse one to a tile first",
    "get_lane_idx": "T.get_thread_binding() % T.target().warp_size",
    "get_warp_idx": "T.get_thread_binding() // T.target().warp_size",
    "get_warp_idx_sync": "T.get_thread_binding() // T.target().warp_size",
    "im2col": _IM2COL,
    "import_source": "register the functions as operations: tilegen.register_operation",
    "inc_max_nreg": "delete it: the schedule decides how registers move between warpgroups",
    "loop_break": "put the statements that it would skip under an if",
    "mbarrier_arrive": "delete the barriers: T.Pipelined and T.sync_threads place them",
    "mbarrier_wait_parity": "delete the barriers: T.Pipelined and T.sync_threads place them",
    "print": "delete it: store the values to an output tensor, or run the text by e.emulate(…)",
    "region": _PARTS,
    "reshape": _PARTS,
    "set_max_nreg": "delete it: the schedule decides how registers move between warpgroups",
    "sync_warp": "delete it: barriers that tiles need are placed by themselves, T.sync_threads() is the block's",
    "tma_copy": "write T.copy: the schedule uses TMA where it can",
    "tma_load": "write T.copy: the schedule uses TMA where it can",
    "transpose": "for i, j in T.Parallel(m, n): other[j, i] = tile[i, j]; T.gemm has transpose_A and transpose_B",
    "view": _PARTS,
    "warp_reduce_max": "T.reduce_max of a fragment",
    "warp_reduce_min": "T.reduce_min of a fragment",
    "warp_reduce_sum": "T.reduce_sum of a fragment",
    "warpgroup_arrive": "delete it: T.gemm waits where it must",
    "warpgroup_commit_batch": "delete it: T.gemm waits where it must",
    "warpgroup_wait": "delete it: T.gemm waits where it must",
    "wait_wgmma": "delete it: T.gemm waits where it must",
    "ws": "delete the with statement: the schedule makes producer and consumer warpgroups itself",
}


_SHOWN: dict[str, dict[str | tuple[str, type[Warning], int], int]] = {}  # by file: what Python has shown


def warn(context: Context, node: ast.expr | ast.keyword, message: str) -> None:
    """Warns at the user's line; Python's filters show it once a line, however often the program is read."""
    place = context.location(node)
    shown = _SHOWN.setdefault(place.file, {})
    warnings.warn_explicit(message, UserWarning, place.file, place.line, registry=shown)


def without_foreign_options(
    context: Context, node: ast.Call, word: str, keywords: dict[str, object]
) -> dict[str, object]:
    """The keywords of a word's call without those that only tune TileLang's compiler, which are warned of."""
    foreign = [name for name in keywords if name in _OPTIONS.get(word, ())]
    for name in foreign:
        at = next((keyword for keyword in node.keywords if keyword.arg == name), node)
        warn(context, at, f"tilegen's T.{word} has no '{name}': the option changes nothing")
    return {name: value for name, value in keywords.items() if name not in foreign}


def remedy_for_word(name: str) -> str:
    """What to write instead of a word of TileLang; nothing for other names."""
    return _WORDS.get(name, "")
