"""Copies whose elements keep their type: whole vectors move, without a detour through single elements."""

from __future__ import annotations

from tilegen.inference.loops import Access
from tilegen.ir.expressions import Load
from tilegen.ir.nodes import Store
from tilegen.lower.addresses import as_vector, zero_vector
from tilegen.lower.element_access import ElementAccess
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Ternary
from tilegen.model.statements import AssignC, CStmt, IfC


def vector_copy(access: ElementAccess) -> list[CStmt] | None:
    """The body of a loop that only moves elements in vectors of one width; None for any other loop."""
    match access.loop.body:
        case (Store(buffer, indices, Load(source, places)),) if source.dtype == buffer.dtype:
            store, load = Access("store", buffer, indices), Access("load", source, places)
        case _:
            return None
    width = access.vector
    if width == 1 or not (_moves(access, store, width) and _moves(access, load, width)):
        return None
    first = Literal(0)
    value = _vector(access, load, width, const=True)
    condition = c.conjunction(access.conditions(store, first))
    access.implied = access.conditions(store, first)
    missing = c.conjunction(access.missing(load, first))
    if missing is not None:
        value = Ternary(missing, value, zero_vector(source.dtype, width, access.language.language))
    moved = AssignC(_vector(access, store, width), value)
    access.context.note_vector(store.buffer, load.buffer)
    return [moved] if condition is None else [IfC(condition, (moved,))]


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
