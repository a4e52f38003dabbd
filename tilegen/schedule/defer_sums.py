"""Running sums whose lanes need not meet in every iteration.

`l = l * factor + sum(S)` in a loop is linear in the sum: each lane can keep the part that its own columns make, and
the lanes add up once, after the loop. That saves the shuffles of every iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.inference.decisions import Decisions
from tilegen.inference.propagate import reduced
from tilegen.inference.reduction import reduction_steps
from tilegen.ir.expressions import Binary, Const, Expr, Load
from tilegen.ir.nodes import Buffer, Fill, For, Kernel, ParallelFor, Persistent, Reduce, Stmt, Store
from tilegen.schedule.analysis import each_statement, loaded, reads, writes
from tilegen.schedule.fold_elements import FoldedElements, fold_elements
from tilegen.target import Target


@dataclass(frozen=True, slots=True)
class DeferredSum:
    """`update` scales its target, the total, by `factor` (None: not at all), and each lane adds what it has of the
    `reduction` to it; the lanes add up behind `loop`. The reduction's own target is not needed."""

    reduction: Reduce
    update: ParallelFor
    factor: Expr | None
    loop: For


def find_deferred_sums(kernel: Kernel, decisions: Decisions, target: Target) -> tuple[DeferredSum, ...]:
    """The sums of the kernel that may wait for the end of their loop."""
    found: list[DeferredSum] = []
    _walk(kernel.body, kernel, decisions, target, found)
    folded = fold_elements(kernel, decisions)
    return tuple(deferred for deferred in found if not _changed_before(deferred, folded))


def _changed_before(deferred: DeferredSum, folded: tuple[FoldedElements, ...]) -> bool:
    """Whether what the reduction itself computes its elements from changes until they are added to the total."""
    work = next((entry for entry in folded if entry.reduction is deferred.reduction), None)
    body = deferred.loop.body
    at, then = (next(i for i, s in enumerate(body) if s is o) for o in (deferred.reduction, deferred.update))
    return work is not None and work.changes(body[at : then + 1])


def _walk(
    statements: tuple[Stmt, ...],
    kernel: Kernel,
    decisions: Decisions,
    target: Target,
    found: list[DeferredSum],
) -> None:
    for position, statement in enumerate(statements):
        if isinstance(statement, Persistent):
            _walk(statement.body, kernel, decisions, target, found)
        if isinstance(statement, For):
            for inner in statement.body:
                if isinstance(inner, Reduce) and _splits(inner, decisions, target):
                    update = _only_update(statement, inner, kernel)
                    if (
                        update is not None
                        and _starts_at_zero(statements[:position], update)
                        and _in_place(inner, update, decisions)
                    ):
                        found.append(
                            DeferredSum(inner, update, _factor(update, inner.target.buffer), statement)
                        )


def _splits(reduction: Reduce, decisions: Decisions, target: Target) -> bool:
    """Whether lanes of one warp, and no other threads, share what the sum adds up."""
    source, result = reduction.source.buffer, reduction.target.buffer
    if (
        reduction.op != "sum"
        or not reduction.clear
        or reduction in decisions.exchanges
        or source.scope != "fragment"
        or result.scope != "fragment"
    ):
        return False
    steps = reduction_steps(decisions.fragment(source), reduction, target)
    return bool(steps.masks) and not steps.warps and result.dtype.is_float and result.dtype.bits >= 32


def _in_place(reduction: Reduce, update: ParallelFor, decisions: Decisions) -> bool:
    """Whether the lanes that reduce a row are those that hold its total, and all else that the update reads."""
    store = update.body[0]
    assert isinstance(store, Store)
    if store.buffer.scope != "fragment" or update in decisions.exchanges:
        return False
    natural = reduced(decisions.fragment(reduction.source.buffer), reduction)
    return natural.same_distribution(decisions.fragment(store.buffer))


def _only_update(loop: For, reduction: Reduce, kernel: Kernel) -> ParallelFor | None:
    """The statement of the loop that adds the sum to a total, if nothing else reads either of them in the loop."""
    part = reduction.target.buffer
    users = [
        s
        for s in each_statement(kernel.body)
        if isinstance(s, ParallelFor) and part in (*reads(s), *writes(s))
    ]
    others = [
        s
        for s in each_statement(kernel.body)
        if not isinstance(s, ParallelFor | For | Persistent)
        and s is not reduction
        and part in (*reads(s), *writes(s))
        and not isinstance(s, Store)
    ]
    if len(users) != 1 or others or not any(s is users[0] for s in loop.body):
        return None
    update = users[0]
    if len(update.body) != 1 or not isinstance(update.body[0], Store):
        return None
    store = update.body[0]
    total = store.buffer
    if store.indices != update.vars or update.extents != total.shape:
        return None  # the sums of other elements must not be added
    if total.dtype != part.dtype or not _linear(
        store.value, Load(total, store.indices), Load(part, store.indices)
    ):
        return None
    at, then = (next(i for i, s in enumerate(loop.body) if s is one) for one in (reduction, update))
    if any(reduction.source.buffer in writes(s) for s in loop.body[at:then]) or then < at:
        return None
    touched = [s for s in loop.body if s is not update and total in (*reads(s), *writes(s))]
    return update if not touched else None


def _factor(update: ParallelFor, part: Buffer) -> Expr | None:
    """What the update multiplies the total by."""
    store = update.body[0]
    assert isinstance(store, Store) and isinstance(store.value, Binary)
    added = Load(part, store.indices)
    scaled = store.value.left if store.value.right == added else store.value.right
    if not isinstance(scaled, Binary):
        return None
    return scaled.right if scaled.left == Load(store.buffer, store.indices) else scaled.left


def _linear(value: Expr, total: Load, part: Load) -> bool:
    """Whether the value is total * factor + part."""
    if not isinstance(value, Binary) or value.op != "+":
        return False
    for scaled, added in ((value.left, value.right), (value.right, value.left)):
        if added != part:
            continue
        if scaled == total:
            return True
        if isinstance(scaled, Binary) and scaled.op == "*":
            for operand, factor in ((scaled.left, scaled.right), (scaled.right, scaled.left)):
                if operand == total and not any(b in (total.buffer, part.buffer) for b in loaded(factor)):
                    return True
    return False


def _starts_at_zero(before: tuple[Stmt, ...], update: ParallelFor) -> bool:
    """Whether the last statement in front of the loop that touches the total clears all of it."""
    store = update.body[0]
    assert isinstance(store, Store)
    touching = [s for s in before if store.buffer in (*reads(s), *writes(s))]
    if not touching:
        return False
    last = touching[-1]
    match last:
        case Fill(target, Const(value=0)):
            return target.tile == store.buffer.extents
        case _:
            return False
