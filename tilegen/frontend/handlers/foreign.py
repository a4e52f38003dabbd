"""TileLang's words that only tune, and its swizzled layouts."""

from __future__ import annotations

from tilegen.frontend.calls import WordCall, handles
from tilegen.frontend.foreign import warn
from tilegen.frontend.values import ChosenLayout
from tilegen.ir.nodes import Buffer

_TUNING = (
    "no_set_max_nreg",
    "disable_warp_group_reg_alloc",
    "annotate_producer_reg_dealloc",
    "annotate_consumer_reg_alloc",
    "annotate_l2_hit_ratio",
)


@handles(*_TUNING)
def _tuning(call: WordCall) -> None:
    warn(call.context, call.node, f"tilegen's schedule decides this itself: T.{call.word} changes nothing")


@handles("make_swizzled_layout")
def _swizzled(call: WordCall) -> ChosenLayout:
    """The layout that inference chooses.

    Raises:
        ProgramError: for anything but a shared tile.
    """
    buffer = call.arguments["buffer"]
    if not isinstance(buffer, Buffer) or buffer.scope != "shared":
        call.fail("buffer", "make_swizzled_layout takes a shared tile", "pass what T.alloc_shared made")
    return ChosenLayout(buffer)
