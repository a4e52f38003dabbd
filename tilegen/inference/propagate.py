"""Carries layouts from the fragments that have one to those that are connected with them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.inference.access import accessed_fragment
from tilegen.inference.custom import through_operation
from tilegen.inference.decisions import Decisions
from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.index_math import coefficient, mentions
from tilegen.inference.loops import Access, Loop
from tilegen.inference.operations import OperationCall
from tilegen.ir.expressions import Var
from tilegen.ir.nodes import Reduce


@dataclass(slots=True)
class Connections:
    """The statements through which layouts travel, in program order."""

    loops: list[Loop]
    reductions: list[Reduce]
    operations: list[OperationCall] = field(default_factory=list)


def propagate(connections: Connections, decisions: Decisions) -> None:
    """Runs to a fixed point: loops take the partition of a fragment that they write, else read, over all their
    variables; fragments take the layout that the loops around their accesses need; a reduction's result takes its
    source's layout without the reduced axis; registered operations offer what they need beside what is known."""
    changed = True
    while changed:
        changed = False
        for reduction in connections.reductions:
            changed |= _through_reduction(reduction, decisions)
        for call in connections.operations:
            changed |= through_operation(call, decisions)
        for loop in connections.loops:
            if loop.node not in decisions.loops:
                partition = partition_from_fragments(loop, decisions)
                if partition is None:
                    continue
                decisions.loops[loop.node] = partition
                changed = True
            changed |= _through_loop(loop, decisions)


def _through_reduction(reduction: Reduce, decisions: Decisions) -> bool:
    source = decisions.fragments.get(reduction.source.buffer.name)
    target = reduction.target.buffer
    if source is None or target.scope != "fragment" or target.name in decisions.fragments:
        return False
    decisions.fragments[target.name] = reduced(source, reduction)
    decisions.reasons[target.name] = f"{reduction.source.buffer.name} without the reduced axis"
    return True


def reduced(source: Fragment, reduction: Reduce) -> Fragment:
    """The layout of a reduction's result: the source's without the reduced axis (kept where the target keeps it with
    extent 1)."""
    axis = reduction.axis
    axes = tuple(a for a in range(source.rank) if a != axis)
    tile = reduction.target.buffer.extents
    if len(tile) == len(axes):
        return source.project(axes, tile)
    without = source.project(axes, tuple(source.tile[a] for a in axes))
    assert len(tile) == source.rank, "the verifier compares the ranks of a reduction"
    return with_axis(without, axis, tile)


def with_axis(fragment: Fragment, axis: int, tile: tuple[int, ...]) -> Fragment:
    """The fragment with one more axis, of extent 1, at `axis`."""

    def widened(mode: Mode) -> Mode:
        return Mode(mode.extent, (*mode.steps[:axis], 0, *mode.steps[axis:]))

    return Fragment(
        tile,
        tuple(map(widened, fragment.threads)),
        tuple(tuple(map(widened, modes)) for modes in fragment.registers),
    )


def partition_from_fragments(loop: Loop, decisions: Decisions) -> Fragment | None:
    """The partition of the first fragment that the loop writes, else reads, by all its variables."""
    writes = [access for access in loop.accesses if access.kind != "load"]
    reads = [access for access in loop.accesses if access.kind == "load"]
    for access in (*writes, *reads):
        if access.buffer.scope == "fragment":
            fragment = decisions.fragments.get(access.buffer.name)
            partition = fragment and _partition_of(loop, access, fragment)
            if partition is not None:
                return partition
    return None


def _partition_of(loop: Loop, access: Access, fragment: Fragment) -> Fragment | None:
    """The loop's partition under which `access` finds its element in the thread's own registers in the same order;
    None unless the indices are the loop's variables, each once, from the start of a window on that is made of whole
    register digits (or one position on axes that the loop does not walk, if threads do not divide them)."""
    position: dict[str, int] = {}
    for axis, index in enumerate(access.indices):
        walked = [name for name in loop.names if coefficient(index, name) == 1]
        mentioned = [name for name in loop.names if mentions(index, name)]
        if walked != mentioned or len(walked) > 1 or any(name in position for name in walked):
            return None
        extent = loop.extents[loop.names.index(walked[0])] if walked else 1
        if walked and extent == fragment.tile[axis] and isinstance(index, Var):
            position[walked[0]] = axis
            continue
        windowed = _window(fragment, axis, extent)
        if windowed is None:
            return None
        fragment = windowed
        if walked:
            position[walked[0]] = axis
    if any(
        name not in position and extent > 1 for name, extent in zip(loop.names, loop.extents, strict=True)
    ):
        return None

    def seen(mode: Mode) -> Mode:
        return Mode(mode.extent, tuple(mode.steps[position[n]] if n in position else 0 for n in loop.names))

    return Fragment(
        loop.extents,
        tuple(map(seen, fragment.threads)),
        tuple(tuple(map(seen, modes)) for modes in fragment.registers),
    )


def _window(fragment: Fragment, axis: int, extent: int) -> Fragment | None:
    """The registers that hold one window of `extent` positions along an axis: those that step from window to window
    are left out. None where a window ends inside a thread's or a register's step, or threads step across windows."""
    if fragment.tile[axis] % extent:
        return None
    if any(mode.steps[axis] and mode.steps[axis] * mode.extent > extent for mode in fragment.threads):
        return None
    registers = []
    for modes in fragment.registers:
        kept: list[Mode] = []
        for mode in modes:
            step = mode.steps[axis]
            if step * mode.extent <= extent:
                kept.append(mode)
            elif step < extent:
                if extent % step or mode.extent % (extent // step):
                    return None
                kept.append(Mode(extent // step, mode.steps))
        if kept:
            registers.append(tuple(kept))
    tile = tuple(extent if a == axis else size for a, size in enumerate(fragment.tile))
    still = (Mode(1, (0,) * fragment.rank),)
    return Fragment(tile, fragment.threads, tuple(registers) or (still,))


def _through_loop(loop: Loop, decisions: Decisions) -> bool:
    partition = decisions.loops[loop.node]
    changed = False
    ordered = sorted(loop.accesses, key=lambda access: access.kind == "load")
    for access in ordered:
        buffer = access.buffer
        if buffer.scope != "fragment" or buffer.name in decisions.fragments:
            continue
        fragment = _simple_projection(loop, partition, access) or accessed_fragment(
            partition, loop.names, buffer.extents, access.indices
        )
        if fragment is not None:
            decisions.fragments[buffer.name] = fragment
            decisions.reasons.setdefault(buffer.name, f"the partition of the loop at {loop.node.location}")
            changed = True
    return changed


def _simple_projection(loop: Loop, partition: Fragment, access: Access) -> Fragment | None:
    """The layout for an access by distinct loop variables that reach the whole tile."""
    axes = []
    for axis, index in enumerate(access.indices):
        if not isinstance(index, Var) or index.name not in loop.names:
            return None
        axes.append(loop.names.index(index.name))
        if loop.extents[axes[-1]] < access.buffer.extents[axis]:
            return None
    if len(set(axes)) < len(axes):
        return None
    return partition.project(tuple(axes), access.buffer.extents)
