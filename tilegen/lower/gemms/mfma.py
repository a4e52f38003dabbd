"""Gemms on CDNA's matrix cores: operands from LDS 16 bytes a lane at a time, or from registers.

The matrix instructions get B first: their result is C transposed, so that a lane holds neighbours along n. See
tilegen.inference.mfma_operands for the orders along k and n.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.inference.decisions import GemmDecision
from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.mfma_operands import WAVE, lane_k, operand_fragment, step_k
from tilegen.inference.operand_parts import is_part, starts_on
from tilegen.inference.shared import SharedLayout
from tilegen.ir.nodes import Gemm, Region
from tilegen.lower.copies import lds_tile
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.addresses import as_vector, shared_element_at, vector_type
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.scalar import scalar
from tilegen.lower.vocabulary.threads import coordinate
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, Reinterpret
from tilegen.model.statements import AssignC, CStmt, Declare, Expression, ForC, Scope

REPEAT_NAMES = {"a": "mi", "b": "ni"}


def lower_gemm(context: Context, gemm: Gemm) -> list[CStmt]:
    """C += A B of one tile, step by step along k."""
    decision = context.decisions.gemms[gemm]
    steps = steps_of(decision)
    names = {which: context.name(f"{which.upper()}_operand") for which in ("a", "b")}
    step: CExpr = Name("step") if steps > 1 else Literal(0)
    body: list[CStmt] = []
    for which in ("a", "b"):
        if from_shared(decision, which):
            body.append(declare_operand(gemm, decision, which, names[which]))
            body.append(read_operand(context, gemm, which, Name(names[which]), step))
    body += multiply(context, gemm, {which: Name(name) for which, name in names.items()}, step)
    for name in names.values():
        context.taken.pop(name, None)
    if steps == 1:  # operand registers are named alike in every gemm
        return [Scope(tuple(body))] if len(context.decisions.gemms) > 1 else body
    return [
        ForC(
            "step", Literal(0), Literal(steps), tuple(body), unroll=True, comment=f"{step_k(decision)} k each"
        )
    ]


def steps_of(decision: GemmDecision) -> int:
    return decision.k_extent // step_k(decision)


def from_shared(decision: GemmDecision, which: str) -> bool:
    return (decision.a_source if which == "a" else decision.b_source) == "shared"


def operand_repeats(decision: GemmDecision, which: str) -> int:
    return decision.repeats[0 if which == "a" else 1]


def operand_type(gemm: Gemm, decision: GemmDecision) -> str:
    """The vector that a lane holds of one row of an operand in one step."""
    return vector_type(gemm.a.buffer.dtype, lane_k(decision), "hip")


def declare_operand(gemm: Gemm, decision: GemmDecision, which: str, name: str) -> CStmt:
    """`fp16x8 a[4];`"""
    return Declare(
        operand_type(gemm, decision), name, dimensions=(Literal(operand_repeats(decision, which)),)
    )


def read_operand(context: Context, gemm: Gemm, which: str, into: CExpr, step: CExpr) -> CStmt:
    """Reads one step of an operand from LDS: 16 bytes at once where k is contiguous there, else by elements."""
    decision = context.decisions.gemms[gemm]
    region = gemm.a if which == "a" else gemm.b
    layout = context.decisions.layout(region.buffer)
    neighbours = lane_k(decision)
    target = c.index(into, repeat_index(decision, which))
    major = decision.a_major if which == "a" else decision.b_major
    whole = layout.group % neighbours == 0 and layout.padding % neighbours == 0
    contiguous = -2 if layout.transposed else -1
    whole = whole and (
        not is_part(region) or starts_on(region, contiguous, neighbours, context.decisions.divisors)
    )
    if layout.transposed != (major == "MN") or not whole:
        return _gather_operand(context, gemm, which, target, step)
    place = _operand_place(context, region, layout, decision, which, step)
    vector = as_vector(place.element, region.buffer.dtype, neighbours, "hip", const=True)
    comment = "so ordered that a lane gets neighbours along a row of C" if which == "b" else ""
    body = (Declare("int", "row", place.row, const=True, comment=comment), AssignC(target, vector))
    return each_repeat(decision, which, body)


def _gather_operand(context: Context, gemm: Gemm, which: str, into: CExpr, step: CExpr) -> CStmt:
    """Element by element, from a tile that other statements want with another axis contiguous."""
    decision = context.decisions.gemms[gemm]
    region = gemm.a if which == "a" else gemm.b
    buffer = region.buffer
    fragment = operand_fragment(decision, which)
    position = (repeat_index(decision, which), step, Name("e"))
    own, k = (coordinate(fragment, axis, position, context.threads) for axis in (0, 1))
    transposed = (decision.a_major if which == "a" else decision.b_major) == "MN"
    indices = [scalar(context, offset) for offset in region.offsets]
    names = ("k", "row") if transposed else ("row", "k")
    for axis, name in zip(region.kept, names, strict=True):
        indices[axis] = c.add(indices[axis], name)
    element = shared_element_at(
        context,
        buffer.name,
        context.decisions.layout(buffer),
        shared_tiles.extent_constants(context, buffer),
        indices,
    )
    body = (
        Declare("int", "row", own, const=True),
        Declare("int", "k", k, const=True),
        AssignC(c.index(into, "e"), element),
    )
    inner = ForC("e", Literal(0), Literal(lane_k(decision)), body, unroll=True)
    return each_repeat(decision, which, (inner,))


@dataclass(frozen=True, slots=True)
class _Place:
    row: CExpr
    element: CExpr


def _operand_place(
    context: Context,
    region: Region,
    layout: SharedLayout,
    decision: GemmDecision,
    which: str,
    step: CExpr,
) -> _Place:
    """Where a lane finds its part of a repetition of an operand in a step: the row, and the first element there."""
    neighbours = lane_k(decision)
    position = (repeat_index(decision, which), step, Literal(0))
    fragment = operand_fragment(decision, which)
    offsets = [scalar(context, region.offsets[axis]) for axis in region.kept]
    if layout.transposed:
        offsets.reverse()
    own = coordinate(fragment, 0, position, context.threads)
    row = c.add(own, offsets[0], _leading_rows(context, region, layout))
    unit = coordinate(_scaled(fragment, neighbours), 1, position, context.threads)
    unit = c.add(unit, c.div(offsets[1], neighbours))
    tile = _flat(shared_tiles.tile(context, region.buffer.name), region)
    if neighbours == layout.chunk:
        return _Place(row, lds_tile.place(tile, layout, Name("row"), unit))
    per_chunk = layout.chunk // neighbours
    rest = c.mul(neighbours, c.mod(unit, per_chunk))
    return _Place(row, lds_tile.place(tile, layout, Name("row"), c.div(unit, per_chunk), rest))


def _leading_rows(context: Context, region: Region, layout: SharedLayout) -> CExpr:
    """The rows before the matrix of a tile with more than two axes."""
    rows = layout.stored[-2] if len(layout.stored) > 1 else 1
    total: CExpr = Literal(0)
    for axis in range(len(layout.shape) - 2):
        total = c.add(c.mul(total, layout.shape[axis]), scalar(context, region.offsets[axis]))
    return c.mul(rows, total)


def _flat(tile: CExpr, region: Region) -> CExpr:
    """The tile as one sequence of rows: leading axes count as rows."""
    for _ in range(region.buffer.rank - 2):
        tile = c.index(tile, 0)
    return tile


def _scaled(fragment: Fragment, unit: int) -> Fragment:
    """The fragment with its columns counted in units."""

    def scaled(modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
        return tuple(Mode(mode.extent, (mode.steps[0], mode.steps[1] // unit)) for mode in modes)

    return Fragment(
        fragment.tile, scaled(fragment.threads), (*map(scaled, fragment.registers[:-1]), (Mode(1, (0, 0)),))
    )


def multiply(context: Context, gemm: Gemm, operands: dict[str, CExpr], step: CExpr) -> list[CStmt]:
    """All matrix instructions of one step; `operands` are indexed by repetition."""
    decision = context.decisions.gemms[gemm]
    context.primitive("mfma", atom=decision.atom)
    own = decision.instruction[2] * decision.instruction[0] // WAVE
    mi, ni = repeat_index(decision, "a"), repeat_index(decision, "b")
    a, b = (
        c.index(operands[which], at)
        if from_shared(decision, which)
        else _register_operand(context, gemm, which, at, step)
        for which, at in (("a", mi), ("b", ni))
    )
    parts: tuple[str, ...] = ("",)
    if own < lane_k(decision):
        context.primitive("halves", type="bf16" if gemm.a.buffer.dtype.name == "bfloat16" else "fp16")
        parts = ("low_half", "high_half")
    out: list[CStmt] = []
    for part in parts:
        first, second = (c.call(part, b), c.call(part, a)) if part else (b, a)
        call = Expression(c.call(decision.atom, first, second, c.index(gemm.c.buffer.name, mi, ni)))
        out.append(each_repeat(decision, "a", (each_repeat(decision, "b", (call,)),)))
    return out


def repeat_index(decision: GemmDecision, which: str) -> CExpr:
    """The repetition along m ("a") or n ("b") that is at hand: the variable of `each_repeat`."""
    return Name(REPEAT_NAMES[which]) if operand_repeats(decision, which) > 1 else Literal(0)


def each_repeat(decision: GemmDecision, which: str, body: tuple[CStmt, ...]) -> CStmt:
    """The body for each repetition; no loop where there is one."""
    count = operand_repeats(decision, which)
    if count == 1:
        return body[0] if len(body) == 1 else Scope(body)
    return ForC(REPEAT_NAMES[which], Literal(0), Literal(count), body, unroll=True)


def hold_accumulators(context: Context, decision: GemmDecision, name: str) -> CStmt:
    """Where a loop that adds to the accumulators has ended: they are to stay where they are until they are used."""
    return each_repeat(decision, "a", (hold_row(context, decision, name),))


def hold_row(context: Context, decision: GemmDecision, name: str) -> CStmt:
    """The same for the accumulators of row block `mi`."""
    m, n, _ = decision.instruction
    context.primitive("hold_accumulators", registers=m * n // WAVE)
    block = c.index(name, repeat_index(decision, "a"), repeat_index(decision, "b"))
    return each_repeat(decision, "b", (Expression(c.call("hold_accumulators", block)),))


def registers_of_thread(context: Context) -> int:
    """What the block's size leaves to a thread, vector and accumulation registers together."""
    limits = context.target.limits
    return min(limits.registers_per_thread, limits.registers_per_multiprocessor // context.plan.threads)


def _register_operand(context: Context, gemm: Gemm, which: str, at: CExpr, step: CExpr) -> CExpr:
    """A lane's part of an operand that it holds in registers already."""
    decision = context.decisions.gemms[gemm]
    name = (gemm.a if which == "a" else gemm.b).buffer.name
    context.aligned[name] = max(context.aligned.get(name, 0), 2 * lane_k(decision))
    return Reinterpret(operand_type(gemm, decision), c.index(name, at, step, 0), const=True)
