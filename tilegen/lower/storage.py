"""The order of SharedStorage: what needs the strictest alignment first, barriers last."""

from __future__ import annotations

from tilegen.model.kernel import SharedMember
from tilegen.model.shared_layout import shared_layout


def order_members(members: list[SharedMember]) -> list[SharedMember]:
    """Members by falling alignment, otherwise as they were declared; unions stay together."""
    strictest = {m.union: max(o.alignment for o in members if o.union == m.union) for m in members if m.union}
    return sorted(members, key=lambda m: -strictest.get(m.union, m.alignment))


def total_bytes(members: list[SharedMember]) -> int:
    """sizeof(SharedStorage)."""
    return shared_layout(members).size
