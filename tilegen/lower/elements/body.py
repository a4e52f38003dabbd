"""The body of a parallel loop, element by element, with vector loads before and vector stores after."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilegen.diagnostics import ProgramError
from tilegen.inference.loops import Access
from tilegen.ir.affine import substitute
from tilegen.ir.effects import buffers_written
from tilegen.ir.expressions import Binary, Const, Expr, Load
from tilegen.ir.held_names import private_names
from tilegen.ir.nodes import Assign, AtomicElement, For, If, Let, Stmt, Store
from tilegen.ir.traversal import free_vars
from tilegen.ir.walk import each_node, each_statement, loaded
from tilegen.lower.elements.access import ElementAccess
from tilegen.lower.elements.atomic import atomic_update
from tilegen.lower.elements.named_parts import guarded, position_of, with_names
from tilegen.lower.elements.packed import packed, packed_values, pair_name
from tilegen.lower.elements.vectors import (
    Vectors,
    has_lets,
    load_vectors,
    name_targets,
    pair_operand,
    stored_pair,
)
from tilegen.lower.vocabulary.conversion import PAIRS
from tilegen.lower.vocabulary.loops import note_variable
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, Operation, Reinterpret
from tilegen.model.statements import AssignC, CStmt, Declare, ForC, IfC
from tilegen.model.transform import rewritten_blocks


def lower_elements(access: ElementAccess) -> list[CStmt]:
    """The body at one position of the register loops."""
    guard = [] if _loads_ahead(access) else _common_guard(access)
    access.implied = guard
    if access.vector == 1:
        body = _statements(access, access.loop.body, Literal(0))
    else:
        vectors = Vectors()
        load_vectors(access, vectors)
        name_targets(access, vectors)
        named = _named_for_all(access)
        body = with_names([*named, *_elements_apart(access, vectors, named)])
    condition = c.conjunction(guard)
    return body if condition is None else guarded(condition, body)


def _named_for_all(access: ElementAccess) -> list[Declare]:
    """The positions that the body names and that are the same for all elements of a vector."""
    private = private_names(access.loop.body)
    lets = [statement for statement in access.loop.body if isinstance(statement, Let)]
    found: dict[str, Declare] = {}
    for let in lets:
        made = {one.var.name for one in lets} - set(found)
        if let.mutable or (private | made) & set(free_vars(let.value)):
            continue
        value = access.expression(let.value, Literal(0))
        access.learn(let)
        declared = Declare(access.type_name(let.var.dtype), let.var.name, value, const=True)
        if position_of(declared) and value == access.expression(let.value, Name(access.element_variable)):
            found[let.var.name] = declared
    return list(found.values())


def _elements_apart(access: ElementAccess, vectors: Vectors, named: Sequence[Declare]) -> list[CStmt]:
    """Loads, elements and stores of vectors, without what is named for all of the elements."""
    names = {one.name for one in named}
    return rewritten_blocks(
        [*vectors.loads, *_elements(access, vectors), *vectors.stores],
        lambda block: [one for one in block if not (isinstance(one, Declare) and one.name in names)],
    )


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


# ------------------------------------------------------------------------------------------- elements


def _elements(access: ElementAccess, vectors: Vectors) -> list[CStmt]:
    """The elements of a vector: in pairs where conversions come in pairs, else one by one."""
    body = access.loop.body
    pairs = access.context.attempt(lambda: _packed_elements(access, vectors))
    if pairs is not None:
        return pairs
    if has_lets(access):
        inner = _statements(access, body, Name(access.element_variable), vectors)
        return [_over_elements(access, tuple(inner), 1)]
    out: list[CStmt] = []
    for position, statement in enumerate(body):
        pair = _pair(access, statement, position, vectors)
        if pair is not None:
            out.append(pair)
            continue
        one = Vectors(targets={0: vectors.targets[position]} if position in vectors.targets else {})
        inner = _statements(access, (statement,), Name(access.element_variable), one)
        out.append(_over_elements(access, tuple(inner), 1))
    return out


def _packed_elements(access: ElementAccess, vectors: Vectors) -> list[CStmt] | None:
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


def _pair(access: ElementAccess, statement: Stmt, position: int, vectors: Vectors) -> CStmt | None:
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
        array is None and isinstance(statement, Store) and stored_pair(access, statement, access.width(one))
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
    access: ElementAccess, body: tuple[Stmt, ...], fine: CExpr, vectors: Vectors | None = None
) -> list[CStmt]:
    """Statements at one element."""
    out: list[CStmt] = []
    for position, statement in enumerate(body):
        match statement:
            case Store():
                array = vectors.targets.get(position) if vectors is not None else None
                out += _store(access, statement, fine, array)
            case AtomicElement(value=value):
                if vectors is not None and position in vectors.targets:
                    out.append(
                        AssignC(c.index(vectors.targets[position], fine), access.expression(value, fine))
                    )
                    continue
                out += _updated(access, statement, fine)
            case Let(var, value, mutable):
                name = access.type_name(var.dtype)
                again = any(isinstance(one, Assign) and one.var == var for one in each_node(access.loop.body))
                out.append(Declare(name, var.name, access.expression(value, fine), const=not again))
                if not mutable:
                    access.lets[var.name] = substitute(value, access.lets)
                    access.learn(statement)
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
    return with_names(out) if has_lets(access) else out


def _updated(access: ElementAccess, atomic: AtomicElement, fine: CExpr) -> list[CStmt]:
    """An element that is updated in place."""
    context, op, buffer = access.context, atomic.op, atomic.buffer
    indices = _indices(access, atomic.indices)
    target = access.element(buffer, indices, fine)
    return _guarded(
        access,
        Access("atomic", buffer, indices),
        fine,
        lambda: atomic_update(
            context, op, buffer, target, access.expression(atomic.value, fine), atomic.location
        ),
    )


def _branch(access: ElementAccess, branch: If, fine: CExpr) -> list[CStmt]:
    """A branch; what its condition says needs no guard inside, and what holds already is not asked again."""
    known = access.implied
    conditions: list[CExpr] = []
    for part in _conjuncts(branch.condition):  # one holds where the next is asked
        value = substitute(part, access.lets)
        said, meant = access.expression(part, fine), access.expression(value, fine)
        if said not in access.implied and meant not in access.implied:
            conditions.append(said)
            if _lasts(access, value):
                access.implied = [*access.implied, said, meant]
    then = _statements(access, branch.then, fine)
    access.implied = known
    condition = c.conjunction(conditions)
    if condition is None:
        return then
    return [IfC(condition, tuple(then), tuple(_statements(access, branch.otherwise, fine)))]


def _lasts(access: ElementAccess, condition: Expr) -> bool:
    """Whether nothing that the body does changes a condition."""
    body = access.loop.body
    written = {buffer for statement in each_statement(body) for buffer in buffers_written(statement)}
    return not private_names(body) & set(free_vars(condition)) and not written & set(loaded(condition))


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

    def update() -> CStmt:
        match store.value:
            case Binary("+" | "-" | "*" as op, Load(buffer, places), right, dtype) if (
                buffer.name == store.buffer.name and places == store.indices and dtype.bits >= 32
            ):
                return AssignC(target, access.expression(right, fine), f"{op}=")
            case value:
                single = store.value.dtype.name == "float32"
                return _assigned(target, access.expression(value, fine), single)

    return _guarded(access, Access("store", store.buffer, indices), fine, update)


def _assigned(target: CExpr, value: CExpr, single: bool) -> CStmt:
    """target = value, and target /= divisor where that is what the value does."""
    match value:
        case Operation("/", left, right) if single and left == target:
            return AssignC(target, right, "/=")
        case _:
            return AssignC(target, value)


def _guarded(access: ElementAccess, one: Access, fine: CExpr, lowered: Callable[[], CStmt]) -> list[CStmt]:
    """What is done to an element where that is inside of its tensor; it asks no more for what is known there."""
    known, missing = access.implied, access.missing(one, fine)
    access.implied = [*known, *missing]
    statement = lowered()
    access.implied = known
    condition = c.conjunction(missing)
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
