"""Element-wise work that only feeds a reduction: it is done inside the reduction, and what it would fill is not needed.

`squares[i, j] = x[i, j] * x[i, j]` and then `T.reduce_sum(squares, total)` need no array of squares: each is added to
the total as it is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilegen.inference.decisions import Decisions
from tilegen.ir import build
from tilegen.ir.effects import blocks_of, expressions_of
from tilegen.ir.expressions import Expr
from tilegen.ir.nodes import Assign, Buffer, Gemm, Kernel, Let, ParallelFor, Reduce, Stmt, Store
from tilegen.ir.traversal import substitute
from tilegen.schedule.analysis import each_statement, loaded, reads, variables, writes


@dataclass(frozen=True, slots=True)
class Element:
    """What an element-wise statement stores, and the values that it names on the way."""

    lets: tuple[Let, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class FoldedElements:
    """The `reduction` computes each element of its source itself, as `elements` would have stored it."""

    elements: ParallelFor
    reduction: Reduce
    element: Element  # over the variables of the element-wise loop

    def at(self, indices: tuple[Expr, ...]) -> Element:
        """The element at these indices."""
        names = (var.name for var in self.elements.vars)
        here = dict(zip(names, indices, strict=True))
        lets = tuple(replace(let, value=substitute(let.value, here)) for let in self.element.lets)
        return Element(lets, substitute(self.element.value, here))

    def changes(self, statements: tuple[Stmt, ...]) -> bool:
        """Whether statements change what an element is made of."""
        buffers, names = loaded(self.element), variables(self.element)
        return any(
            any(buffer in buffers for buffer in writes(statement))
            or (isinstance(statement, Assign) and statement.var.name in names)
            for statement in each_statement(statements)
        )


def fold_elements(kernel: Kernel, decisions: Decisions) -> tuple[FoldedElements, ...]:
    """The element-wise statements of the kernel that reductions do by the way."""
    found = [folded for block in _blocks(kernel.body) for folded in _folded(block, decisions)]
    return tuple(folded for folded in found if _all_users_fold(folded, found, kernel))


def _blocks(statements: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """The blocks of statements that the threads run together: those inside element-wise loops are left out."""
    yield statements
    for statement in statements:
        if not isinstance(statement, ParallelFor):
            for block in blocks_of(statement):
                yield from _blocks(block)


def _folded(block: tuple[Stmt, ...], decisions: Decisions) -> Iterator[FoldedElements]:
    for at, statement in enumerate(block):
        if not isinstance(statement, ParallelFor) or (element := _element(statement, decisions)) is None:
            continue
        (buffer,) = writes(statement)
        reader = next((s for s in block[at + 1 :] if _uses(s, buffer)), None)
        if not isinstance(reader, Reduce) or reader.source.tile != buffer.extents:
            continue
        end = next(position for position, s in enumerate(block) if s is reader)
        # A loop with gemms may be skewed: its statements pass each other.
        skewed = any(isinstance(s, Gemm) for s in block)
        folded = FoldedElements(statement, reader, element)
        if not folded.changes(block[at + 1 :] if skewed else block[at + 1 : end + 1]):
            yield folded


def _element(loop: ParallelFor, decisions: Decisions) -> Element | None:
    """What the loop stores in each element of a fragment, if that is all it does and registers of the thread itself are
    all it needs."""
    *lets, store = loop.body
    if not isinstance(store, Store) or store.buffer.scope != "fragment" or store.indices != loop.vars:
        return None
    named = tuple(let for let in lets if isinstance(let, Let) and not let.mutable)
    element = Element(named, build.cast(store.value, store.buffer.dtype))
    whole = len(named) == len(lets) and loop.extents == store.buffer.shape
    own = all(buffer.scope in ("fragment", "local") for buffer in loaded(element))
    same = decisions.loops[loop] == decisions.fragments.get(store.buffer.name)
    kept = decisions.exchanges.get(loop) is None and store.buffer not in loaded(element)
    return element if whole and own and same and kept else None


def _uses(statement: Stmt, buffer: Buffer) -> bool:
    return buffer in (*reads(statement), *writes(statement))


def _all_users_fold(folded: FoldedElements, found: list[FoldedElements], kernel: Kernel) -> bool:
    """Whether nothing but reductions that compute its elements themselves uses the source."""
    buffer = folded.reduction.source.buffer
    ours = [s for f in found if f.reduction.source.buffer == buffer for s in (f.elements, f.reduction)]
    for statement in (s for block in _blocks(kernel.body) for s in block):
        nested = bool(blocks_of(statement)) and not isinstance(statement, ParallelFor)
        used = loaded(expressions_of(statement)) if nested else (*reads(statement), *writes(statement))
        if buffer in used and not any(statement is one for one in ours):
            return False
    return True
