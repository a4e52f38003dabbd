"""Accumulators to shared memory by stmatrix, as they lie or transposed: 16-byte rows of 8 x 8 matrices in place of
single elements. Source: PTX ISA, "stmatrix".
"""

from __future__ import annotations

from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.loops import Loop
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.addresses import shared_element_at
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.conversion import PAIRS
from tilegen.lower.vocabulary.element_names import owner_conditions
from tilegen.lower.vocabulary.stored_matrices import Matrices, matrices_of
from tilegen.lower.vocabulary.threads import register_part, thread_part
from tilegen.model import build as c
from tilegen.model.expressions import Braces, CExpr, Literal, Name, Prefix, Reinterpret
from tilegen.model.statements import CStmt, Declare, Expression, ForC, IfC, Scope


def matrix_store(context: Context, loop: Loop, partition: Fragment) -> list[CStmt] | None:
    """The code of a loop that stores a fragment of 8 x 8 matrices to a shared tile; None for any other loop."""
    found = matrices_of(loop, partition, context.decisions, context.target)
    if found is None:
        return None
    count = 4 if found.columns % 2 == 0 else 2
    context.primitive("stmatrix", count=count, transpose=found.transposed)
    outer = partition.registers[:-1]
    mi = Name("mi") if outer else None
    rounds = found.columns * 2 // count
    j: CExpr = Name("j") if rounds > 1 else Literal(0)
    row, column = _place(context, found, partition, mi, j, count)
    layout = context.decisions.layout(found.target)
    extents = shared_tiles.extent_constants(context, found.target)
    target = shared_element_at(context, found.target.name, layout, extents, [Name("row"), Name("column")])
    registers = c.index(found.source.name, mi) if mi is not None else Name(found.source.name)
    pair, convert = PAIRS[found.target.dtype.name]
    packed: list[CExpr] = []
    for q in range(count):
        first = c.index(registers, c.add(c.mul(2 * count, j), 2 * q))
        second = c.index(registers, c.add(c.mul(2 * count, j), 2 * q + 1))
        same = found.source.dtype == found.target.dtype
        packed.append(Reinterpret(pair, first, const=True) if same else c.call(convert, first, second))
    suffix = "_trans" if found.transposed else ""
    values = Reinterpret(f"const u32(&)[{count}]", Name("fragment"), dereference=False)
    body: tuple[CStmt, ...] = (
        Declare("int", "row", row, const=True),
        Declare("int", "column", column, const=True),
        Declare(pair, "fragment", Braces(tuple(packed)), dimensions=(Literal(count),), const=True),
        Expression(c.call(f"stmatrix_x{count}{suffix}", Prefix("&", target), values)),
    )
    across = 8 * count // 2
    if rounds > 1:
        loop_over = f"16 rows x {across} columns of {found.source.name} at a time"
        body = (ForC("j", Literal(0), Literal(rounds), body, unroll=True, comment=loop_over),)
    if mi is not None:
        body = (ForC("mi", Literal(0), Literal(partition.register_shape[0]), body, unroll=True),)
    owner = c.conjunction(owner_conditions(context, partition))
    if owner is not None:  # other warps hold copies
        return [IfC(owner, body)]
    return list(body) if isinstance(body[0], ForC) else [Scope(body)]


def _place(
    context: Context, found: Matrices, partition: Fragment, mi: Name | None, j: CExpr, count: int
) -> tuple[CExpr, CExpr]:
    """Row and column of the tile that a lane points stmatrix at: lanes 8 q … 8 q + 7 the rows of matrix q, of which
    0 and 1 lie one above the other in the fragment, 2 and 3 to their right."""
    threads = context.threads
    lane = threads.name("lane")
    beyond = Fragment(partition.tile, (Mode(32, (0, 0)), *partition.threads[2:]), ((Mode(1, (0, 0)),),))
    top = thread_part(beyond, 0, threads)
    if mi is not None:
        top = c.add(top, register_part(Fragment(partition.tile, (), partition.registers[:-1]), 0, (mi,)))
    left = c.add(thread_part(beyond, 1, threads), c.mul(4 * count, j))
    below = c.mul(8, c.mod(c.div(lane, 8), 2))
    beside: CExpr = c.mul(8, c.div(lane, 16)) if count == 4 else Literal(0)
    within = c.mod(lane, 8)
    if found.transposed:
        return c.add(left, beside, within), c.add(top, below)
    return c.add(top, below, within), c.add(left, beside)
