"""Tensor-core groups of warp-specialised kernels: what each holds, who reads a stage last, and which stages are let go
an iteration late."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Buffer, Copy, For, Gemm, If, Persistent, Stmt
from tilegen.schedule.analysis import each_statement, reads, writes
from tilegen.schedule.interleave import Interleaving
from tilegen.schedule.plan import HandOver, Plan


@dataclass(frozen=True, slots=True)
class Group:
    """A committed tensor-core group: what it holds until it is waited for."""

    gemm: Gemm
    releases: tuple[HandOver, ...]

    @property
    def registers(self) -> tuple[str, ...]:
        names = [self.gemm.c.buffer.name]
        if self.gemm.a.buffer.scope == "fragment":
            names.append(self.gemm.a.buffer.name)
        return tuple(names)


def lagging(loop: For, interleaving: Interleaving | None, decisions: Decisions, plan: Plan) -> list[HandOver]:
    """The loop's hand-overs, where all are read by tensor cores alone and only gemms touch the accumulators; beside
    interleaved work those that its gemm is the last to read."""
    mine = [h for h in plan.hand_overs if h.loop is loop]
    if interleaving is not None:
        at = next(at for at, s in enumerate(loop.body) if s is interleaving.gemm)
        return [h for h in mine if reads_last(loop.body, at, h)]
    gemms = [s for s in loop.body if isinstance(s, Gemm)]
    if not gemms or any(decisions.gemms[g].family != "wgmma" for g in gemms):
        return []
    if any(h.stages == 1 for h in mine):  # the only stage is needed again at once
        return []
    operands = shared_names(tuple(region.buffer for g in gemms for region in (g.a, g.b)))
    if any(name in operands for s in each_statement(loop.body) for name in _stored(s, plan)):
        return []
    registers = {name for g in gemms for name in Group(g, ()).registers}
    for statement in each_statement(loop.body):
        if isinstance(statement, Gemm) or _is_load(statement, plan):
            continue
        touched = [buffer.name for buffer in (*reads(statement), *writes(statement))]
        if any(name in registers for name in touched):
            return []
        if any(name in h.buffers for h in mine for name in touched):
            return []
    if any(g.a.buffer.scope == "fragment" for g in gemms):
        return []
    return mine


def _stored(statement: Stmt, plan: Plan) -> tuple[str, ...]:
    """Shared buffers that threads themselves write."""
    return () if _is_load(statement, plan) else shared_names(writes(statement))


def _is_load(statement: Stmt, plan: Plan) -> bool:
    return isinstance(statement, Copy) and plan.hand_over_of(statement) is not None


def shared_names(buffers: tuple[Buffer, ...]) -> tuple[str, ...]:
    return tuple(buffer.name for buffer in buffers if buffer.scope == "shared")


def readers_of(statements: tuple[Stmt, ...], hand_over: HandOver) -> list[Stmt]:
    """What reads the hand-over's tiles, control flow aside."""
    return [
        one
        for one in each_statement(statements)
        if not isinstance(one, For | If | Persistent)
        and any(buffer.name in hand_over.buffers for buffer in reads(one))
    ]


def reads_last(statements: tuple[Stmt, ...], position: int, hand_over: HandOver) -> bool:
    """Whether no later statement of the body reads the hand-over's buffers, and this one does."""
    later = [b.name for s in statements[position + 1 :] for b in reads(s)]
    here = [b.name for b in reads(statements[position])]
    return any(n in hand_over.buffers for n in here) and not any(n in hand_over.buffers for n in later)
