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
# Words of TileLang that tilegen lacks → what to write instead.
_WORDS: Mapping[str, str] = {
    "alloc_barrier": "delete the barriers: T.Pipelined and T.sync_threads place them",
    "alloc_descriptor": "delete it: T.gemm makes its descriptors itself",
    "alloc_global": "pass a tensor as a parameter of the program; sums over blocks are T.sum_blocks",
    "alloc_reducer": "add up in a fragment, T.alloc_fragment, and reduce it by T.reduce_sum",
    "alloc_tmem": "there is no Blackwell target yet: make it T.alloc_fragment",
    "annotate_safe_value": "guard the values: T.if_then_else(index < extent, value, safe); elsewhere beyond a tensor "
    "tiles read as 0",
    "async_copy": "write T.copy in T.Pipelined, which runs ahead of the arithmetic",
    "attr": "delete it: the schedule takes no attributes",
    "call_extern": "register the function as an operation: tilegen.register_operation",
    "call_intrin": "register it as an operation: tilegen.register_operation",
    "copy_async": "write T.copy in T.Pipelined, which runs ahead of the arithmetic",
    "dec_max_nreg": "delete it: the schedule decides how registers move between warpgroups",
    "device_assert": "delete it: T.assume states what must hold of extents, e.emulate(…) finds bad addresses and "
    "races, and values are compared in Python",
    "import_source": "register the functions as operations: tilegen.register_operation",
    "inc_max_nreg": "delete it: the schedule decides how registers move between warpgroups",
    "mbarrier_arrive": "delete the barriers: T.Pipelined and T.sync_threads place them",
    "mbarrier_wait_parity": "delete the barriers: T.Pipelined and T.sync_threads place them",
    "print": "delete it: store the values to an output tensor, or run the text by e.emulate(…)",
    "region": _PARTS,
    "set_max_nreg": "delete it: the schedule decides how registers move between warpgroups",
    "view": _PARTS,
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
