"""Which fragments lie in shared memory already when a statement wants them there: an earlier statement has put them
there, and nothing has changed them since."""

from __future__ import annotations

from tilegen.inference.decisions import Decisions, PerNode
from tilegen.ir.effects import blocks_of
from tilegen.ir.nodes import For, Kernel, ParallelFor, Reduce, Stmt
from tilegen.schedule.analysis import writes
from tilegen.schedule.plan import Plan


def kept_exchanges(kernel: Kernel, decisions: Decisions, plan: Plan) -> PerNode[Stmt, tuple[str, ...]]:
    """The fragments that an exchange of a statement (tilegen.inference.exchange) need not store again."""
    kept: PerNode[Stmt, tuple[str, ...]] = PerNode()
    _block(kernel.body, decisions, plan, kept)
    return kept


def _block(
    statements: tuple[Stmt, ...], decisions: Decisions, plan: Plan, kept: PerNode[Stmt, tuple[str, ...]]
) -> None:
    """Notes it for the statements of one block, which run one after the other."""
    stored: dict[str, None] = {}
    for statement in statements:
        if not isinstance(statement, ParallelFor) and not _reordered(statement, plan):
            for inner in blocks_of(statement):
                _block(inner, decisions, plan, kept)
        exchanges = None if isinstance(statement, Reduce) else decisions.exchanges.get(statement)
        exchanged = exchanges or {}  # what passes on a reduction's result is another array
        known = tuple(name for name in exchanged if name in stored)
        if known:
            kept[statement] = known
        stored.update(dict.fromkeys(exchanged))
        for buffer in writes(statement):
            stored.pop(buffer.name, None)


def _reordered(statement: Stmt, plan: Plan) -> bool:
    """Whether the schedule may run the statements of a loop in another order."""
    return isinstance(statement, For) and statement.kind == "pipelined" and plan.kind == "warp_specialised"
