"""The program's tiles in LDS, as SharedStorage declares them: rings where a pipelined loop fills them."""

from __future__ import annotations

from tilegen.ir.nodes import Buffer
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.shared_tiles import buffer_member
from tilegen.model.expressions import CExpr, Literal
from tilegen.schedule.staged_store import rings


def declare_tile(context: Context, buffer: Buffer) -> None:
    """Adds a tile to SharedStorage, with its stages, unless it is there.

    How many it has is asked of the plan: a store may take the place of a ring before the ring's own loop is lowered.
    """
    if any(member.name == buffer.name for member in context.members):
        return
    stages = rings(context.program, context.plan).get(buffer.name, 1)
    depth: CExpr = Literal(1)
    if stages > 1:
        context.ring_depths[buffer.name] = stages
        depth = context.constant("kStages", stages, "tiles in LDS: one is read while the next is filled")
    context.members.append(buffer_member(context, buffer, (stages, depth)))
