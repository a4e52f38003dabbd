"""Placeholder until the multistage schedule lands."""

from __future__ import annotations

from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Program
from tilegen.schedule.plan import Plan
from tilegen.target import Target


def plan_multistage(program: Program, target: Target, decisions: Decisions) -> Plan | str:
    return ""
