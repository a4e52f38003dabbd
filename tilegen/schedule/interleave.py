"""Register operands that are computed beside the gemm that takes them, a slice of k at a time.

Where element-wise work makes a gemm's register operand (weights unpacked from 4 bits), the tensor cores would idle
while it runs, and the threads while the gemm runs, because the gemm reads the registers that the work writes. Cut into
slices along k, each slice is multiplied as soon as it is there, as a group of its own; a slice's registers are written
again when its own group is over, one iteration later, while the groups of the other slices keep the tensor cores busy.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.inference.decisions import Decisions, GemmDecision
from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.loops import ElementLoop, as_loop
from tilegen.ir.nodes import AtomicTile, Copy, Fill, For, Gemm, ParallelFor, Stmt
from tilegen.schedule.analysis import each_statement, reads, writes
from tilegen.schedule.plan import Plan

MOST_SLICES = 4  # groups under way; more would only cost instructions


@dataclass(frozen=True, slots=True)
class Interleaving:
    """`producers` compute the register operand A of `gemm`; `partition` is theirs with the slices of k as the first
    register dimension."""

    gemm: Gemm
    producers: tuple[ElementLoop, ...]
    slices: int
    partition: Fragment

    def produces(self, statement: Stmt) -> bool:
        return any(statement is producer for producer in self.producers)


def find_interleaving(loop: For, decisions: Decisions, plan: Plan) -> Interleaving | None:
    """How the gemm of a pipelined loop is cut; None where nothing computes its operand or the dependences forbid it."""
    body = [s for s in loop.body if not (isinstance(s, Copy) and plan.hand_over_of(s) is not None)]
    gemms = [s for s in each_statement(tuple(body)) if isinstance(s, Gemm)]
    if any(h.loop is loop and h.stages == 1 for h in plan.hand_overs):
        return None  # the only stage is needed again at once
    if len(gemms) != 1 or loop.order or loop.stage or not any(s is gemms[0] for s in body):
        return None
    gemm = gemms[0]
    decision = decisions.gemms[gemm]
    position = next(at for at, statement in enumerate(body) if statement is gemm)
    producers = _producers(body[:position], gemm, decision, decisions)
    slices = _slices(decision.steps)
    if not producers or slices < 2 or gemm.clear:
        return None
    mine = (*producers, gemm)
    for statement in body:
        touched = (*reads(statement), *writes(statement))
        if not any(statement is own for own in mine) and (
            gemm.a.buffer in touched or gemm.c.buffer in touched
        ):
            return None
    assert decision.a is not None
    return Interleaving(gemm, producers, slices, _sliced(decision.a, slices))


def _slices(steps: int) -> int:
    """The most slices of whole steps that are worth it."""
    return max(count for count in range(1, MOST_SLICES + 1) if steps % count == 0)


def _producers(
    before: list[Stmt], gemm: Gemm, decision: GemmDecision, decisions: Decisions
) -> tuple[ElementLoop, ...]:
    """The element-wise statements right before the gemm that write its operand and nothing else, from registers."""
    if decision.family != "wgmma" or decision.a_source != "register" or gemm.transpose_a:
        return ()
    found: list[ElementLoop] = []
    for statement in reversed(before):
        if not isinstance(statement, ParallelFor | Copy | Fill | AtomicTile):
            break
        partition = decisions.loops.get(statement)
        if writes(statement) != (gemm.a.buffer,) or partition is None or decision.a is None:
            break
        if (partition.threads, partition.registers) != (decision.a.threads, decision.a.registers):
            break
        if decisions.exchanges.get(statement) or any(b.scope != "fragment" for b in reads(statement)):
            break
        if as_loop(statement) is None:
            break
        found.append(statement)
    return tuple(reversed(found))


def _sliced(operand: Fragment, slices: int) -> Fragment:
    """The operand's registers as [slices][…]: the steps along k are the last mode of its innermost dimension."""
    *outer, inner = operand.registers
    *values, steps = inner
    each = steps.extent // slices
    kept = (*values, Mode(each, steps.steps)) if each > 1 else tuple(values)
    first = Mode(slices, tuple(each * step for step in steps.steps))
    return Fragment(operand.tile, operand.threads, ((first,), *outer, kept))
