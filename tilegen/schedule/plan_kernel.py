"""The schedule of a kernel: which kind of pipeline its target and its copies allow."""

from __future__ import annotations

from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Program
from tilegen.schedule.plan import Plan
from tilegen.schedule.plan_multistage import plan_multistage

from tilegen.schedule.plan_simple import plan_simple
from tilegen.schedule.plan_warp_specialised import plan_warp_specialised
from tilegen.target import Target


def plan_kernel(program: Program, target: Target, decisions: Decisions) -> Plan:
    """The first kind of schedule that fits, best first; each says in `reasons` why a better one did not.

    Raises:
        ProgramError: when the kernel does not fit the target under any (shared memory, threads, registers).
    """
    reasons: list[str] = []
    attempts = [plan_warp_specialised, plan_multistage]
    if target.has("mfma"):
        from tilegen.schedule.plan_register_prefetch import plan_register_prefetch

        attempts = [plan_register_prefetch]
    for attempt in attempts:
        plan = attempt(program, target, decisions)
        if isinstance(plan, Plan):
            plan.reasons = [*reasons, *plan.reasons]
            return plan
        reasons += [plan] if plan else []
    plan = plan_simple(program, target, decisions)
    plan.reasons = [*reasons, *plan.reasons]
    return plan
