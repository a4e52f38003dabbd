"""Copies whose elements keep their type: whole vectors move, without a detour through single elements."""

from __future__ import annotations

from tilegen.inference.loops import Access
from tilegen.ir.expressions import Load
from tilegen.ir.nodes import AtomicElement, Store
from tilegen.lower.elements.access import ElementAccess
from tilegen.lower.elements.atomic import vector_atomic, vector_update
from tilegen.lower.vocabulary.addresses import as_vector
from tilegen.lower.vocabulary.eviction import guarded, load_vector, store_vector
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal
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
    condition = c.conjunction(access.conditions(store, first))
    access.implied = access.conditions(store, first)
    value = _value(access, load, width, c.conjunction(access.missing(load, first)))
    moved = _store(access, store, width, value)
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


def _value(access: ElementAccess, one: Access, width: int, inside: CExpr | None) -> CExpr:
    element, dtype = _first(access, one, width), one.buffer.dtype
    if access.memory(one.buffer).scope == "global":
        return load_vector(access.context, access.loop.node, element, dtype, width, inside)
    value = as_vector(element, dtype, width, access.language.language, const=True)
    return guarded(value, dtype, width, access.language.language, inside)


def _store(access: ElementAccess, one: Access, width: int, value: CExpr) -> CStmt:
    element = _first(access, one, width)
    if access.memory(one.buffer).scope == "global":
        return store_vector(access.context, access.loop.node, element, value, one.buffer.dtype, width)
    return AssignC(as_vector(element, one.buffer.dtype, width, access.language.language), value)


def _first(access: ElementAccess, one: Access, width: int) -> CExpr:
    """The vector's first element."""
    if access.memory(one.buffer).scope == "fragment":
        access.context.align(one.buffer.name, width * one.buffer.dtype.bytes)
    return access.element(one.buffer, one.indices, Literal(0))
