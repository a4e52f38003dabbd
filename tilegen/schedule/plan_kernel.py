"""The schedule of a kernel: which kind of pipeline its target and its copies allow."""

from __future__ import annotations

from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import For, Program
from tilegen.ir.walk import each_statement
from tilegen.schedule.clusters import check_cluster
from tilegen.schedule.defer_sums import find_deferred_sums
from tilegen.schedule.fold_elements import fold_elements
from tilegen.schedule.plan import Plan
from tilegen.schedule.plan_multistage import plan_multistage
from tilegen.schedule.plan_register_prefetch import plan_register_prefetch
from tilegen.schedule.plan_simple import plan_simple
from tilegen.schedule.plan_warp_specialised import plan_warp_specialised
from tilegen.target import Target

ATTEMPTS = (plan_warp_specialised, plan_register_prefetch, plan_multistage)
"""Best first; each asks the target for the capabilities that it needs."""


def plan_kernel(program: Program, target: Target, decisions: Decisions) -> Plan:
    """The first kind of schedule that fits; each says in `reasons` why a better one did not.

    Raises:
        ProgramError: when the kernel does not fit the target under any (shared memory, threads, registers, clusters).
    """
    check_cluster(program.kernel, target, decisions.divisors)
    reasons: list[str] = []
    for attempt in ATTEMPTS:
        plan = attempt(program, target, decisions)
        if isinstance(plan, Plan):
            break
        reasons += [plan] if plan else []
    else:
        plan = plan_simple(program, target, decisions)
    plan.reasons = [*reasons, *plan.reasons, *_overrides(program)]
    plan.deferred = find_deferred_sums(program.kernel, decisions, target)
    plan.folded = fold_elements(program.kernel, decisions)
    return plan


def _overrides(program: Program) -> list[str]:
    """What becomes of `order` and `stage` of the program's pipelined loops: they keep iterations apart."""
    found = []
    for loop in each_statement(program.kernel.body):
        if isinstance(loop, For) and loop.kind == "pipelined" and (loop.order or loop.stage):
            given = " and ".join(name for name in ("order", "stage") if getattr(loop, name))
            asked = sorted(loop.order or ()) != list(loop.order or ()) or len({*(loop.stage or ())}) > 1
            rest = "; iterations overlap in loads alone, not as they ask" if asked else ""
            found.append(
                f"loop {loop.var.name}: {given} given, so that its statements run as they stand{rest}"
            )
    return found
