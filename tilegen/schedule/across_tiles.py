"""Software pipelining from tile to tile: a persistent kernel issues the first gemm of its next tile behind the last one
of this tile, so that the tensor cores multiply while the warpgroup ends the one and begins the other.

That pays where tiles are short, for the main loop has one more stage to keep count of: measured on the H200 with
attention, +2.5 % at 9 iterations a tile, nothing at 16, -1 % at 64. Only a skewed loop gains: elsewhere the loads alone
run ahead, and the tensor cores wait for nothing else.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.inference.decisions import Decisions
from tilegen.ir.interval import Range, interval
from tilegen.ir.nodes import Buffer, Copy, For, Gemm, Kernel, Let, Stmt
from tilegen.schedule.analysis import each_statement, reads, variables, writes
from tilegen.schedule.plan import HandOver, NextTile, Plan
from tilegen.schedule.registers import fragment_registers
from tilegen.schedule.residency import BARRIER_BYTES, OVERHEAD_REGISTERS
from tilegen.schedule.skew import find_skew

SHORT = 12  # iterations of a tile, on the average
READY = 3
"""Stages of the first gemm's tiles: one in use, one that the next iteration waits for, and the next tile's. With two,
its load starts too late: measured on the H200, the tensor cores then wait longer than they had waited before."""


def next_tile(kernel: Kernel, plan: Plan, decisions: Decisions) -> NextTile | None:
    """What is issued ahead of the next tile, as far as data and control flow allow it; None where they do not."""
    at = [position for position, s in enumerate(kernel.body) if isinstance(s, For) and s.kind == "pipelined"]
    if not plan.draws_tiles or plan.cluster_size > 1 or len(at) != 1:
        return None
    loop = kernel.body[at[0]]
    assert isinstance(loop, For)
    skew = find_skew(loop, decisions, plan)
    before, after = kernel.body[: at[0]], kernel.body[at[0] + 1 :]
    if skew is None or not _is_short(kernel, before, loop):
        return None
    if any(
        isinstance(s, Gemm) or (isinstance(s, For) and s.kind == "pipelined") for s in each_statement(after)
    ):
        return None
    begin = _fills(before, skew.first.a.buffer)
    own = [s for s in begin if not _is_load(s, plan)]
    if any(name in _tile_variables(kernel) for name in variables(tuple(own))):
        return None  # the text of a tile's beginning knows no tile
    filled = [buffer.name for s in begin for buffer in writes(s)]
    if own and not _has_room(kernel, plan, decisions):
        return None
    result = skew.first.c.buffer.name
    outside = tuple(s for s in (*before, *after) if not _among(s, begin))
    if _touch(outside, [*filled, result]) or _touch((*skew.early, *skew.late), filled):
        return None
    if _touch((skew.second,), [*filled, result]):
        return None
    if _touch((loop, *after), _shared(tuple(s for s in before if not _among(s, begin)))):
        return None  # who waits for a tile that is loaded once, or meets behind stores, does it among these alone
    return NextTile(loop, begin)


def _has_room(kernel: Kernel, plan: Plan, decisions: Decisions) -> bool:
    """Whether what begins a tile in registers can live beside the end of the tile before; else it is spilled."""
    wanted = fragment_registers(kernel, decisions) + 2 * OVERHEAD_REGISTERS
    return plan.registers is None or wanted <= plan.registers.consumer


def deepened(plan: Plan, found: NextTile, room: int) -> tuple[HandOver, ...]:
    """The hand-overs with READY stages of the first gemm's tiles, where the program leaves their number open and `room`
    bytes of shared memory suffice."""
    if found.loop.num_stages is not None:
        return plan.hand_overs
    first = [h for h in _read_first(plan.hand_overs, found) if h.loop is found.loop]
    missing = sum((READY - h.stages) * (h.bytes + 2 * BARRIER_BYTES) for h in first if h.stages < READY)
    if missing > room:
        return plan.hand_overs
    return tuple(
        replace(h, stages=READY) if any(h is one for one in first) and h.stages < READY else h
        for h in plan.hand_overs
    )


def ready(hand_overs: tuple[HandOver, ...], found: NextTile) -> bool:
    """Whether the next tile's operands can be there in time: READY stages of what the loop loads, and a second one of
    what the first gemm reads of a tile all along."""
    read = _read_first(hand_overs, found)
    return all(h.stages >= (2 if h.loop is None else READY) for h in read)


def _read_first(hand_overs: tuple[HandOver, ...], found: NextTile) -> list[HandOver]:
    """The hand-overs whose tiles the loop's first gemm reads."""
    gemm = next(s for s in found.loop.body if isinstance(s, Gemm))
    names = [buffer.name for buffer in reads(gemm)]
    return [h for h in hand_overs if any(name in h.buffers for name in names)]


def _fills(before: tuple[Stmt, ...], operand: Buffer) -> tuple[Stmt, ...]:
    """The statements that the operand's value comes from, in their order."""
    wanted, found = {operand.name: None}, list[Stmt]()
    for statement in reversed(before):
        if any(buffer.name in wanted for buffer in writes(statement)):
            found.insert(0, statement)
            wanted.update(dict.fromkeys(b.name for b in reads(statement) if b.scope != "global"))
    return tuple(found)


def _is_load(statement: Stmt, plan: Plan) -> bool:
    return isinstance(statement, Copy) and plan.hand_over_of(statement) is not None


def _tile_variables(kernel: Kernel) -> dict[str, None]:
    """Names whose values belong to one tile."""
    names = [var.name for var in kernel.block_vars]
    return dict.fromkeys([*names, *(s.var.name for s in kernel.body if isinstance(s, Let))])


def _among(statement: Stmt, statements: tuple[Stmt, ...]) -> bool:
    return any(statement is one for one in statements)


def _touch(statements: tuple[Stmt, ...], names: list[str]) -> bool:
    return any(buffer.name in names for s in each_statement(statements) for buffer in (*reads(s), *writes(s)))


def _shared(statements: tuple[Stmt, ...]) -> list[str]:
    """The shared tiles that statements touch."""
    touched = (buffer for s in each_statement(statements) for buffer in (*reads(s), *writes(s)))
    return [buffer.name for buffer in touched if buffer.scope == "shared"]


def _is_short(kernel: Kernel, before: tuple[Stmt, ...], loop: For) -> bool:
    """Whether the loop has an iteration in every tile, and few of them on the average."""
    ranges: dict[str, Range] = {
        var.name: (0, None if (high := interval(extent, {})[1]) is None else high - 1)
        for var, extent in zip(kernel.block_vars, kernel.grid, strict=True)
    }
    for statement in before:
        if isinstance(statement, Let) and not statement.mutable and statement.var.dtype.is_integer:
            ranges[statement.var.name] = interval(statement.value, ranges)
    earliest, latest = interval(loop.start, ranges)
    fewest, most = interval(loop.stop, ranges)
    if earliest is None or latest is None or fewest is None or most is None:
        return False
    return latest < fewest and fewest + most - earliest - latest <= 2 * SHORT
