"""One device helper for the loads of whole tiles that lie in column groups, where a kernel has several."""

from __future__ import annotations

from tilegen.ir.nodes import Copy
from tilegen.lower.copies.tma import boxes, folds_groups
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.eviction import eviction_hint
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Name
from tilegen.model.statements import CStmt, Expression
from tilegen.schedule.plan import HandOver


def load_whole(context: Context, hand_over: HandOver, barrier: CExpr) -> list[CStmt]:
    """The call that loads the tile of a hand-over and says how many bytes its barrier waits for; nothing where tile by
    tile is not how it is loaded, or where no other tile of the kernel is loaded alike."""
    alike = [one for one in context.plan.hand_overs if _kind(context, one) is not None]
    kind = _kind(context, hand_over)
    if kind is None or len(alike) < 2 or any(_kind(context, one) != kind for one in alike):
        return []
    rank, _ = kind
    copy = hand_over.copies[0]
    buffer = copy.target.buffer
    extents = shared_tiles.extent_constants(context, buffer)
    layout = context.decisions.layout(buffer)
    found = boxes(context, copy.source, layout, extents)
    columns = shared_tiles.group_columns(context, layout, extents[-1])
    assert isinstance(columns, Name)
    context.primitive("mbarrier_arrive_expect_tx")
    context.primitive("tma_load", rank=rank, multicast=False, hint="")
    shifted = any(not _whole_rows(one.copies[0]) for one in alike)
    context.helper("load_tile", rank=rank, columns=columns.name, shifted=shifted)
    at = found.coordinates if shifted else found.coordinates[1:]
    return [Expression(c.call("load_tile", shared_tiles.tile(context, buffer.name), found.map, *at, barrier))]


def _kind(context: Context, hand_over: HandOver) -> tuple[int, int] | None:
    """Rank of the tensor and elements of a column group, where the hand-over is one tile of several groups."""
    if len(hand_over.copies) != 1:
        return None
    copy = hand_over.copies[0]
    buffer = copy.target.buffer
    layout = context.decisions.layout(buffer)
    if layout.groups == 1 or context.plan.multicast_of(buffer.name) is not None:
        return None
    if folds_groups(context, copy.source, layout) or eviction_hint(context, copy):
        return None
    return copy.source.buffer.rank, layout.group


def _whole_rows(copy: Copy) -> bool:
    """Whether the tile begins at the first column."""
    offset = copy.source.offsets[-1]
    return getattr(offset, "value", None) == 0
