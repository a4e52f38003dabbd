"""Accumulators of mma.sync to global memory in 16 bytes a lane.

A lane holds 2 neighbouring columns of each atom. The 4 lanes of a row exchange them, so that each holds the 8 columns
of one atom: stores fill whole sectors of memory, and there are a quarter as many.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.loops import Access, Loop
from tilegen.inference.vector_access import aligned_elements, contiguous_axis
from tilegen.ir.nodes import Buffer, Store
from tilegen.lower.elements.access import ElementAccess
from tilegen.lower.vocabulary.addresses import as_vector
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.conversion import PAIRS, stored_element
from tilegen.lower.vocabulary.element_names import element_names
from tilegen.model import build as c
from tilegen.model.expressions import Literal, Name, Reinterpret
from tilegen.model.statements import AssignC, CStmt, Declare, Expression, ForC, IfC

LANES = (Mode(4, (0, 2)), Mode(8, (1, 0)))  # of an atom of 16 x 8: pairs along a row, then rows
VALUES = (Mode(2, (0, 1)), Mode(2, (8, 0)))  # registers of an atom: the pair, and the one 8 rows below
QUAD = 4  # lanes that hold a row of an atom, and atoms that they exchange
COLUMNS = 8  # of an atom: 16 bytes


@dataclass(frozen=True, slots=True)
class _Accumulator:
    source: Buffer
    store: Access


def quad_store(context: Context, loop: Loop, partition: Fragment) -> list[CStmt] | None:
    """The code of a loop that stores a whole accumulator to a tensor of 16-bit elements; None for any other loop."""
    found = _recognised(context, loop, partition)
    if found is None:
        return None
    context.helper("transpose_quad")
    context.note_vector(COLUMNS * found.store.buffer.dtype.bytes, found.store.buffer)
    exchanged = _exchanged(partition)
    names = element_names(context, loop, exchanged, COLUMNS)
    access = ElementAccess(context, loop, exchanged, names, {})
    buffer, indices = found.store.buffer, found.store.indices
    mi, ni, r = (symbol.coarse for symbol in names.symbols)
    pair, convert = PAIRS[buffer.dtype.name]
    first = c.div(r, QUAD)  # r counts 8 columns of both rows: 0 and 8 stand for registers 0 and 2
    registers = c.index(found.source.name, mi, c.add(c.mul(QUAD, ni), "q"))
    low, high = c.index(registers, first), c.index(registers, c.add(first, 1))
    same = found.source.dtype == buffer.dtype
    packed = Reinterpret(pair, low, const=True) if same else c.call(convert, low, high)
    fill = AssignC(c.index("words", "q"), packed)
    whole = Reinterpret(f"u32(&)[{QUAD}]", Name("words"), dereference=False)
    target = as_vector(access.element(buffer, indices, Literal(0)), buffer.dtype, COLUMNS, "cuda")
    value = as_vector(c.index("words", 0), buffer.dtype, COLUMNS, "cuda", const=True)
    store: CStmt = AssignC(target, value)
    condition = c.conjunction(access.conditions(found.store, Literal(0)))
    if condition is not None:
        store = IfC(condition, (store,))
    body: list[CStmt] = [
        Declare(pair, "words", dimensions=(Literal(QUAD),), alignment=16),
        ForC("q", Literal(0), Literal(QUAD), (fill,), unroll=True),
        Expression(c.call("transpose_quad", whole)),
        store,
    ]
    return names.nest(body)  # in a loop: r counts two rows


def _recognised(context: Context, loop: Loop, partition: Fragment) -> _Accumulator | None:
    if not context.target.has("mma_sync") or len(loop.names) != 2 or not partition.exact:
        return None
    match loop.body:
        case (Store(target, indices, value),) if target.scope == "global" and target.dtype.name in PAIRS:
            load = stored_element(value)
        case _:
            return None
    if load is None or load.buffer.scope != "fragment" or tuple(load.indices) != tuple(loop.vars):
        return None
    if context.decisions.fragments.get(load.buffer.name) != partition:
        return None
    store = Access("store", target, indices)
    if contiguous_axis(store, loop.names) != 1:
        return None
    if aligned_elements(store, loop.names, 1, context.decisions.divisors) != COLUMNS:
        return None
    return _Accumulator(load.buffer, store) if _is_accumulator(partition) else None


def _is_accumulator(fragment: Fragment) -> bool:
    """Whether registers are [mi][ni][r] of atoms side by side, whole quads of them."""
    if len(fragment.registers) != 3 or fragment.threads[:2] != LANES or fragment.registers[2] != VALUES:
        return False
    across = fragment.registers[1]
    return len(across) == 1 and across[0].steps == (0, COLUMNS) and across[0].extent % QUAD == 0


def _exchanged(fragment: Fragment) -> Fragment:
    """Which thread holds what behind the exchange: [mi][quads of atoms][8 columns of both rows]."""
    down, across, _ = fragment.registers
    quads = (Mode(across[0].extent // QUAD, (0, QUAD * COLUMNS)),)
    values = (Mode(COLUMNS, (0, 1)), VALUES[1])
    lanes = (Mode(4, (0, COLUMNS)), LANES[1])
    return Fragment(fragment.tile, (*lanes, *fragment.threads[2:]), (down, quads, values))
