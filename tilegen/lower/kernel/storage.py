"""The order of SharedStorage: what needs the strictest alignment first, barriers last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilegen.model.kernel import SharedMember
from tilegen.model.shared_layout import shared_layout
from tilegen.schedule.overlays import Overlay


def order_members(members: list[SharedMember]) -> list[SharedMember]:
    """Members by falling alignment, otherwise as they were declared; unions stay together."""
    strictest = {m.union: max(o.alignment for o in members if o.union == m.union) for m in members if m.union}
    return sorted(members, key=lambda m: -strictest.get(m.union, m.alignment))


def lay_over(members: list[SharedMember], overlays: Sequence[Overlay]) -> list[SharedMember]:
    """The members with tiles in the place of others that nobody needs any more: unions of two."""
    found: list[SharedMember] = []
    tiles = {member.name: member for member in members}
    laid = {overlay.over: overlay for overlay in overlays}
    for member in members:
        if any(overlay.buffer == member.name for overlay in overlays):
            continue
        overlay = laid.get(member.name)
        if overlay is None:
            found.append(member)
            continue
        said = f"once loop {overlay.loop} is over" if overlay.loop else f"once {overlay.over} has been read"
        found.append(replace(member, union=member.name))
        found.append(replace(tiles[overlay.buffer], union=member.name, alternative=1, comment=said))
    return found


def total_bytes(members: list[SharedMember]) -> int:
    """sizeof(SharedStorage)."""
    return shared_layout(members).size
