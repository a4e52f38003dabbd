"""Pipelined loops whose statements are replaced by several: `order` and `stage` have one entry a statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilegen.ir.nodes import For, Stmt


def with_bodies(loop: For, bodies: Sequence[tuple[Stmt, ...]]) -> For:
    """The loop with each statement of its body replaced; `order` and `stage` say of each new statement what they said
    of the old one."""

    def spread(entries: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if entries is None:
            return None
        return tuple(entry for entry, body in zip(entries, bodies, strict=True) for _ in body)

    body = tuple(new for body in bodies for new in body)
    if all(len(one) == 1 for one in bodies):
        return replace(loop, body=body)
    return replace(loop, body=body, order=spread(loop.order), stage=spread(loop.stage))
