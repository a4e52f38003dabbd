"""Copies whose elements keep their type: whole vectors move, without a detour through single elements."""

from __future__ import annotations

from tilegen.inference.loops import Access
from tilegen.ir.expressions import Load
from tilegen.ir.nodes import AtomicElement, Store
from tilegen.lower.addresses import as_vector, zero_vector
from tilegen.lower.atomic import vector_atomic, vector_update
from tilegen.lower.element_access import ElementAccess
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Ternary
from tilegen.model.statements import AssignC, CStmt, IfC


def vector_copy(access: ElementAccess) -> list[CStmt] | None:
    """The body of a loop that only moves elements in vectors of one width; None for any other loop."""
    match access.loop.body:
        case (Store(buffer, indices, Load(source, places)),) if source.dtype == buffer.dtype:
            store, load = Access("store", buffer, indices), Access("load", source, places)
        case (AtomicElement(_, buffer, indices, Load(source, places)),) if source.dtype == buffer.dtype:
            store, load = Access("atomic", buffer, indices), Access("load", source, places)
        case _:
            return None
    width = access.vector
    if width == 1 or not (_moves(access, store, width) and _moves(access, load, width)):
        return None
    first = Literal(0)
    if store.kind == "atomic":
        return _atomic(access, store, load)
    value = _vector(access, load, width, const=True)
    condition = c.conjunction(access.conditions(store, first))
    access.implied = access.conditions(store, first)
    missing = c.conjunction(access.missing(load, first))
    if missing is not None:
        value = Ternary(missing, value, zero_vector(source.dtype, width, access.language.language))
    moved = AssignC(_vector(access, store, width), value)
    access.context.note_vector(width * source.dtype.bytes, store.buffer, load.buffer)
    return [moved] if condition is None else [IfC(condition, (moved,))]


def _atomic(access: ElementAccess, store: Access, load: Access) -> list[CStmt] | None:
    """Registers added to memory a vector at a time; None where the elements come from memory."""
    if access.memory(load.buffer).scope != "fragment":
        return None
    width = access.vector
    atomic = vector_atomic(access.context.target, "add", store.buffer, width)
    assert atomic is not None and atomic.elements == width, "the loop's step is what the instruction adds"
    access.context.align(load.buffer.name, width * load.buffer.dtype.bytes)
    access.context.note_vector(width * store.buffer.dtype.bytes, store.buffer)
    values = access.element(load.buffer, load.indices, Literal(0))
    target = access.element(store.buffer, store.indices, Literal(0))
    update = vector_update(access.context, atomic, target, values)
    condition = c.conjunction(access.conditions(store, Literal(0)))
    return [update] if condition is None else [IfC(condition, (update,))]


def _moves(access: ElementAccess, one: Access, width: int) -> bool:
    if access.memory(one.buffer).scope == "fragment":
        return access.register_run(one.buffer, one.indices, width)
    return access.width(one) == width


def _vector(access: ElementAccess, one: Access, width: int, const: bool = False) -> CExpr:
    element = access.element(one.buffer, one.indices, Literal(0))
    dtype = one.buffer.dtype
    if access.memory(one.buffer).scope == "fragment":
        access.context.align(one.buffer.name, width * dtype.bytes)
    return as_vector(element, dtype, width, access.language.language, const)
