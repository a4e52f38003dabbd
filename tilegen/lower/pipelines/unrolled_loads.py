"""Pipelined loops whose tiles go straight to registers: unrolled, so that several iterations load at once.

A ring of registers has no indices at run time, so the compiler makes it: it moves the loads of an unrolled loop in
front of what computes with them, as far as registers reach and no barrier stands between.
"""

from __future__ import annotations

import math

from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Copy, For, SyncThreads
from tilegen.ir.walk import each_statement
from tilegen.lower.synchronisation.barriers import barrier_before
from tilegen.lower.vocabulary.context import Context


def unrolling(context: Context, loop: For) -> bool | int | None:
    """How far to unroll a pipelined loop without a ring in shared memory: True for all of it, None for not at all.

    As often as `num_stages` says, where the program says it, tiles are copied to fragments and no barrier keeps
    iterations apart."""
    stages = loop.num_stages or 1
    inside = tuple(each_statement(loop.body))
    loads = any(
        isinstance(s, Copy) and s.source.buffer.scope == "global" and s.target.buffer.scope == "fragment"
        for s in loop.body
    )
    if loop.kind != "pipelined" or stages < 2 or not loads:
        return None
    if any(isinstance(s, For | SyncThreads) for s in inside) or any(
        barrier_before(context, s) for s in inside
    ):
        return None
    name = loop.var.name
    if _iterations(loop) <= stages:
        context.pipeline_notes.append(
            f"loop {name}: unrolled, so that the loads of all iterations start first"
        )
        return True
    context.pipeline_notes.append(
        f"loop {name}: unrolled {stages} times, so that the loads of {stages} iterations start at once"
    )
    return stages


def _iterations(loop: For) -> float:
    """How often a loop runs, infinity where that is not known."""
    match loop.start, loop.stop:
        case Const(value=start), Const(value=stop):
            return float(stop) - float(start)
        case _:
            return math.inf
