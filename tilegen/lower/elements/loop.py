"""Parallel loops, copies, fills and atomic tiles: loops over the registers of a partition, with vector accesses.

The innermost registers are walked a vector at a time where memory allows wide accesses: vectors are loaded first,
then elements are computed, then vectors are stored.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilegen.inference.exchange import store_loop
from tilegen.inference.fragment import Fragment
from tilegen.inference.loops import Loop, each_load
from tilegen.inference.propagate import partition_from_fragments
from tilegen.inference.vector_access import access_width
from tilegen.ir.expressions import Cast, Expr
from tilegen.ir.held_names import private_names
from tilegen.ir.nodes import Assign, AtomicElement, Buffer, Let, Store
from tilegen.ir.traversal import free_vars
from tilegen.ir.types import float32
from tilegen.lower.copies.matrix_store import matrix_store
from tilegen.lower.elements.access import ElementAccess
from tilegen.lower.elements.atomic import vector_atomic
from tilegen.lower.elements.body import lower_elements
from tilegen.lower.elements.guarded_loads import guard_loads
from tilegen.lower.elements.packed import packed_values
from tilegen.lower.elements.quad_store import quad_store
from tilegen.lower.elements.vector_copy import vector_copy
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.conversion import PAIRS
from tilegen.lower.vocabulary.element_names import element_names
from tilegen.lower.vocabulary.words import settled
from tilegen.model.expressions import Literal, Name
from tilegen.model.statements import CStmt, Declare, ForC, Scope
from tilegen.schedule.registers import ADDRESS_REGISTERS, fragment_registers, registers_of_thread
from tilegen.schedule.residency import LEAST_OVERHEAD

CROWDED_REGISTERS = 64  # of fragments: beyond them unrolled loads of single elements spill
FEW_STEPS = 2  # of a copy at once, where fragments leave least


def lower_loop(
    context: Context, loop: Loop, partition: Fragment | None = None, outer: str = ""
) -> list[CStmt]:
    """The code of a loop; its partition is the decided one unless another is given. `outer` names the variable of the
    caller's own loop over the partition's first register dimension."""
    if partition is None:
        partition = context.decisions.loops.get(loop.node) or partition_from_fragments(
            loop, context.decisions
        )
    assert partition is not None, "inference gives every loop a partition"
    out: list[CStmt] = []
    exchanges = context.decisions.exchanges.get(loop.node) or {}
    kept = context.decisions.kept.get(loop.node) or ()
    filled = {name: scratch for name, scratch in exchanges.items() if name not in kept}
    for name, scratch in filled.items():
        out += _fill_scratch(context, name, scratch)
    if filled:
        out.append(context.synchronise(settled([scratch.name for scratch in filled.values()])))
    for whole in () if exchanges or outer else (matrix_store, quad_store):
        code = whole(context, loop, partition)
        if code is not None:
            return code
    vector = vector_of(context, loop, partition)
    names = element_names(context, loop, partition, vector, outer)
    access = ElementAccess(context, loop, partition, names, exchanges)
    guard_loads(access)
    body = vector_copy(access) or lower_elements(access)
    nest = names.nest(body)
    limit = _unroll_limit(access)
    if limit is not None:
        why = "fragments leave registers for few loads at once"
        nest = [replace(code, unroll=limit, comment=why) if isinstance(code, ForC) else code for code in nest]
    declares = any(isinstance(statement, Declare) for statement in nest)
    return [*out, Scope(tuple(nest))] if declares else [*out, *nest]


def _unroll_limit(access: ElementAccess) -> int | None:
    """How many steps of a copy from memory to memory may run at once beside large fragments: each holds what it loads
    in registers. None: all of them."""
    context = access.context
    if any(access.in_registers(one.buffer) for one in access.loop.accesses):
        return None
    fragments = fragment_registers(context.program.kernel, context.decisions)
    loads = [one for one in access.loop.accesses if one.kind == "load"]
    if not fragments or not loads:
        return None
    walked = access.names.symbols[access.names.outer :]
    turns = [symbol.extent // symbol.vector for symbol in walked if isinstance(symbol.coarse, Name)]
    step = prod(turns[1:]) * sum(_held(access.width(one) * one.buffer.dtype.bits) for one in loads)
    left = registers_of_thread(context.plan, context.target) - fragments
    fits = not turns or turns[0] * step <= left - LEAST_OVERHEAD  # blocks that share registers leave few
    if fragments < CROWDED_REGISTERS and fits:
        return None
    if any(access.memory(one.buffer).scope == "global" and access.width(one) == 1 for one in loads):
        return 1
    if fragments >= 2 * CROWDED_REGISTERS:
        return FEW_STEPS
    room = left - ADDRESS_REGISTERS
    if not turns or turns[0] * step <= room:
        return None
    return max(FEW_STEPS, 1 << max(room // step, 1).bit_length() - 1)


def _held(bits: int) -> int:
    """32-bit registers for a vector on its way, and for its address."""
    return -(-bits // 32) + 2


def _fill_scratch(context: Context, name: str, scratch: Buffer) -> list[CStmt]:
    """The threads that hold a fragment store it where others can read it."""
    if all(member.name != scratch.name for member in context.members):
        context.members.append(shared_tiles.buffer_member(context, scratch, (1, Literal(1))))
    source = Buffer(name, scratch.shape, scratch.dtype, "fragment")
    return lower_loop(context, store_loop(source, scratch), context.decisions.fragments[name])


def vector_of(context: Context, loop: Loop, partition: Fragment) -> int:
    """How many registers a step of the innermost loop takes: the widest access to memory, 2 where floats are converted
    in pairs, 1 in bodies with control flow."""
    if not is_straight(loop):
        return 1
    known, shared = context.decisions.divisors, context.decisions.shared
    widths = []
    for access in loop.accesses:
        if access.buffer.scope not in ("global", "shared"):
            continue
        found = access_width(access, loop.names, partition, known, shared.get(access.buffer.name))
        width = found[1] if found else 1
        if access.kind == "atomic":
            atomic = vector_atomic(context.target, "add", access.buffer, width)
            width = atomic.elements if atomic else 1
        widths.append(width)
    innermost = partition.register_shape[-1]
    widest = max(widths, default=1)
    if widest == 1 and innermost % 2 == 0 and _comes_in_pairs(loop, context.target.language):
        return 2
    return widest


def is_straight(loop: Loop) -> bool:
    """Whether the body is stores, named values and variables of its own alone, no element lies where such a variable
    says, and nothing is loaded from memory, or from an array of each thread's own, that it stored to before."""
    stored: list[str] = []
    made = private_names(loop.body)
    if any(name in made for access in loop.accesses for index in access.indices for name in free_vars(index)):
        return False
    own = [statement.var for statement in loop.body if isinstance(statement, Let)]
    for statement in loop.body:
        match statement:
            case Store(buffer, indices, value) | AtomicElement(_, buffer, indices, value):
                needed: tuple[Expr, ...] = (value, *indices)
                written = [buffer.name] if buffer.scope != "fragment" else []
            case Let(_, value):
                needed, written = (value,), []
            case Assign(var, value) if var in own:
                needed, written = (value,), []
            case _:
                return False
        if any(load.buffer.name in stored for expr in needed for load in each_load(expr)):
            return False
        stored += written
    return True


def _comes_in_pairs(loop: Loop, language: str) -> bool:
    """Whether elements are computed two at a time: 4-bit integers unpacked, or float32 values rounded to 16 bits, which
    CUDA does in pairs."""
    if packed_values(loop.body, language) is not None:
        return True
    return language == "cuda" and any(
        isinstance(statement, Store)
        and isinstance(statement.value, Cast)
        and statement.value.operand.dtype == float32
        and statement.value.dtype.name in PAIRS
        for statement in loop.body
    )
