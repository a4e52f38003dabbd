"""Vectors of a parallel loop: register arrays that loads from memory fill before the elements are computed, and that
stores empty after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tilegen.inference.loops import Access
from tilegen.ir.affine import substitute
from tilegen.ir.expressions import Cast, Expr
from tilegen.ir.held_names import private_names
from tilegen.ir.nodes import AtomicElement, Let, Store
from tilegen.ir.traversal import free_vars
from tilegen.ir.types import float32
from tilegen.lower.elements.access import ElementAccess
from tilegen.lower.elements.atomic import vector_atomic, vector_update
from tilegen.lower.vocabulary.addresses import as_vector
from tilegen.lower.vocabulary.conversion import PAIRS
from tilegen.lower.vocabulary.eviction import guarded, load_vector, store_vector
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import AssignC, CStmt, Declare, ForC, IfC


@dataclass(slots=True)
class Vectors:
    """Register arrays between memory and elements: loads that fill them, stores that empty them."""

    loads: list[CStmt] = field(default_factory=list)
    stores: list[CStmt] = field(default_factory=list)
    targets: dict[int, str] = field(default_factory=dict)  # by position in the body


def _array_name(access: ElementAccess, vectors: Vectors, buffer: str) -> str:
    taken = [*access.vectors.values(), *vectors.targets.values(), *access.context.taken]
    name, count = f"{buffer}_vector", 1
    while name in taken:
        count += 1
        name = f"{buffer}_vector_{count}"
    return name


def load_vectors(access: ElementAccess, vectors: Vectors) -> None:
    """Declares and fills an array for each load that memory gives in vectors."""
    language = access.language.language
    for one in dict.fromkeys(one for one in access.loop.accesses if one.kind == "load"):
        width = access.width(one)
        key = (one.buffer.name, one.indices)
        if width == 1 or key in access.vectors:
            continue
        name = _array_name(access, vectors, one.buffer.name)
        dtype = one.buffer.dtype
        alignment = width * dtype.bytes
        array = Declare(access.type_name(dtype), name, None, (Literal(access.vector),), alignment=alignment)
        vectors.loads.append(array)

        def fill(at: CExpr, one: Access = one, name: str = name, width: int = width) -> CStmt:
            element = access.element(one.buffer, one.indices, at)
            inside = c.conjunction(access.missing(one, at))
            if access.memory(one.buffer).scope == "global":
                value = load_vector(
                    access.context, access.loop.node, element, one.buffer.dtype, width, inside
                )
            else:
                value = as_vector(element, one.buffer.dtype, width, language, const=True)
                value = guarded(value, one.buffer.dtype, width, language, inside)
            return AssignC(as_vector(c.index(name, at), one.buffer.dtype, width, language), value)

        vectors.loads.append(_each_vector(access, width, fill))
        access.context.note_vector(alignment, one.buffer)
        access.vectors[key] = name


def _each_vector(access: ElementAccess, width: int, move: Callable[[CExpr], CStmt]) -> CStmt:
    """One access, or a loop over the accesses that make up the elements of a step."""
    if width == access.vector:
        return move(Literal(0))
    return ForC(
        access.element_variable,
        Literal(0),
        Literal(access.vector),
        (move(Name(access.element_variable)),),
        Literal(width),
        unroll=True,
    )


def name_targets(access: ElementAccess, vectors: Vectors) -> None:
    """Declares an array for each store that memory takes in vectors, and the store that empties it."""
    lets, private = dict(access.lets), private_names(access.loop.body)
    for position, statement in enumerate(access.loop.body):
        match statement:  # a named place is that of the vector, if no iteration makes it step by step
            case Let(var, value, mutable=False) if not private & set(free_vars(value)):
                lets[var.name] = substitute(value, lets)
            case Let(var):
                private |= {var.name}
        if not isinstance(statement, Store | AtomicElement):
            continue
        indices = tuple(substitute(index, lets) for index in statement.indices)
        one = Access("store" if isinstance(statement, Store) else "atomic", statement.buffer, indices)
        width = access.width(one)
        if width == 1 or (isinstance(statement, Store) and stored_pair(access, statement, width)):
            continue
        name = _array_name(access, vectors, statement.buffer.name)
        vectors.targets[position] = name
        dtype = statement.buffer.dtype
        vectors.loads.append(
            Declare(
                access.type_name(dtype), name, None, (Literal(access.vector),), alignment=width * dtype.bytes
            )
        )

        def empty(at: CExpr, one: Access = one, name: str = name, width: int = width) -> CStmt:
            moved = _moved_vector(access, one, c.index(name, at), at, width)
            missing = c.conjunction(access.missing(one, at))
            return moved if missing is None else IfC(missing, (moved,))

        vectors.stores.append(_each_vector(access, width, empty))
        access.context.note_vector(width * dtype.bytes, statement.buffer)


def _moved_vector(access: ElementAccess, one: Access, values: CExpr, at: CExpr, width: int) -> CStmt:
    """A vector from registers to memory, stored or added."""
    target = access.element(one.buffer, one.indices, at)
    if one.kind == "atomic":
        atomic = vector_atomic(access.context.target, "add", one.buffer, width)
        assert atomic is not None and atomic.elements == width
        return vector_update(access.context, atomic, target, values)
    language = access.language.language
    value = as_vector(values, one.buffer.dtype, width, language, const=True)
    if access.memory(one.buffer).scope == "global":
        return store_vector(access.context, access.loop.node, target, value, one.buffer.dtype, width)
    return AssignC(as_vector(target, one.buffer.dtype, width, language), value)


def stored_pair(access: ElementAccess, store: Store, width: int) -> bool:
    """Whether a store of two converted floats goes to memory as the pair that the conversion makes."""
    return width == 2 == access.vector and pair_operand(access, store) is not None and not has_lets(access)


def has_lets(access: ElementAccess) -> bool:
    return any(isinstance(statement, Let) for statement in access.loop.body)


def pair_operand(access: ElementAccess, store: Store | AtomicElement) -> Expr | None:
    """The float32 value that a store rounds to 16 bits, where the language converts two at once."""
    match store.value:
        case Cast(operand, dtype) if dtype.name in PAIRS and operand.dtype == float32:
            return operand if access.language.language == "cuda" else None
        case _:
            return None
