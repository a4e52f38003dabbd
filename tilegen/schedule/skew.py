"""Software pipelining of the consumers: which loops run their second gemm beside the next iteration's first one.

Where one gemm's operand comes from an earlier gemm through element-wise work (attention: scores, softmax, output), the
tensor cores would idle during that work. Skewed by one iteration, the first gemm of iteration t and the second of
iteration t - 1 run while the threads work on iteration t. Source: Shah et al., FlashAttention-3, section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilegen.inference.decisions import Decisions
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import AddPartials, Assign, Copy, For, Gemm, If, Let, Persistent, Stmt
from tilegen.schedule.analysis import each_statement, loaded, reads, variables, writes
from tilegen.schedule.plan import Plan

FEW = 2


@dataclass(frozen=True, slots=True)
class Skew:
    """A loop body in the order in which it runs: `first`, `early` while the previous iteration's `second` still runs,
    `late` once it is done (it touches what that gemm touches), and `second` with the next iteration."""

    first: Gemm
    early: tuple[Stmt, ...]
    late: tuple[Stmt, ...]
    second: Gemm


def find_skew(loop: For, decisions: Decisions, plan: Plan) -> Skew | None:
    """How a pipelined loop is skewed; None where its dependences do not ask for it or do not allow it."""
    body = [s for s in loop.body if not (isinstance(s, Copy) and plan.hand_over_of(s) is not None)]
    gemms = [s for s in body if isinstance(s, Gemm)]
    if len(gemms) != 2 or body[0] is not gemms[0] or body[-1] is not gemms[1] or loop.order or loop.stage:
        return None
    if not _repeats(loop):
        return None
    first, second = gemms
    if any(decisions.gemms[gemm].family != "wgmma" for gemm in gemms) or not first.clear:
        return None
    between = tuple(body[1:-1])
    if any(isinstance(s, For | Gemm | Persistent | AddPartials) for s in each_statement(between)):
        return None
    held = [second.c.buffer.name]
    if second.a.buffer.scope == "fragment":
        held.append(second.a.buffer.name)
    if first.c.buffer.name in held or not _depends(first, between, second):
        return None
    if any(buffer.scope == "shared" for s in between for buffer in (*reads(s), *writes(s))):
        return None
    work = [s for s in between if not isinstance(s, Let)]
    parts = (tuple(s for s in work if _touches(s, held) == late) for late in (False, True))
    if not _can_part(between, held) or _changes_variables(between) or _names_for((first, second), between):
        return None
    early, late = (_with_names(part, between) for part in parts)
    if any(loaded(s.value) for s in late if isinstance(s, Let)):
        return None  # it may be another value by then
    return Skew(first, early, late, second)


def _with_names(part: tuple[Stmt, ...], between: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A part of the statements with the names that it uses: both parts may need one."""
    kept = [*part, *_names_for(part, between)]
    return tuple(s for s in between if any(s is one for one in kept))


def _names_for(statements: tuple[Stmt, ...], between: tuple[Stmt, ...]) -> list[Let]:
    """The definitions of names that statements use, or the values of such names."""
    used = set(variables(statements))
    needed: list[Let] = []
    for statement in reversed(between):
        if isinstance(statement, Let) and statement.var.name in used:
            needed.append(statement)
            used.update(variables(statement.value))
    return needed


def _changes_variables(statements: tuple[Stmt, ...]) -> bool:
    return any(
        isinstance(s, Assign) or (isinstance(s, Let) and s.mutable) for s in _outside_loops(statements)
    )


def _outside_loops(statements: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """The statements, those of branches included, but for the bodies of element-wise loops."""
    for statement in statements:
        yield statement
        if isinstance(statement, If):
            yield from _outside_loops((*statement.then, *statement.otherwise))


def _repeats(loop: For) -> bool:
    """Whether the loop may run more often than FEW times: laid out one after another, iterations that overlap need the
    registers of both at once, and have nothing to win."""
    match loop.start, loop.stop:
        case Const(value=start), Const(value=stop):
            return stop - start > FEW
        case _:
            return True


def _touches(statement: Stmt, names: list[str]) -> bool:
    return any(buffer.name in names for buffer in (*reads(statement), *writes(statement)))


def _depends(first: Gemm, between: tuple[Stmt, ...], second: Gemm) -> bool:
    """Whether the second gemm's operands come from the first one's result."""
    tainted = {first.c.buffer.name: None}
    for statement in between:
        if any(buffer.name in tainted for buffer in reads(statement)):
            tainted.update({buffer.name: None for buffer in writes(statement)})
    return second.a.buffer.name in tainted or second.b.buffer.name in tainted


def _can_part(between: tuple[Stmt, ...], held: list[str]) -> bool:
    """Whether every early statement may move in front of the late ones that stand before it."""
    late_reads: dict[str, None] = {}
    late_writes: dict[str, None] = {}
    for statement in between:
        read = [buffer.name for buffer in reads(statement)]
        wrote = [buffer.name for buffer in writes(statement)]
        if _touches(statement, held):
            late_reads.update(dict.fromkeys(read))
            late_writes.update(dict.fromkeys(wrote))
        elif any(n in late_writes for n in (*read, *wrote)) or any(n in late_reads for n in wrote):
            return False
    return True
