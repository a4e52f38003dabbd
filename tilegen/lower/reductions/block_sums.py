"""Sums over blocks (T.sum_blocks): each block leaves its part in global memory and counts itself in; the block that
finds all others counted adds up the parts, in the order of the grid's axis, and goes on.

The order of memory: a barrier, then one thread's count, which releases what the block has written and acquires what
was released by those that counted before, then a barrier (PTX ISA, "Causality Order": base causality order goes through
barriers).
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir import build
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import AddParts, Buffer, Kernel, LeaveParts, Stmt
from tilegen.ir.types import uint32
from tilegen.ir.walk import each_statement
from tilegen.lower.pipelines.tiles import grid_extent
from tilegen.lower.reductions.accumulator_vectors import AccumulatorVectors, Place
from tilegen.lower.vocabulary.context import Context, constant_name
from tilegen.lower.vocabulary.dtypes import type_name
from tilegen.lower.vocabulary.scalar import extent_expression, scalar
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, StaticCast
from tilegen.model.kernel import Constant, SharedMember, TensorArgument
from tilegen.model.statements import AssignC, CStmt, Declare, Expression, ForC, IfC
from tilegen.schedule.add_partials import vector_elements
from tilegen.schedule.sums_at_once import PARTS_AHEAD, sums_at_once

COUNTS = "arrivals"
_ARRIVED = "arrived"
SUM_MEMBERS = (_ARRIVED,)
_GROUP = "share_group"
NAMES = (COUNTS, _GROUP)


def sums_of(kernel: Kernel) -> LeaveParts | None:
    """The kernel's sum over blocks."""
    return next((s for s in each_statement(kernel.body) if isinstance(s, LeaveParts)), None)


def lower_leave_parts(context: Context, statement: Stmt) -> list[CStmt]:
    """Stores the parts and counts the block in."""
    assert isinstance(statement, LeaveParts)
    kernel = context.program.kernel
    axis = [var.name for var in kernel.block_vars].index(statement.axis.name)
    blocks = _extent(context, kernel, axis)
    code: list[CStmt] = []
    if len(_others(kernel, axis)) > 1:
        comment = f"blocks that differ in {statement.axis.name} alone"
        code.append(Declare("int", _GROUP, _number(context, kernel, axis), const=True, comment=comment))
    block = scalar(context, statement.axis)
    for region in statement.sources:
        _keep(context, region.buffer, kernel, axis)
        own = f"{region.buffer.name}_own"
        vectors = AccumulatorVectors(context, region.buffer, _width(context, region.buffer))
        code += [
            _pointer(context, region.buffer, own, c.add(c.mul(_group(context, kernel, axis), blocks), block)),
            *vectors.each((vectors.leave(_place(context, vectors, own)),)),
        ]
    return [*code, *_count_in(context, statement, kernel, axis, blocks)]


def lower_add_parts(context: Context, statement: Stmt) -> list[CStmt]:
    """The last block's sums, vector by vector: the loads of all parts are under way at once."""
    assert isinstance(statement, AddParts)
    kernel = context.program.kernel
    axis = [var.name for var in kernel.block_vars].index(statement.axis.name)
    blocks, buffer = _extent(context, kernel, axis), statement.target.buffer
    first = f"{buffer.name}_first"
    vectors = AccumulatorVectors(context, buffer, _width(context, buffer))
    ahead = c.product(StaticCast("i64", Name("part"), functional=True), _elements(context, buffer))
    add = tuple(vectors.add(_place(context, vectors, first, ahead)))
    declared = _pointer(context, buffer, first, c.mul(_group(context, kernel, axis), blocks), const=True)
    most = sums_at_once(kernel, statement, context.plan, context.decisions, context.target)
    if most is not None:

        def parts(body: tuple[CStmt, ...], count: int) -> CStmt:
            said = f"loads of {count} sums run at once: registers have no room for more"
            return ForC("part", Literal(0), blocks, body, unroll=1, comment=said)

        return [declared, *vectors.each((vectors.zero(),)), *vectors.by_groups(most, add, parts)]
    extent = kernel.grid[axis]
    few = isinstance(extent, Const) and int(extent.value) <= PARTS_AHEAD + 1
    said = f"loads of {'all' if few else PARTS_AHEAD} parts run at once"
    loop = ForC("part", Literal(1), blocks, add, unroll=True if few else PARTS_AHEAD, comment=said)
    return [declared, *vectors.each((vectors.take(_place(context, vectors, first)), loop))]


def _count_in(
    context: Context, statement: LeaveParts, kernel: Kernel, axis: int, blocks: CExpr
) -> list[CStmt]:
    """The barriers and the count; a branch on `last` asks what it was."""
    groups = tuple(
        extent_expression(context, kernel.grid[other], named=False) for other in _others(kernel, axis)
    )
    context.scratch[COUNTS] = TensorArgument(
        COUNTS, uint32, groups or (Literal(1),), None, "scratch", uint32.bytes, rests=True
    )
    if all(member.name != _ARRIVED for member in context.members):
        context.members.append(
            SharedMember("int", _ARRIVED, (), 4, 4, "of the blocks that sum, before this one")
        )
    arrived, last = c.member("shared", _ARRIVED), c.sub(blocks, 1)
    context.environment[statement.last.name] = c.operation("==", arrived, last)
    context.primitive("count_in")
    counter = c.index(COUNTS, _group(context, kernel, axis))
    count = AssignC(arrived, c.call("count_in", counter, last), comment="back to 0 with the last")
    first = c.operation("==", context.threads.name(context.threads.whole.name), 0)
    done: list[CStmt] = []
    if context.target.language == "hip":  # where a wave's fence waits for its own stores
        comment = "the stores of every wave are there before one counts the block"
        done.append(Expression(c.call("__threadfence"), comment=comment))
    stored = context.synchronise("all threads have stored their part")
    context.all_meet()
    return [*done, stored, IfC(first, (count,)), context.synchronise()]


def _keep(context: Context, buffer: Buffer, kernel: Kernel, axis: int) -> None:
    """The memory that the parts of a fragment take, between launches' beginning and end."""
    fragment = context.decisions.fragment(buffer)
    name, width = _memory(buffer), _width(context, buffer)
    blocks = (*_others(kernel, axis), axis)
    extents = tuple(extent_expression(context, kernel.grid[other], named=False) for other in blocks)
    shape = (
        *extents,
        Literal(fragment.register_count // width),
        Literal(fragment.thread_count),
        Literal(width),
    )
    context.scratch[name] = TensorArgument(
        name, buffer.dtype, shape, None, "scratch", width * buffer.dtype.bytes
    )


def _memory(buffer: Buffer) -> str:
    return f"{buffer.name}_parts"


def _width(context: Context, buffer: Buffer) -> int:
    return vector_elements(context.decisions.fragment(buffer), buffer)


def _elements(context: Context, buffer: Buffer) -> CExpr:
    """The constant that says how many elements of a fragment a block holds."""
    fragment = context.decisions.fragment(buffer)
    value = c.product(Literal(fragment.register_count), context.computing_threads())
    constant = Constant("", value, comment=f"what a block leaves of {buffer.name}")
    wanted = base = constant_name(f"{buffer.name}_part_elements")
    count = 1
    while replace(context.constants.get(wanted, constant), name="") != constant:  # C_local and CLocal
        count += 1
        wanted = f"{base}{count}"
    context.constants[wanted] = replace(constant, name=wanted)
    return Name(wanted)


def _pointer(context: Context, buffer: Buffer, name: str, part: CExpr, const: bool = False) -> CStmt:
    """Declares where a thread's first vector of a part lies."""
    width = _width(context, buffer)
    thread = c.mul(width, context.threads.name(context.threads.whole.name))
    offset = c.product(StaticCast("i64", part, functional=True), _elements(context, buffer))
    if c.value_of(part) == 0:
        offset = Literal(0)
    value = c.add(Name(_memory(buffer)), offset, thread)
    type_of = type_name(buffer.dtype, context.target.language)
    return Declare(f"{type_of}*", name, value, const=const)


def _place(context: Context, vectors: AccumulatorVectors, base: str, ahead: CExpr | None = None) -> Place:
    """Where a thread's vectors lie from its first one on, `ahead` elements further: those of all threads side by
    side, vector after vector."""
    register = vectors.register()
    step = Literal(0) if c.value_of(register) == 0 else c.product(register, context.computing_threads())
    offset = step if ahead is None else c.add(ahead, step)
    return lambda vector: c.index(base, offset)


def _others(kernel: Kernel, axis: int) -> tuple[int, ...]:
    """The grid's other axes, the slowest first, without those of one block."""
    return tuple(
        other
        for other in reversed(range(len(kernel.grid)))
        if other != axis and kernel.grid[other] != build.const(1)
    )


def _number(context: Context, kernel: Kernel, axis: int) -> CExpr:
    """The number of a group of blocks that differ along an axis alone."""
    number: CExpr = Literal(0)
    for position, other in enumerate(_others(kernel, axis)):
        before = c.product(number, _extent(context, kernel, other)) if position else number
        number = c.add(before, scalar(context, kernel.block_vars[other]))
    return number


def _group(context: Context, kernel: Kernel, axis: int) -> CExpr:
    """What the text calls that number."""
    others = _others(kernel, axis)
    return Name(_GROUP) if len(others) > 1 else _number(context, kernel, axis)


def _extent(context: Context, kernel: Kernel, axis: int) -> CExpr:
    return grid_extent(context, kernel, axis, kernel.block_vars[axis].name)
