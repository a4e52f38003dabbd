"""Which gemms may start from nothing instead of adding to accumulators that were cleared just before.

A `T.clear` folds into the gemm that touches the accumulators first: the gemm's first instruction ignores their old
value. Inside a loop that needs proof that the loop runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tilegen.inference.decisions import PerNode
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Fill, For, Gemm, Kernel, Persistent, Stmt
from tilegen.schedule.analysis import each_statement, reads, writes


@dataclass(slots=True)
class FoldedClears:
    """Fills that vanish, and for each gemm that replaces one the loop whose first iteration it is (None: no loop)."""

    fills: PerNode[Fill, bool] = field(default_factory=PerNode)
    gemms: PerNode[Gemm, For | None] = field(default_factory=PerNode)


def fold_clears(kernel: Kernel, able: Callable[[Gemm], bool]) -> FoldedClears:
    """The clears of the kernel that gemms can absorb; `able` says which gemms can ignore old accumulators."""
    folded = FoldedClears()
    _walk(kernel.body, folded, able)
    return folded


def _walk(statements: tuple[Stmt, ...], folded: FoldedClears, able: Callable[[Gemm], bool]) -> None:
    for position, statement in enumerate(statements):
        match statement:
            case Fill(target, Const(0)) if (
                target.buffer.scope == "fragment" and target.shape == target.buffer.extents
            ):
                _fold(statement, statements[position + 1 :], folded, able)
            case For() | Persistent():
                _walk(statement.body, folded, able)
            case _:
                pass


def _fold(
    fill: Fill, following: tuple[Stmt, ...], folded: FoldedClears, able: Callable[[Gemm], bool]
) -> None:
    name = fill.target.buffer.name
    for statement in following:
        if not _touches(statement, name):
            continue
        match statement:
            case Gemm() if statement.c.buffer.name == name and not statement.clear and able(statement):
                folded.fills[fill], folded.gemms[statement] = True, None
            case For(start=Const(first), stop=Const(end)) if first < end:
                inner = [s for s in statement.body if _touches(s, name)]
                if (
                    inner
                    and isinstance(inner[0], Gemm)
                    and inner[0].c.buffer.name == name
                    and not inner[0].clear
                    and able(inner[0])
                    and not any(isinstance(s, For) for s in inner)
                ):
                    folded.fills[fill], folded.gemms[inner[0]] = True, statement
            case _:
                pass
        return


def _touches(statement: Stmt, name: str) -> bool:
    return any(
        buffer.name == name
        for inner in each_statement((statement,))
        for buffer in (*reads(inner), *writes(inner))
    )
