"""The body of a parallel loop, element by element, with vector loads before and vector stores after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tilegen.diagnostics import ProgramError
from tilegen.inference.loops import Access
from tilegen.ir.affine import substitute
from tilegen.ir.expressions import Binary, Cast, Const, Expr, Load
from tilegen.ir.held_names import private_names
from tilegen.ir.nodes import Assign, AtomicElement, For, If, Let, Stmt, Store
from tilegen.ir.traversal import free_vars
from tilegen.ir.types import float32
from tilegen.ir.walk import each_node
from tilegen.lower.addresses import as_vector
from tilegen.lower.atomic import atomic_update, vector_atomic, vector_update
from tilegen.lower.conversion import PAIRS
from tilegen.lower.element_access import ElementAccess
from tilegen.lower.eviction import guarded, load_vector, store_vector
from tilegen.lower.loops import note_variable
from tilegen.lower.packed import packed, packed_values, pair_name
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, Operation, Reinterpret
from tilegen.model.statements import AssignC, CStmt, Declare, ForC, IfC


@dataclass(slots=True)
class _Vectors:
    """Register arrays between memory and elements: loads that fill them, stores that empty them."""

    loads: list[CStmt] = field(default_factory=list)
    stores: list[CStmt] = field(default_factory=list)
    targets: dict[int, str] = field(default_factory=dict)  # by position in the body


def lower_elements(access: ElementAccess) -> list[CStmt]:
    """The body at one position of the register loops."""
    guard = [] if _loads_ahead(access) else _common_guard(access)
    access.implied = guard
    if access.vector == 1:
        body = _statements(access, access.loop.body, Literal(0))
    else:
        vectors = _Vectors()
        _load_vectors(access, vectors)
        _name_targets(access, vectors)
        body = [*vectors.loads, *_elements(access, vectors), *vectors.stores]
    condition = c.conjunction(guard)
    return body if condition is None else [IfC(condition, tuple(body))]


def _loads_ahead(access: ElementAccess) -> bool:
    """Whether the loads of all steps may be under way before the first store: there are several steps, all memory is
    read in vectors of global tensors, and elements beyond the tile are harmless to compute. Then each access has its
    own guard, which compilers turn into predicates, in place of branches that keep the loads apart. Threads that hold
    copies stay away from what the elements' owners write."""
    moved = [one for one in access.loop.accesses if not access.in_registers(one.buffer)]
    loads = [one for one in moved if one.kind == "load"]
    stored = [one.buffer for one in moved if one.kind != "load"]
    if access.owner and any(one.buffer in stored for one in loads):
        return False
    return (
        access.names.loops
        and bool(loads)
        and all(access.memory(one.buffer).scope == "global" and access.width(one) > 1 for one in loads)
        and not any(
            isinstance(part, Binary) and part.op in ("//", "%") and not isinstance(part.right, Const)
            for part in each_node(access.loop.body)
        )
    )


def _common_guard(access: ElementAccess) -> list[CExpr]:
    """The conditions that can stand around the whole body: those of all its stores, if it has no other effect."""
    stores = [one for one in access.loop.accesses if one.kind != "load"]
    if not stores or any(access.in_registers(one.buffer) for one in stores):
        return []
    made = private_names(access.loop.body)
    if any(name in made for one in stores for index in one.indices for name in free_vars(index)):
        return []  # where such an element lies is not known yet
    first = Literal(0)
    guards = []
    for one in stores:
        here = access.conditions(one, first)
        if access.width(one) < access.vector:
            everywhere = access.conditions(one, Name(access.element_variable))
            here = [condition for condition in here if condition in everywhere]
        guards.append(here)
    return [condition for condition in guards[0] if all(condition in other for other in guards[1:])]


# ------------------------------------------------------------------------------------------- vectors


def _array_name(access: ElementAccess, vectors: _Vectors, buffer: str) -> str:
    taken = [*access.vectors.values(), *vectors.targets.values(), *access.context.taken]
    name, count = f"{buffer}_vector", 1
    while name in taken:
        count += 1
        name = f"{buffer}_vector_{count}"
    return name


def _load_vectors(access: ElementAccess, vectors: _Vectors) -> None:
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


def _name_targets(access: ElementAccess, vectors: _Vectors) -> None:
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
        if width == 1 or (isinstance(statement, Store) and _stored_pair(access, statement, width)):
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


def _stored_pair(access: ElementAccess, store: Store, width: int) -> bool:
    """Whether a store of two converted floats goes to memory as the pair that the conversion makes."""
    return width == 2 == access.vector and pair_operand(access, store) is not None and not _has_lets(access)


def _has_lets(access: ElementAccess) -> bool:
    return any(isinstance(statement, Let) for statement in access.loop.body)


# ------------------------------------------------------------------------------------------- elements


def pair_operand(access: ElementAccess, store: Store | AtomicElement) -> Expr | None:
    """The float32 value that a store rounds to 16 bits, where the language converts two at once."""
    match store.value:
        case Cast(operand, dtype) if dtype.name in PAIRS and operand.dtype == float32:
            return operand if access.language.language == "cuda" else None
        case _:
            return None


def _elements(access: ElementAccess, vectors: _Vectors) -> list[CStmt]:
    """The elements of a vector: in pairs where conversions come in pairs, else one by one."""
    body = access.loop.body
    pairs = access.context.attempt(lambda: _packed_elements(access, vectors))
    if pairs is not None:
        return pairs
    if _has_lets(access):
        inner = _statements(access, body, Name(access.element_variable), vectors)
        return [_over_elements(access, tuple(inner), 1)]
    out: list[CStmt] = []
    for position, statement in enumerate(body):
        pair = _pair(access, statement, position, vectors)
        if pair is not None:
            out.append(pair)
            continue
        one = _Vectors(targets={0: vectors.targets[position]} if position in vectors.targets else {})
        inner = _statements(access, (statement,), Name(access.element_variable), one)
        out.append(_over_elements(access, tuple(inner), 1))
    return out


def _packed_elements(access: ElementAccess, vectors: _Vectors) -> list[CStmt] | None:
    """Stores of values that are computed in pairs; None where one of them is not."""
    values = packed_values(access.loop.body, access.language.language)
    if values is None or access.vector % 2:
        return None
    low: CExpr = Literal(0) if access.vector == 2 else Name(access.element_variable)
    out: list[CStmt] = []
    stores = [(at, one) for at, one in enumerate(access.loop.body) if isinstance(one, Store)]
    for (position, store), value in zip(stores, values, strict=True):
        array = vectors.targets.get(position)
        pair = packed(access, value, low)
        if pair is None or (array is None and not access.register_run(store.buffer, store.indices, 2)):
            return None
        element = (
            c.index(array, low) if array is not None else access.element(store.buffer, store.indices, low)
        )
        if array is None:
            access.context.align(store.buffer.name, 4)
        moved: CStmt = AssignC(Reinterpret(pair_name(access, store.buffer.dtype), element), pair)
        out.append(moved if access.vector == 2 else _over_elements(access, (moved,), 2))
    return out


def _over_elements(access: ElementAccess, body: tuple[CStmt, ...], step: int) -> CStmt:
    by = Literal(step) if step > 1 else None
    return ForC(access.element_variable, Literal(0), Literal(access.vector), body, by, unroll=True)


def _pair(access: ElementAccess, statement: Stmt, position: int, vectors: _Vectors) -> CStmt | None:
    """Two conversions at once, to neighbouring places of an array or of memory."""
    if not isinstance(statement, Store | AtomicElement):
        return None
    operand = pair_operand(access, statement)
    if operand is None:
        return None
    buffer, indices = statement.buffer, statement.indices
    array = vectors.targets.get(position)
    if array is None and isinstance(statement, AtomicElement):
        return None
    one = Access("store", buffer, indices)
    in_memory = (
        array is None and isinstance(statement, Store) and _stored_pair(access, statement, access.width(one))
    )
    if array is None and not in_memory and not access.register_run(buffer, indices, 2):
        return None
    type_name, function = PAIRS[buffer.dtype.name]
    low: CExpr = Literal(0) if access.vector == 2 else Name(access.element_variable)
    element = c.index(array, low) if array is not None else access.element(buffer, indices, low)
    if array is None and not in_memory:
        access.context.align(buffer.name, 4)
    value = c.call(function, access.expression(operand, low), access.expression(operand, c.add(low, 1)))
    moved: CStmt = AssignC(Reinterpret(type_name, element), value)
    if in_memory:
        missing = c.conjunction(access.missing(one, Literal(0)))
        access.context.note_vector(2 * buffer.dtype.bytes, buffer)
        moved = moved if missing is None else IfC(missing, (moved,))
    return moved if access.vector == 2 else _over_elements(access, (moved,), 2)


def _statements(
    access: ElementAccess, body: tuple[Stmt, ...], fine: CExpr, vectors: _Vectors | None = None
) -> list[CStmt]:
    """Statements at one element."""
    out: list[CStmt] = []
    for position, statement in enumerate(body):
        match statement:
            case Store(buffer, indices, value):
                array = vectors.targets.get(position) if vectors is not None else None
                out += _store(access, statement, fine, array)
            case AtomicElement(op, buffer, indices, value):
                target = access.element(buffer, _indices(access, indices), fine)
                if vectors is not None and position in vectors.targets:
                    out.append(
                        AssignC(c.index(vectors.targets[position], fine), access.expression(value, fine))
                    )
                    continue
                update = atomic_update(
                    access.context, op, buffer, target, access.expression(value, fine), statement.location
                )
                out += _guarded(access, Access("atomic", buffer, _indices(access, indices)), fine, update)
            case Let(var, value, mutable):
                name = access.type_name(var.dtype)
                again = any(isinstance(one, Assign) and one.var == var for one in each_node(access.loop.body))
                out.append(Declare(name, var.name, access.expression(value, fine), const=not again))
                if not mutable:
                    access.lets[var.name] = substitute(value, access.lets)
            case Assign(var, value):
                out.append(AssignC(Name(var.name), access.expression(value, fine)))
            case If():
                out += _branch(access, statement, fine)
            case For():
                out.append(_inner_loop(access, statement, fine))
            case _:
                raise ProgramError(
                    statement.location,
                    f"a parallel loop computes element by element: {type(statement).__name__} is a whole tile's work",
                    remedy="move the statement out of the T.Parallel loop",
                )
    return out


def _branch(access: ElementAccess, branch: If, fine: CExpr) -> list[CStmt]:
    """A branch; what its condition says needs no guard inside, and what holds already is not asked again."""
    known = access.implied
    stated = [access.expression(part, fine) for part in _conjuncts(branch.condition)]
    conditions = [condition for condition in stated if condition not in known]
    access.implied = [*known, *conditions]
    then = _statements(access, branch.then, fine)
    access.implied = known
    condition = c.conjunction(conditions)
    if condition is None:
        return then
    return [IfC(condition, tuple(then), tuple(_statements(access, branch.otherwise, fine)))]


def _conjuncts(condition: Expr) -> list[Expr]:
    if isinstance(condition, Binary) and condition.op == "and":
        return [*_conjuncts(condition.left), *_conjuncts(condition.right)]
    return [condition]


def _indices(access: ElementAccess, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple(substitute(index, access.lets) for index in indices)


def _store(access: ElementAccess, store: Store, fine: CExpr, array: str | None) -> list[CStmt]:
    if array is not None:
        return [AssignC(c.index(array, fine), access.expression(store.value, fine))]
    indices = _indices(access, store.indices)
    target = access.element(store.buffer, indices, fine)
    match store.value:
        case Binary("+" | "-" | "*" as op, Load(buffer, places), right, dtype) if (
            buffer.name == store.buffer.name and places == store.indices and dtype.bits >= 32
        ):
            update: CStmt = AssignC(target, access.expression(right, fine), f"{op}=")
        case value:
            update = _assigned(target, access.expression(value, fine), store.value.dtype.name == "float32")
    return _guarded(access, Access("store", store.buffer, indices), fine, update)


def _assigned(target: CExpr, value: CExpr, single: bool) -> CStmt:
    """target = value, and target /= divisor where that is what the value does."""
    match value:
        case Operation("/", left, right) if single and left == target:
            return AssignC(target, right, "/=")
        case _:
            return AssignC(target, value)


def _guarded(access: ElementAccess, one: Access, fine: CExpr, statement: CStmt) -> list[CStmt]:
    condition = c.conjunction(access.missing(one, fine))
    return [statement] if condition is None else [IfC(condition, (statement,))]


def _inner_loop(access: ElementAccess, loop: For, fine: CExpr) -> CStmt:
    note_variable(access.context, loop)  # elements may be read in its bounds, which stand here alone
    step = access.expression(loop.step, fine)
    unroll = True if loop.kind == "unroll" or loop.var.name in dict(access.sequential) else None
    return ForC(
        loop.var.name,
        access.expression(loop.start, fine),
        access.expression(loop.stop, fine),
        tuple(_statements(access, loop.body, fine)),
        step=None if c.value_of(step) == 1 else step,
        unroll=unroll,
    )
