"""Which accesses to tensors that the kernel writes may be to one element by two threads of the block, so that a barrier
must part them. Copies to global memory are stores of whole tiles, and mostly each to a tile of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.loops import Access, AccessKind, Loop, as_loop
from tilegen.ir import build
from tilegen.ir.affine import Ranges, free_vars, interval, linear, substitute
from tilegen.ir.effects import blocks_of
from tilegen.ir.expressions import Expr, Load, Var, VarRole
from tilegen.ir.named_values import named_values
from tilegen.ir.nodes import AtomicElement, AtomicTile, Copy, Kernel, ParallelFor, Stmt, Store
from tilegen.ir.per_thread import PerThread, per_thread
from tilegen.ir.walk import each_statement, subexpressions
from tilegen.lower.vocabulary.conversion import stored_element
from tilegen.schedule.analysis import loaded, reads, writes
from tilegen.schedule.plan import Plan

Way = Literal["staged", "as it is", "computed"]


@dataclass(frozen=True, slots=True)
class TensorTouch:
    """An access of a loop over `extents`, whose variables are called by their position: %0, %1, …; without a
    `partition` it is not known which thread makes it, without `indices` not where. Lanes may exchange what they store
    as it is, one `way` or another. `operations` are those of atomic updates."""

    kind: AccessKind
    partition: Fragment | None = None
    indices: tuple[Expr, ...] = ()
    extents: tuple[int, ...] = ()
    way: Way = "computed"
    operations: tuple[str, ...] = ()


TensorTouches = dict[str, tuple[TensorTouch, ...]]  # by tensor


@dataclass(frozen=True, slots=True)
class Tensors:
    """The tensors that the kernel writes; variables of the `settled` roles have one value in a block. `own` is what
    differs from thread to thread, `lets` the values of names."""

    written: frozenset[str]
    settled: tuple[VarRole, ...]
    plan: Plan
    own: PerThread = field(default_factory=PerThread)
    lets: Mapping[str, Expr] = field(default_factory=dict)

    def touched(self, statement: Stmt, partition: Fragment | None) -> TensorTouches:
        """How a statement touches those tensors."""
        if blocks_of(statement) and as_loop(statement) is None:
            return {}
        found: TensorTouches = {}
        loop = as_loop(statement)
        if isinstance(statement, Store | AtomicElement) and self.own.index is not None:
            loop, partition = self._by_threads(statement, self.own.index)
        if loop is not None:
            way = self._way(statement, loop)
            for access in loop.accesses:
                if access.buffer.name in self.written:
                    touch = _touch(access, loop, partition, way if access.kind == "store" else "computed")
                    found[access.buffer.name] = (*found.get(access.buffer.name, ()), touch)
            return found
        for kind, buffers in (("load", reads(statement)), ("store", writes(statement))):
            touch = TensorTouch("load" if kind == "load" else "store")
            for buffer in buffers:
                if buffer.name in self.written:
                    found[buffer.name] = (*found.get(buffer.name, ()), touch)
        return found

    def _by_threads(
        self, statement: Store | AtomicElement, index: Var
    ) -> tuple[Loop | None, Fragment | None]:
        """A store outside of parallel loops as a loop over the threads, which each store an element of their own."""
        if not self.own.varies(*statement.indices):
            return as_loop(
                ParallelFor((Var("%one", role="parallel"),), (build.const(1),), (statement,))
            ), None
        threads = self.plan.computing
        indices = tuple(substitute(place, self.lets) for place in statement.indices)
        each = Var(index.name, role="parallel")
        loop = as_loop(ParallelFor((each,), (build.const(threads),), (replace(statement, indices=indices),)))
        return loop, Fragment((threads,), (Mode(threads, (1,)),), ((Mode(1, (0,)),),))

    def _way(self, statement: Stmt, loop: Loop) -> Way:
        if isinstance(statement, Copy | AtomicTile) and statement in self.plan.staging:
            return "staged"
        match loop.body:
            case (Store(value=value),) if stored_element(value) is not None:
                return "as it is"
            case _:
                return "computed"

    def evaluated(self, condition: object) -> TensorTouches:
        """How every thread reads those tensors where it evaluates a condition."""
        return {b.name: (TensorTouch("load"),) for b in loaded(condition) if b.name in self.written}

    def meet(self, earlier: TensorTouches, now: TensorTouches) -> bool:
        """Whether two threads may touch one element, unless both read it or both update it alike."""
        return any(
            self._collide(one, other)
            for name, touches in now.items()
            for one in touches
            for other in earlier.get(name, ())
        )

    def _collide(self, one: TensorTouch, other: TensorTouch) -> bool:
        if (
            one.kind == other.kind != "store"
            and one.operations == other.operations
            and len(one.operations) < 2
        ):
            return False  # loads, or updates that commute
        if not one.indices or not other.indices:
            return True
        same = one.partition is not None and one == replace(other, kind=one.kind)
        if same and one.partition is not None and one.partition.replication > 1:
            same = one.kind == other.kind  # one thread of those that hold copies stores
        for left, right in zip(one.indices, other.indices, strict=True):
            distances = self._distances(left, right, one.extents, other.extents)
            if distances is None:
                same = same and self._is_settled(left)
                continue
            constant, step, low, high = distances
            nearest = _multiples(step, low - constant, high - constant)
            if not nearest:
                return False
            same = same and nearest == [0]
        return not same

    def _is_settled(self, index: Expr) -> bool:
        """Whether an index is the same whenever a block gets there, but for the variables of the access's loop."""
        return all(
            part.role in (*self.settled, "parallel") if isinstance(part, Var) else not isinstance(part, Load)
            for part in subexpressions(index)
        )

    def _distances(
        self, left: Expr, right: Expr, extents: tuple[int, ...], others: tuple[int, ...]
    ) -> tuple[int, int, int, int] | None:
        """left - right is constant + a multiple of a step + something between two bounds, where the variables of loops
        around the accesses have any two values, and those of the block one; None where that is not known."""
        one, other = linear(left), linear(right)
        step = low = high = 0
        for form, sign, sizes in ((one, 1, extents), (other, -1, others)):
            ranges: Ranges = {f"%{axis}": (0, extent - 1) for axis, extent in enumerate(sizes)}
            for atom, coefficient in form.terms.items():
                if any(name.startswith("%") for name in free_vars(atom)):
                    least, most = interval(atom, ranges)
                    if least is None or most is None or not self._is_settled(atom):
                        return None
                    ends = sorted((sign * coefficient * least, sign * coefficient * most))
                    low, high = low + ends[0], high + ends[1]
                elif not self._is_settled(atom):
                    step = math.gcd(step, coefficient)
        for atom, coefficient in one.plus(other, -1).terms.items():
            if self._is_settled(atom) and not any(name.startswith("%") for name in free_vars(atom)):
                step = math.gcd(step, coefficient)
        return other.constant - one.constant, step, low, high


def tensors_of(kernel: Kernel, plan: Plan) -> Tensors:
    """The tensors that the kernel writes, and the roles of variables that do not change while a block runs."""
    leaves = [statement for statement in each_statement(kernel.body) if not blocks_of(statement)]
    written = {b.name for statement in leaves for b in writes(statement) if b.scope == "global"}
    settled: tuple[VarRole, ...] = ("extent", "scalar")
    lets = named_values(each_statement(kernel.body))
    settled = settled if plan.persistent else (*settled, "block")
    return Tensors(frozenset(written), settled, plan, per_thread(kernel), lets)


def _touch(access: Access, loop: Loop, partition: Fragment | None, way: Way) -> TensorTouch:
    places = {name: Var(f"%{axis}", role="parallel") for axis, name in enumerate(loop.names)}
    indices = tuple(substitute(index, places) for index in access.indices)
    updates = (s for s in each_statement(loop.body) if isinstance(s, AtomicElement))
    operations = tuple(dict.fromkeys(s.op for s in updates if s.buffer == access.buffer))
    atomic = operations if access.kind == "atomic" else ()
    return TensorTouch(access.kind, partition, indices, loop.extents, way, atomic)


def _multiples(step: int, low: int, high: int) -> list[int]:
    """Multiples of a step between two bounds, two at most."""
    if step == 0:
        return [0] if low <= 0 <= high else []
    first = -(-low // step)
    return [n * step for n in range(first, high // step + 1)][:2]
