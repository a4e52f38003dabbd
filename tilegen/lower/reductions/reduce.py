"""Reductions of fragments along an axis: in the thread's registers, by shuffles in the warp, across warps through
shared memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tilegen.diagnostics import ProgramError
from tilegen.inference.exchange import store_loop
from tilegen.inference.fragment import Fragment
from tilegen.inference.loops import as_loop
from tilegen.inference.propagate import reduced
from tilegen.inference.reduction import (
    LOGICAL,
    ReductionSteps,
    accumulation_dtype,
    reduction_steps,
    shared_partials,
)
from tilegen.inference.vector_access import starts_aligned
from tilegen.ir import build
from tilegen.ir.expressions import BinaryOp, Const, Expr, Load, Var
from tilegen.ir.nodes import Buffer, For, ParallelFor, Reduce, ReduceOp, Stmt, Store
from tilegen.ir.traversal import children
from tilegen.ir.types import bool_
from tilegen.ir.walk import subexpressions
from tilegen.lower.elements.access import ElementAccess
from tilegen.lower.elements.loop import lower_loop
from tilegen.lower.reductions.identity import identity
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.element_names import element_names
from tilegen.lower.vocabulary.scalar import dialect, scalar
from tilegen.lower.vocabulary.words import settled
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import AssignC, CStmt, Declare, ForC, IfC, Scope
from tilegen.schedule.fold_elements import Element

_COMBINED: dict[ReduceOp, BinaryOp] = {
    "sum": "+", "abssum": "+", "prod": "*", "max": "max", "absmax": "max", "min": "min",
    "any": "|", "bitor": "|", "all": "&", "bitand": "&", "bitxor": "^",
}  # fmt: skip
_STATEMENT = (
    24  # operations in one statement that combines neighbours: four squares of differences can still be read
)
_IDEMPOTENT = ("max", "min", "absmax", "bitand", "bitor")


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction with its layouts; `partial` holds the thread's result on the way, which is the target itself where it
    can be."""

    context: Context
    node: Reduce
    source: Fragment
    result: Fragment
    steps: ReductionSteps
    partial: Buffer

    @property
    def target(self) -> Buffer:
        return self.node.target.buffer

    @property
    def separate(self) -> bool:
        return self.partial.name != self.target.name

    def axes(self) -> tuple[Var, ...]:
        """Loop variables over the source's tile."""
        names = {1: ("%i",), 2: ("%row", "%column")}.get(self.source.rank)
        names = names or tuple(f"%i{axis}" for axis in range(self.source.rank))
        return tuple(Var(name, role="parallel") for name in names)

    def kept(self) -> tuple[Expr, ...]:
        """Indices of the result: the source's without the reduced axis, or with 0 in its place."""
        axes = self.axes()
        axis = self.node.axis
        place = (build.const(0),) if self.result.rank == self.source.rank else ()
        return (*axes[:axis], *place, *axes[axis + 1 :])

    def result_axes(self) -> tuple[tuple[Var, ...], tuple[int, ...]]:
        """Loop variables over the result's tile, and their extents; one of extent 1 where nothing is left."""
        found = [
            (index, extent)
            for index, extent in zip(self.kept(), self.result.tile, strict=True)
            if isinstance(index, Var)
        ]
        if not found:
            return (Var("%one", role="parallel"),), (1,)
        return tuple(var for var, _ in found), tuple(extent for _, extent in found)

    def combine(self, left: Expr, right: Expr) -> Expr:
        return build.binary(_COMBINED[self.node.op], left, right)


def lower_reduce(context: Context, statement: Stmt) -> list[CStmt]:
    """The code of a reduction; every thread that holds a copy of a result ends with the whole result.

    Raises:
        ProgramError: when source or target is no fragment.
    """
    assert isinstance(statement, Reduce)
    for region in (statement.source, statement.target):
        if region.buffer.scope != "fragment":
            raise ProgramError(
                statement.location,
                f"a reduction works on fragments, and {region.buffer.name} is {region.buffer.scope} memory",
                remedy=f"copy {region.buffer.name} from or to a fragment with T.copy",
            )
    source = context.decisions.fragment(statement.source.buffer)
    steps = reduction_steps(source, statement, context.target)
    reduction = Reduction(
        context, statement, source, reduced(source, statement), steps, _partial(context, statement, steps)
    )
    if reduction.separate:
        context.decisions.fragments[reduction.partial.name] = reduction.result
    out: list[CStmt] = []
    if reduction.separate or statement.clear:
        out += _over_result(
            reduction, (_assign(reduction, identity(reduction.node.op, reduction.partial.dtype)),)
        )
    out += in_thread(reduction)
    out += in_warp(reduction)
    out += _across_warps(reduction)
    if not reduction.separate:
        return out
    exchanges = context.decisions.exchanges.get(statement)
    out += _pass_on(reduction, exchanges[reduction.target.name]) if exchanges else _finish(reduction)
    return [Scope((_declaration(reduction), *out))]


def _partial(context: Context, node: Reduce, steps: ReductionSteps) -> Buffer:
    """The target, or an array of its own where the elements are narrow, where the old value would count more than once
    or is any number where the reduction has 0 and 1, or where other threads hold the target."""
    target = node.target.buffer
    dtype = accumulation_dtype(node)
    whole = node.op not in LOGICAL and not (steps.masks or steps.warps)
    counted_once = node.clear or node.op in _IDEMPOTENT or whole
    if dtype == target.dtype and counted_once and context.decisions.exchanges.get(node) is None:
        return target
    name = f"{target.name}_partial"
    return Buffer(name, target.shape, dtype, "fragment", location=target.location)


def _declaration(reduction: Reduction) -> CStmt:
    shape = tuple(Literal(extent) for extent in reduction.result.register_shape)
    type_name = dialect(reduction.context).type_name(reduction.partial.dtype)
    alignment = reduction.context.aligned.get(reduction.partial.name, 0)
    return Declare(type_name, reduction.partial.name, dimensions=shape, alignment=alignment)


def _element(reduction: Reduction, indices: tuple[Expr, ...]) -> Element:
    """What an element of the source contributes: from its register, or computed here."""
    node, dtype = reduction.node, reduction.partial.dtype
    folded = reduction.context.plan.folded_into(node)
    element = folded.at(indices) if folded else Element((), Load(node.source.buffer, indices))
    value = build.cast(element.value, bool_ if node.op in LOGICAL else dtype)
    magnitude = node.op in ("abssum", "absmax")
    return replace(element, value=build.call("abs", value) if magnitude else build.cast(value, dtype))


def _assign(reduction: Reduction, value: Expr) -> Stmt:
    return Store(reduction.partial, reduction.kept(), value)


def _old(reduction: Reduction) -> Expr:
    return Load(reduction.partial, reduction.kept())


def _old_of_target(reduction: Reduction, indices: tuple[Expr, ...]) -> Expr:
    """The target's old value as the reduction counts it."""
    old: Expr = Load(reduction.target, indices)
    if reduction.node.op in LOGICAL:
        old = build.cast(old, bool_)
    return build.cast(old, reduction.partial.dtype)


def _over_result(reduction: Reduction, body: tuple[Stmt, ...]) -> list[CStmt]:
    """A loop over the registers of the result."""
    variables, extents = reduction.result_axes()
    loop = as_loop(ParallelFor(variables, tuple(map(build.const, extents)), body))
    assert loop is not None
    partition = reduction.result
    if len(extents) != partition.rank:  # the reduced axis stays in the result: the loop does not walk it
        kept = tuple(axis for axis, index in enumerate(reduction.kept()) if isinstance(index, Var))
        partition = _loop_partition(reduction.result, kept, extents)
    return lower_loop(reduction.context, loop, partition)


def _loop_partition(result: Fragment, kept: tuple[int, ...], extents: tuple[int, ...]) -> Fragment:
    if not kept:
        from tilegen.inference.propagate import with_axis

        return with_axis(result.project((), ()), 0, extents)
    return result.project(kept, extents)


def in_thread(reduction: Reduction) -> list[CStmt]:
    """Combines the registers of each thread, neighbours first where there are some; registers beyond the tile count as
    the identity, or are left out together where the tile ends between groups of neighbours."""
    node, axes, source = reduction.node, reduction.axes(), reduction.source
    element = _element(reduction, axes)
    value, together = element.value, _neighbours(reduction, element)
    inside = None
    if source.padded[node.axis] > source.tile[node.axis]:
        inside = build.binary("<", axes[node.axis], node.source.buffer.shape[node.axis])
        contiguous = source.contiguous_registers(node.axis) % together == 0
        if together == 1 or not (contiguous and starts_aligned(source, node.axis, together)):
            value, inside = (
                build.select(inside, value, identity(reduction.node.op, reduction.partial.dtype)),
                None,
            )
    if together > 1:
        return _in_groups(reduction, value, together, inside)
    body = (*element.lets, _assign(reduction, reduction.combine(_old(reduction), value)))
    loop = as_loop(ParallelFor(axes, tuple(map(build.const, source.tile)), body))
    assert loop is not None
    return lower_loop(reduction.context, loop, source)


def _neighbours(reduction: Reduction, element: Element) -> int:
    """How many registers in a row are combined at a time, 4, 2 or 1: they lie along the reduced axis alone. Where an
    element is computed with names of its own, one: the names stand in the body of the loop."""
    axis = reduction.node.axis
    first = reduction.source.registers[-1][0]
    alone = first.steps[axis] and not any(step for a, step in enumerate(first.steps) if a != axis)
    if not alone or element.lets:
        return 1
    operations = sum(
        bool(children(part)) and not isinstance(part, Load) for part in subexpressions(element.value)
    )
    room = _STATEMENT // max(1, operations)
    return next(group for group in (4, 2, 1) if first.extent % group == 0 and group <= max(1, room))


def _in_groups(reduction: Reduction, value: Expr, together: int, inside: Expr | None) -> list[CStmt]:
    """Combines neighbours among themselves before they meet the result: a shorter chain of dependent operations.
    `inside` says which groups belong to the tile, None: all."""
    context, axes = reduction.context, reduction.axes()
    loop = as_loop(ParallelFor(axes, tuple(map(build.const, reduction.source.tile)), ()))
    assert loop is not None
    names = element_names(context, loop, reduction.source, together)
    access = ElementAccess(context, loop, reduction.source, names, {})
    terms = [access.expression(value, Literal(position)) for position in range(together)]
    while len(terms) > 1:
        terms = [
            _combined(reduction, left, right) for left, right in zip(terms[::2], terms[1::2], strict=True)
        ]
    place = access.element(reduction.partial, reduction.kept(), Literal(0))
    update = _update(reduction, place, terms[0])
    if inside is not None:
        update = IfC(access.expression(inside, Literal(0)), (update,))
    nest = names.nest([update])
    return [Scope(tuple(nest))] if any(isinstance(statement, Declare) for statement in nest) else nest


def _update(reduction: Reduction, place: CExpr, value: CExpr) -> CStmt:
    """place = place op value."""
    op = _COMBINED[reduction.node.op]
    if op in ("max", "min"):
        return AssignC(place, _combined(reduction, place, value))
    return AssignC(place, value, f"{op}=")


def in_warp(reduction: Reduction) -> list[CStmt]:
    """Exchanges with the lanes that hold the rest of the row: afterwards all of them have the warp's result."""
    masks = reduction.steps.masks
    if not masks:
        return []
    context = reduction.context
    variables, extents = reduction.result_axes()
    loop = as_loop(ParallelFor(variables, tuple(map(build.const, extents)), ()))
    assert loop is not None
    names = element_names(context, loop, _over_kept(reduction, extents), 1)
    place = c.index(reduction.partial.name, *(symbol.coarse for symbol in names.symbols))

    def exchange(distance: CExpr) -> CStmt:
        return _update(reduction, place, dialect(context).shuffle_xor(place, distance))

    doubling = all(mask == masks[0] << position for position, mask in enumerate(masks))
    if doubling and len(masks) > 2:
        bit = Name("bit")
        distance = c.operation("<<", masks[0], bit)
        body: list[CStmt] = [ForC("bit", Literal(0), Literal(len(masks)), (exchange(distance),), unroll=True)]
    else:
        body = [exchange(Literal(mask)) for mask in masks]
    return names.nest(body)


def _over_kept(reduction: Reduction, extents: tuple[int, ...]) -> Fragment:
    """The result's registers as a loop's partition; only their number matters."""
    rank = len(extents)
    if rank == reduction.result.rank:
        return reduction.result
    kept = tuple(axis for axis, index in enumerate(reduction.kept()) if isinstance(index, Var))
    return _loop_partition(reduction.result, kept, extents)


def _combined(reduction: Reduction, left: CExpr, right: CExpr) -> CExpr:
    """The operation on two values of the text."""
    context, dtype = reduction.context, reduction.partial.dtype
    saved = dict(context.environment)
    context.environment.update({"%left": left, "%right": right})
    try:
        return scalar(context, reduction.combine(Var("%left", dtype), Var("%right", dtype)))
    finally:
        context.environment.clear()
        context.environment.update(saved)


def _across_warps(reduction: Reduction) -> list[CStmt]:
    """Each warp leaves its results in shared memory; after a barrier every thread combines those of its rows."""
    if not reduction.steps.warps:
        return []
    context = reduction.context
    name = context.decisions.partials[reduction.node]
    scratch = next(buffer for buffer in context.decisions.scratch if buffer.name == name)
    if all(member.name != name for member in context.members):
        context.members.append(shared_tiles.buffer_member(context, scratch, (1, Literal(1))))
    rows = _rows(reduction)
    flat: Expr = build.const(0)
    for index, extent in zip(reduction.kept(), reduction.result.tile, strict=True):
        flat = build.add(build.mul(flat, extent), index)
    share = Var("%share", role="parallel")
    variables = tuple(
        index if isinstance(index, Var) else Var(f"%zero{axis}", role="parallel")
        for axis, index in enumerate(reduction.kept())
    )
    partials = shared_partials(reduction.source, reduction.node, context.target)
    place = build.add(build.mul(share, rows), flat)
    leave = as_loop(
        ParallelFor(
            (share, *variables),
            tuple(map(build.const, partials.tile)),
            (Store(scratch, (place,), _old(reduction)),),
        )
    )
    assert leave is not None
    return [
        *lower_loop(context, leave, partials),
        context.synchronise(settled([scratch.name])),
        *_over_result(reduction, _gather(reduction, scratch, rows, flat)),
    ]


def _rows(reduction: Reduction) -> Expr:
    """Elements of the result, under the name of the parameter that says them."""
    match reduction.target.shape:
        case (Const(int() as extent) as rows,) if (extent,) == reduction.result.tile:
            return rows
        case _:
            return build.const(math.prod(reduction.result.tile))


def _gather(reduction: Reduction, scratch: Buffer, rows: Expr, flat: Expr) -> tuple[Stmt, ...]:
    """The result of the partial results that the warps left."""
    first, one = Load(scratch, (flat,)), build.const(1)
    if reduction.steps.shares == 2:
        second = Load(scratch, (build.add(rows, flat),))
        return (_assign(reduction, reduction.combine(first, second)),)
    share = Var("share", role="loop")
    other = Load(scratch, (build.add(build.mul(share, rows), flat),))
    join = _assign(reduction, reduction.combine(_old(reduction), other))
    shares = build.const(reduction.steps.shares)
    return (_assign(reduction, first), For(share, one, shares, one, "unroll", (join,)))


def _finish(reduction: Reduction) -> list[CStmt]:
    """The target's new value from the result in the separate array, and its old value where that takes part."""
    value: Expr = Load(reduction.partial, reduction.kept())
    target = reduction.target
    if not reduction.node.clear:
        value = reduction.combine(_old_of_target(reduction, reduction.kept()), value)
    return _over_result(reduction, (Store(target, reduction.kept(), build.cast(value, target.dtype)),))


def _pass_on(reduction: Reduction, scratch: Buffer) -> list[CStmt]:
    """The result goes through shared memory to the threads that hold the target."""
    context, node, target = reduction.context, reduction.node, reduction.target
    if all(member.name != scratch.name for member in context.members):
        context.members.append(shared_tiles.buffer_member(context, scratch, (1, Literal(1))))
    names = {1: ("%i",), 2: ("%row", "%column")}.get(target.rank)
    names = names or tuple(f"%i{axis}" for axis in range(target.rank))
    places = tuple(Var(name, role="parallel") for name in names)
    value: Expr = Load(scratch, places)
    if not node.clear:
        value = reduction.combine(_old_of_target(reduction, places), value)
    take = as_loop(
        ParallelFor(places, target.shape, (Store(target, places, build.cast(value, target.dtype)),))
    )
    assert take is not None
    return [
        *lower_loop(context, store_loop(reduction.partial, scratch), reduction.result),
        context.synchronise(settled([scratch.name])),
        *lower_loop(context, take, context.decisions.fragment(target)),
    ]
