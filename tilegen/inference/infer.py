"""Inference: which atom computes each gemm, which thread holds each element, where each shared element lies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import gcd, lcm, prod

from tilegen.diagnostics import ProgramError
from tilegen.inference.custom import check_offers, custom_calls, take_demands
from tilegen.inference.decisions import Decisions
from tilegen.inference.exchange import counts_from_zero, exchange_uses, find_exchanges, result_uses
from tilegen.inference.gemm_families import decide_gemms
from tilegen.inference.index_math import mentions
from tilegen.inference.loops import Loop, as_loop
from tilegen.inference.partition import choose_partition, spread
from tilegen.inference.propagate import Connections, propagate
from tilegen.inference.reduction import reduction_scratch
from tilegen.inference.shared import SharedLayout
from tilegen.inference.shared_choice import buffer_conflicts, choose_layout
from tilegen.inference.vector_access import ACCESS_BYTES
from tilegen.ir.affine import divisor_of
from tilegen.ir.expressions import Binary, Const, Load, Var
from tilegen.ir.nodes import Copy, For, Gemm, Let, ParallelFor, Program, Reduce, Region, Stmt, Store
from tilegen.ir.walk import each_node, each_statement
from tilegen.target import Target


def infer(
    program: Program,
    target: Target,
    *,
    divisors: Mapping[str, int] | None = None,
    whole: Collection[str] = (),
) -> Decisions:
    """All layouts of a program on a target, strictest demands first.

    `divisors` says what the launcher checks of dynamic extents, by name: vector accesses rely on it. By default rows
    of tensors are taken to be whole 16-byte units, which the launcher then requires of those that are accessed so.
    `whole` names accumulators of which warps are not to hold parts of sums, if they can share rows and columns.

    Raises:
        ProgramError: when no atom fits a gemm, or demands clash and no exchange can settle it.
    """
    kernel = program.kernel
    decisions = Decisions()
    decisions.divisors = _known_divisors(program, _row_divisors(program) if divisors is None else divisors)
    statements = list(_outside_loops(kernel.body))
    decisions.counters = _register_counters(program)
    _take_annotations(program, decisions)
    gemms = [statement for statement in statements if isinstance(statement, Gemm)]
    if gemms:
        decide_gemms(gemms, kernel.threads, target, decisions, whole)
    calls = custom_calls(statements, kernel.threads, target)
    take_demands(calls, decisions)
    loops = [loop for loop in map(as_loop, statements) if loop is not None]
    connections = Connections(loops, [s for s in statements if isinstance(s, Reduce)], calls)
    propagate(connections, decisions)
    for loop in sorted(loops, key=_priority):
        if loop.node in decisions.loops:
            continue
        decisions.loops[loop.node] = choose_partition(
            loop, kernel.threads, target, decisions.divisors, decisions.shared
        )
        propagate(connections, decisions)
    for buffer in kernel.allocations:
        if buffer.scope == "fragment" and buffer.name not in decisions.fragments:
            decisions.fragments[buffer.name] = spread(buffer.extents, kernel.threads, target)
            decisions.reasons[buffer.name] = "nothing else decides it"
            propagate(connections, decisions)
    check_offers(calls, decisions)
    find_exchanges(connections, decisions)
    reduction_scratch(connections.reductions, decisions, target)
    _choose_shared(program, connections, decisions, target)
    return decisions


def _outside_loops(statements: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement that the whole block runs together: those inside parallel loops belong to their loop."""
    inner = {
        id(child)
        for statement in each_statement(statements)
        if isinstance(statement, ParallelFor)
        for child in each_statement(statement.body)
    }
    return (statement for statement in each_statement(statements) if id(statement) not in inner)


def _row_divisors(program: Program) -> dict[str, int]:
    """What must divide the dynamic extents of rows so that they are whole 16-byte units."""
    known: dict[str, int] = {}
    for tensor in program.tensors:
        last = tensor.shape[-1]
        if tensor.rank > 1 and tensor.strides is None and isinstance(last, Var) and tensor.dtype.bits >= 8:
            known[last.name] = lcm(known.get(last.name, 1), max(1, ACCESS_BYTES // tensor.dtype.bytes))
    return known


def _known_divisors(program: Program, given: Mapping[str, int]) -> dict[str, int]:
    """Divisors of the program's variables: those that are given or assumed, and what follows for lets and loop
    variables."""
    known = dict(given)
    for assumption in program.assumptions:
        match assumption.condition:
            case Binary("==", Binary("%", Var(name), Const(divisor)), Const(0)):
                known[name] = lcm(known.get(name, 1), int(divisor))
    for statement in each_statement(program.kernel.body):
        match statement:
            case Let(var, value, mutable) if not mutable and value.dtype.is_integer:
                known[var.name] = divisor_of(value, known)
            case For(var, start, _, step):
                known[var.name] = gcd(divisor_of(start, known), divisor_of(step, known))
            case _:
                pass
    return known


def _register_counters(program: Program) -> dict[str, int]:
    """Variables of constant loops that occur in indices of fragments, with their extents."""
    found: dict[str, int] = {}
    for loop in each_statement(program.kernel.body):
        if not isinstance(loop, For) or not isinstance(loop.stop, Const) or not counts_from_zero(loop):
            continue
        indices = [
            index
            for node in each_node(loop.body)
            if isinstance(node, Load | Store) and node.buffer.scope == "fragment"
            for index in node.indices
        ]
        indices += [
            offset
            for node in each_node(loop.body)
            if isinstance(node, Region) and node.buffer.scope == "fragment"
            for offset in node.offsets
        ]
        if any(mentions(index, loop.var.name) for index in indices):
            found[loop.var.name] = int(loop.stop.value)
    return found


def _take_annotations(program: Program, decisions: Decisions) -> None:
    for annotation in program.kernel.annotations:
        name = annotation.buffer.name
        if not isinstance(annotation.layout, SharedLayout):
            raise ProgramError(
                annotation.location,
                f"{name} cannot have the layout {annotation.layout}: shared tiles are row-major, swizzled or padded",
                remedy="make it by row_major or swizzled of tilegen.operations, or leave the choice to inference",
            )
        wanted = annotation.buffer.extents, annotation.buffer.dtype
        if (annotation.layout.shape, annotation.layout.dtype) != wanted:
            raise ProgramError(
                annotation.location,
                f"{name} is {list(wanted[0])} of {wanted[1]}, but its layout is for "
                f"{list(annotation.layout.shape)} of {annotation.layout.dtype}",
                remedy="make the layout for the tile's shape and dtype",
                related=[(annotation.buffer.location, f"{name} is made here")],
            )
        decisions.shared[name] = annotation.layout
        decisions.reasons[name] = f"annotated at {annotation.location}"


def _priority(loop: Loop) -> tuple[int, int]:
    """Loops that touch global memory decide first, large ones before small ones."""
    touches_global = any(access.buffer.scope == "global" for access in loop.accesses)
    return (not touches_global, -prod(loop.extents))


def _choose_shared(program: Program, connections: Connections, decisions: Decisions, target: Target) -> None:
    partitioned = [(loop, decisions.loops[loop.node]) for loop in connections.loops]
    operands = {region.buffer.name for gemm, _ in decisions.gemms.items() for region in (gemm.a, gemm.b)}
    loaded = {
        copy.target.buffer.name
        for pipeline in each_statement(program.kernel.body)
        if isinstance(pipeline, For) and pipeline.kind == "pipelined"
        for copy in pipeline.body
        if isinstance(copy, Copy) and copy.source.buffer.scope == "global"
    }
    for buffer in (*program.kernel.allocations, *decisions.scratch):
        if buffer.scope != "shared" or buffer.name in decisions.conflicts:
            continue
        uses = [*partitioned, *exchange_uses(buffer, partitioned, decisions)]
        uses += result_uses(buffer, connections.reductions, decisions)
        known = decisions.shared.get(buffer.name)
        if buffer.name in operands:  # its copies belong to the pipeline, which loads it its own way
            uses = [use for use in uses if not isinstance(use[0].node, Copy)]
        if known is None:
            choice = choose_layout(buffer, uses, decisions.divisors, target, buffer.name in loaded)
            decisions.shared[buffer.name] = choice.layout
            decisions.conflicts[buffer.name] = choice.conflicts
            plural = "layouts" if choice.tried > 1 else "layout"
            decisions.reasons[buffer.name] = (
                f"{choice.conflicts} bank conflicts; {choice.tried} {plural} tried"
            )
        else:
            decisions.conflicts[buffer.name] = buffer_conflicts(
                buffer, known, uses, decisions.divisors, target
            )
