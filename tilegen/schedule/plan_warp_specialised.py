"""Hopper's schedule: one warpgroup loads through the TMA unit, the others compute.

A full barrier a stage tells that bytes have arrived, an empty one that every consumer has let go of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tilegen.inference.decisions import Decisions
from tilegen.ir.expressions import Var
from tilegen.ir.nodes import (
    Assign,
    Buffer,
    Copy,
    For,
    Gemm,
    If,
    Kernel,
    Let,
    Persistent,
    Program,
    Stmt,
)
from tilegen.schedule.across_tiles import deepened, next_tile, ready
from tilegen.schedule.analysis import (
    each_statement,
    loaded,
    reads,
    variables,
    wanted_stages,
    writes,
    written_tensors,
)
from tilegen.schedule.clusters import multicasts
from tilegen.schedule.overlays import Overlay, overlays
from tilegen.schedule.plan import HandOver, Plan
from tilegen.schedule.rasterise import default_rasterisation
from tilegen.schedule.residency import (
    BARRIER_BYTES,
    SHARED_ALIGNMENT,
    is_persistent,
    loaded_ahead,
    registers_of,
    residency,
    room,
    rounded,
    takes_turns,
)
from tilegen.schedule.ring_room import require_shared, shared_bytes
from tilegen.schedule.run_ahead import bound_to_order
from tilegen.schedule.tma import bytes_of_stage, copy_problem
from tilegen.schedule.tma_staging import stage_by_tma
from tilegen.schedule.uneven import longest_first
from tilegen.target import Target


@dataclass(frozen=True, slots=True)
class _Found:
    copy: Copy
    loop: For | None  # the pipelined loop around it
    block: tuple[Stmt, ...]  # the statements among which it stands


def plan_warp_specialised(program: Program, target: Target, decisions: Decisions) -> Plan | str:
    """The plan, or why the kernel cannot run so ("" when there is nothing to say)."""
    if not (target.has("tma") and target.has("mbarrier") and target.has("setmaxnreg")):
        return ""
    kernel = program.kernel
    warpgroup = target.limits.warpgroup_size
    if kernel.threads % warpgroup:
        return f"no producer: {kernel.threads} threads are not whole warpgroups of {warpgroup}"
    found, problems, left = _producer_copies(kernel, decisions, target)
    if not any(entry.loop is not None for entry in found):
        return next(iter([*problems, *left.values()]), "")
    if problems:
        return problems[0]
    if kernel.threads + warpgroup > target.limits.threads_per_block:
        return (
            f"{kernel.threads} threads leave no room for a producer among {target.limits.threads_per_block}"
        )
    hand_overs, laid, reasons = _fitting_hand_overs(kernel, found, decisions, target)
    reasons += [f"{problem}: the consumers load it" for problem in left.values()] + _loaded_late(kernel)
    consumers = kernel.threads // warpgroup
    plan = Plan(
        kind="warp_specialised",
        threads=kernel.threads + warpgroup,
        computing=kernel.threads,
        consumers=consumers,
        persistent=False,
        blocks_per_multiprocessor=1,
        cluster=kernel.cluster,
        rasterisation=kernel.rasterisation or default_rasterisation(kernel, target),
        hand_overs=hand_overs,
        overlays=laid,
        reasons=reasons,
    )
    for entry in found:
        plan.tma[entry.copy] = True
    plan.multicasts = multicasts(kernel, tuple(entry.copy for entry in found), decisions)
    used = shared_bytes(kernel, hand_overs, decisions) - sum(decisions.shared[o.buffer].bytes for o in laid)
    require_shared(kernel, target, used, hand_overs)
    used += stage_by_tma(program, plan, decisions, target, used)
    plan.blocks_per_multiprocessor = residency(kernel, plan, decisions, target, used)
    if plan.cluster_size == 1:
        plan.longest_first = longest_first(kernel, target)
    plan.persistent = is_persistent(kernel, plan)
    plan.registers = registers_of(kernel, plan, decisions, target)
    plan.draws_tiles = plan.persistent and plan.longest_first is not None
    if plan.persistent:
        _run_ahead(kernel, plan, decisions, target, used)
    plan.turns = takes_turns(kernel, plan, decisions)
    return plan


def _run_ahead(kernel: Kernel, plan: Plan, decisions: Decisions, target: Target, used: int) -> None:
    """What of the next tile begins while this one ends: its loads, and where it pays its first gemm."""
    plan.hand_overs = loaded_ahead(kernel, plan, target, used)
    found = next_tile(kernel, plan, decisions)
    if found is None:
        return
    used += sum((h.stages - 1) * (h.bytes + 2 * BARRIER_BYTES) for h in plan.hand_overs if h.loop is None)
    deeper = deepened(plan, found, room(plan, target, used))
    if ready(deeper, found):
        plan.hand_overs, plan.next_tile = deeper, found


# ------------------------------------------------------------------------------------------- loads


def _producer_copies(
    kernel: Kernel, decisions: Decisions, target: Target
) -> tuple[list[_Found], list[str], dict[str, str]]:
    """Copies from global to shared memory that the producer can do, why it cannot do others of pipelined loops, and
    why it cannot do those outside, which leaves them to the consumers."""
    written = written_tensors(kernel)
    search = _Search(kernel, decisions, target, written, _computed(kernel, written))
    search.walk(kernel.body, None, "")
    loads = Counter(entry.copy.target.buffer.name for entry in search.found)
    for name, count in loads.items():
        writers = [s for s in each_statement(kernel.body) if any(b.name == name for b in _own_writes(s))]
        if len(writers) != count or count > 1:
            search.problems.append(f"{name} is written by more than one statement")
    return search.found, search.problems, search.left


@dataclass(slots=True)
class _Search:
    """The copies that the producer can do, and what is against others. `computed` tells of expressions whether they
    need what the consumers compute."""

    kernel: Kernel
    decisions: Decisions
    target: Target
    written: set[str]
    computed: Callable[[object], bool]
    found: list[_Found] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)  # by the tile's name

    def walk(self, statements: tuple[Stmt, ...], loop: For | None, inner: str, ahead: bool = False) -> None:
        """`inner` says what stands around the statements, inside of the kernel's body or of the pipelined `loop`;
        `ahead` whether a pipelined loop does, whose loads are to run ahead."""
        for statement in statements:
            match statement:
                case Copy(source, sink) if source.buffer.scope == "global" and sink.buffer.scope == "shared":
                    problem = self._problem(statement, statements, loop, inner)
                    said = f"{statement.location.place}: no TMA load, {problem}"
                    if problem and ahead:
                        self.problems.append(said)
                    elif problem:
                        self.left[sink.buffer.name] = said
                    else:
                        self.found.append(_Found(statement, loop, statements))
                case For():
                    ahead_of_it = ahead or statement.kind == "pipelined"
                    needed = ahead_of_it and _copies(statement)
                    if needed and self.computed((statement.start, statement.stop)):
                        self.problems.append(
                            f"{statement.location.place}: the consumers compute how often tiles are loaded"
                        )
                    outermost = statement.kind == "pipelined" and loop is None and not inner
                    around = "" if outermost else "a loop that is not pipelined"
                    self.walk(statement.body, statement if outermost else loop, around, ahead_of_it)
                case Persistent():
                    self.walk(statement.body, loop, inner, ahead)
                case If() if _is_late(statement) and not _pipelines(statement):
                    pass  # the consumers load what one block of several needs
                case If() if _copies(statement):
                    if (ahead or _pipelines(statement)) and self.computed(statement.condition):
                        self.problems.append(
                            f"{statement.location.place}: the consumers compute whether a tile is loaded"
                        )
                    branch = "what only the last block of several does" if _is_late(statement) else "a branch"
                    self.walk(statement.then, loop, branch, ahead)
                    self.walk(statement.otherwise, loop, branch, ahead)
                case _:
                    pass

    def _problem(self, copy: Copy, block: tuple[Stmt, ...], loop: For | None, inner: str) -> str | None:
        """Why the producer cannot do a copy that stands in a block."""
        source, buffer = copy.source, copy.target.buffer
        if self.computed(source.offsets):
            return "its position is computed by the consumers"
        if inner and loop is None:
            return f"it stands in {inner}"
        if source.buffer.name in self.written:
            return f"{source.buffer.name} is written by the kernel"
        problem = copy_problem(source, copy.target, self.decisions, self.target)
        if not problem and loop is not None:
            problem = bound_to_order(loop, copy, self.kernel)
        if not problem and inner and _read_outside(self.kernel, block, buffer):
            problem = f"{buffer.name} is read outside of the statement that it is loaded in"
        return problem or None


def _loaded_late(kernel: Kernel) -> list[str]:
    """What the header says of tiles that the consumers load."""
    branches = [s for s in each_statement(kernel.body) if isinstance(s, If) and _is_late(s)]
    late = [s for s in each_statement(tuple(branches)) if isinstance(s, Copy) and _is_load(s)]
    return [
        f"{copy.location.place}: {copy.target.buffer.name} is loaded by the consumers, as the last block of several "
        "alone needs it"
        for copy in late
    ]


def _copies(statement: Stmt) -> bool:
    return any(isinstance(s, Copy) for s in each_statement((statement,)))


def _is_late(statement: If) -> bool:
    """Whether a branch is what stands behind T.sum_blocks."""
    return isinstance(statement.condition, Var) and statement.condition.role == "last"


def _pipelines(statement: Stmt) -> bool:
    """Whether a pipelined loop in a statement loads tiles."""
    return any(
        isinstance(s, For) and s.kind == "pipelined" and _copies(s) for s in each_statement((statement,))
    )


def _computed(kernel: Kernel, written: set[str]) -> Callable[[object], bool]:
    """What tells of an expression (or several) whether it needs what the consumers assign, keep or write. A name for an
    element of a tensor that the kernel only reads is none of that: the producer reads it as well."""
    names = {s.var.name for s in each_statement(kernel.body) if isinstance(s, Assign)}

    def assigned(node: object) -> bool:
        return any(name in names for name in variables(node))

    for statement in each_statement(kernel.body):
        if isinstance(statement, Let) and (
            assigned(statement.value)
            or any(buffer.scope != "global" or buffer.name in written for buffer in loaded(statement.value))
        ):
            names.add(statement.var.name)
    return lambda node: bool(loaded(node)) or assigned(node)


def _read_outside(kernel: Kernel, block: tuple[Stmt, ...], buffer: Buffer) -> bool:
    """Whether a statement that is not part of a block reads a buffer."""
    inside = list(each_statement(block))
    return any(
        buffer in reads(s) and not any(s is other for other in inside)
        for s in each_statement(kernel.body)
        if not isinstance(s, For | If | Persistent)
    )


def _own_writes(statement: Stmt) -> tuple[Buffer, ...]:
    return () if isinstance(statement, For | If | Persistent) else writes(statement)


def _fitting_hand_overs(
    kernel: Kernel, found: list[_Found], decisions: Decisions, target: Target
) -> tuple[tuple[HandOver, ...], tuple[Overlay, ...], list[str]]:
    """The hand-overs and the tiles that lie over their rings; one stage for loops that leave the number open where more
    do not fit, and why so."""
    hand_overs = _hand_overs(kernel, found, decisions, target)
    limit = target.limits.shared_bytes_per_block

    def laid(chosen: tuple[HandOver, ...]) -> tuple[Overlay, ...]:
        stages = {
            name: (h.loop.var.name if h.loop is not None else "", h.stages)
            for h in chosen
            for name in h.buffers
        }
        room = limit // SHARED_ALIGNMENT * SHARED_ALIGNMENT
        return overlays(kernel, stages, decisions, shared_bytes(kernel, chosen, decisions) - room)

    if rounded(shared_bytes(kernel, hand_overs, decisions)) <= limit or laid(hand_overs):
        return hand_overs, laid(hand_overs), []
    open_loops = {h.loop.var.name: None for h in hand_overs if h.loop and h.loop.num_stages is None}
    reasons = [f"loop {name}: one stage, two do not fit in shared memory" for name in open_loops]
    single = tuple(replace(h, stages=1) if h.loop and h.loop.num_stages is None else h for h in hand_overs)
    return single, laid(single), reasons


def _hand_overs(
    kernel: Kernel, found: list[_Found], decisions: Decisions, target: Target
) -> tuple[HandOver, ...]:
    """Copies of one body that share their first consumer become one hand-over."""
    groups: list[tuple[_Found, Stmt | None, list[Copy]]] = []
    for entry in found:
        first = _first_reader(kernel, entry)
        for other, reader, copies in groups:
            if other.block is entry.block and reader is first:
                copies.append(entry.copy)
                break
        else:
            groups.append((entry, first, [entry.copy]))
    hand_overs = []
    named: dict[str, None] = {}
    for entry, _, copies in groups:
        loop = entry.loop
        buffers = tuple(copy.target.buffer.name for copy in copies)
        stages = wanted_stages(loop) if loop is not None else 1
        size = sum(bytes_of_stage(decisions.shared[name], target) for name in buffers)
        name = "" if len(groups) == 1 else _free_name(buffers[0].removesuffix("_shared").rstrip("_"), named)
        by_warps = loop is not None and _read_by_threads(loop, buffers, decisions)
        hand_overs.append(HandOver(name, loop, tuple(copies), buffers, stages, size, by_warps))
    return tuple(hand_overs)


def _free_name(wanted: str, taken: dict[str, None]) -> str:
    """A name whose letters and digits are those of no other, so that constants can be called after it."""
    name, count = wanted, 1
    while (key := name.replace("_", "").lower()) in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken[key] = None
    return name


def _first_reader(kernel: Kernel, entry: _Found) -> Stmt | None:
    """The statement that first reads what a copy loads. Copies to registers in a row count as one statement, the first:
    their tiles are waited for together."""
    body = entry.loop.body if entry.loop is not None else kernel.body
    name = entry.copy.target.buffer.name
    run: Stmt | None = None
    for statement in each_statement(body):
        if isinstance(statement, For | If | Persistent) or _is_load(statement):
            continue
        run = (run or statement) if _reads_to_registers(statement) else None
        if any(buffer.name == name for buffer in reads(statement)):
            return run or statement
    return None


def _is_load(statement: Stmt) -> bool:
    return (
        isinstance(statement, Copy)
        and statement.source.buffer.scope == "global"
        and statement.target.buffer.scope == "shared"
    )


def _reads_to_registers(statement: Stmt) -> bool:
    return (
        isinstance(statement, Copy)
        and statement.source.buffer.scope == "shared"
        and statement.target.buffer.scope == "fragment"
    )


def _read_by_threads(loop: For, buffers: tuple[str, ...], decisions: Decisions) -> bool:
    """Whether threads, not tensor cores, are the last to read tiles of a loop."""
    readers = [s for s in loop.body if any(buffer.name in buffers for buffer in reads(s))]
    last = readers[-1] if readers else None
    return last is not None and not (isinstance(last, Gemm) and decisions.gemms[last].family == "wgmma")
