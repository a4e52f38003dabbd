"""Gemms on warpgroup instructions: descriptors, the loop over k, one commit group a gemm.

Source: PTX ISA, "Asynchronous warpgroup level matrix multiply-accumulate", matrix descriptor; strides in bytes there,
advances along k in units of 16 bytes (the descriptor's address field).
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.inference.decisions import GemmDecision
from tilegen.inference.exchanged import exchanged
from tilegen.inference.gemm_wgmma import DEPTH
from tilegen.ir.nodes import Gemm, Region
from tilegen.lower.gemms.own_k import own_extent, own_part
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.context import Context
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, Reinterpret
from tilegen.model.kernel import Constant
from tilegen.model.statements import CStmt, Declare, Expression, ForC

UNIT = 16  # bytes, of a descriptor's address
SWIZZLE_ROWS = 8  # after which a swizzle repeats


@dataclass(frozen=True, slots=True)
class _Operand:
    """One operand in shared memory: its descriptor and how it advances."""

    descriptor: CExpr
    advance: CExpr  # in 16-byte units, over `kk`
    repeat_units: CExpr  # from one m64 atom to the next


@dataclass(frozen=True, slots=True)
class GemmParts:
    """The pieces of a gemm: its descriptors, the instructions of one step of k, over `kk`, and the number of steps."""

    descriptors: tuple[CStmt, ...]
    multiply: tuple[CStmt, ...]
    steps: CExpr
    note: str


def lower_gemm(context: Context, gemm: Gemm, accumulate: CExpr) -> list[CStmt]:
    """Issues and commits the gemm; whoever reads the accumulators waits.

    `accumulate` says whether the first step adds to the accumulators, as an expression in scope (a literal where
    known).
    """
    for name in ("warpgroup_arrive", "warpgroup_commit"):
        context.primitive(name)
    parts = gemm_parts(context, gemm, accumulate)
    for declaration in parts.descriptors:
        if isinstance(declaration, Declare):  # another gemm of the same block calls its own differently
            context.taken[declaration.name] = None
    return [
        *parts.descriptors,
        Expression(c.call("warpgroup_arrive")),
        ForC("kk", Literal(0), parts.steps, parts.multiply, unroll=True, comment=parts.note),
        Expression(c.call("warpgroup_commit")),
    ]


def gemm_parts(context: Context, gemm: Gemm, accumulate: CExpr) -> GemmParts:
    """The pieces of a gemm, for whoever puts other work between them."""
    decision = context.decisions.gemms[gemm]
    if decision.exchanged:
        gemm = exchanged(gemm)
    atom = _atom(context, gemm, decision)
    descriptors: list[CStmt] = []
    repeat = context.name("mi") if decision.repeats[0] > 1 else ""
    kk = Name("kk")
    a_name, b_name = context.name("descriptor_a"), context.name("descriptor_b")
    b = _operand(context, gemm, decision, "b", kk)
    if decision.a_source == "shared":
        a = _operand(context, gemm, decision, "a", kk)
        descriptors.append(Declare("u64", a_name, a.descriptor, const=True))
        a_value: CExpr = c.add(a_name, a.advance)
        if repeat:
            a_value = c.add(a_value, c.operation("*", a.repeat_units, repeat))
    else:
        a_value = _register_operand(context, gemm, decision, kk, repeat)
    descriptors.append(Declare("u64", b_name, b.descriptor, const=True))
    accumulator = c.index(gemm.c.buffer.name, repeat) if repeat else Name(gemm.c.buffer.name)
    call = c.call(
        f"{atom}::fma",
        accumulator,
        a_value,
        c.add(b_name, b.advance),
        _accumulate(accumulate, kk),
    )
    body: tuple[CStmt, ...] = (Expression(call),)
    if repeat:
        body = (ForC(repeat, Literal(0), Literal(decision.repeats[0]), body, unroll=True),)
        context.taken.pop(repeat, None)
    for name in (a_name, b_name):
        context.taken.pop(name)
    steps = c.div(own_extent(context, gemm, decision), DEPTH)
    return GemmParts(tuple(descriptors), body, steps, _advance_note(context, gemm, decision))


def _atom(context: Context, gemm: Gemm, decision: GemmDecision) -> str:
    """The instruction's name in the text: a template over the operands' majors where gemms of the kernel differ in
    them."""
    facts: dict[str, object] = {
        "n": decision.instruction[1],
        "a": "bf16" if gemm.a.buffer.dtype.name == "bfloat16" else "f16",
        "d": "f32",
        "source": "RS" if decision.a_source == "register" else "SS",
    }
    alike = [one for _, one in context.decisions.gemms.items() if one.atom == decision.atom]
    majors = _majors(decision)
    if all(_majors(one) == majors for one in alike):
        context.primitive("wgmma_fixed", **facts, majors=", ".join(majors))
        return decision.atom
    context.primitive("wgmma", **facts)
    return f"{decision.atom}<{', '.join(f'Major::{major}' for major in majors)}>"


def _majors(decision: GemmDecision) -> tuple[str, ...]:
    """Which dimension of each operand in shared memory is contiguous: "K" or "MN"."""
    if decision.a_source == "register":
        return (decision.b_major,)
    return decision.a_major, decision.b_major


def _accumulate(first: CExpr, kk: CExpr) -> CExpr:
    match first:
        case Literal(True, "bool"):
            return first
        case Literal(False, "bool"):
            return c.operation(">", kk, 0)
        case _:
            return c.operation("||", first, c.operation(">", kk, 0))


def _advance_note(context: Context, gemm: Gemm, decision: GemmDecision) -> str:
    """How the operands' descriptors move."""
    units = "in 16-byte units"
    if decision.exchanged:
        units = f"A is {gemm.a.buffer.name} and B is {gemm.b.buffer.name}; {units}"
    b = _advance(context, gemm.b, decision.b_major)
    if decision.a_source == "register":
        return f"{units}: B advances {b}"
    a = _advance(context, gemm.a, decision.a_major)
    if decision.repeats[0] > 1:
        return f"{units}: A advances {a}, and 64 rows a repeat; B {b}"
    return f"{units}: A and B advance {a}" if a == b else f"{units}: A advances {a}, B {b}"


def _advance(context: Context, region: Region, major: str) -> str:
    layout = context.decisions.layout(region.buffer)
    if major != "K":
        return f"{DEPTH} rows"
    return f"{DEPTH} columns" + (f", every {layout.group} to the next group" if layout.groups > 1 else "")


def _operand(context: Context, gemm: Gemm, decision: GemmDecision, which: str, kk: CExpr) -> _Operand:
    region = gemm.a if which == "a" else gemm.b
    layout = context.decisions.layout(region.buffer)
    swizzle = layout.hardware_swizzle
    assert swizzle
    context.primitive("descriptor", swizzle=swizzle)
    major = decision.a_major if which == "a" else decision.b_major
    part, owner = _own_part(context, decision, which)
    row_bytes = layout.group * layout.dtype.bytes
    atom = _atom_bytes(context, swizzle, row_bytes)
    group = shared_tiles.group_size(context, region.buffer.name)
    k_part = own_part(context, decision, context.target.limits.warpgroup_size)
    k_extent = own_extent(context, gemm, decision)
    if major == "K":
        first = context.threads.scaled(part, owner)
        first_group: CExpr = Literal(0)
        per_group = layout.group // DEPTH
        if decision.k_parts > 1 and decision.steps % per_group == 0:
            columns = shared_tiles.group_columns(context, layout, k_extent)
            own_groups = c.div(k_extent, columns) if decision.steps > per_group else Literal(1)
            first_group = c.mul(own_groups, k_part)
        elif decision.k_parts > 1:  # a part begins inside of a group
            kk = c.add(c.mul(decision.steps, k_part), kk)
        tile = shared_tiles.row_of_group(context, region.buffer.name, layout, first_group, first)
        leading: CExpr = Literal(0)
        units = DEPTH * layout.dtype.bytes // UNIT
        if layout.groups == 1:
            advance = c.mul(units, kk)
        else:
            within = c.mul(units, c.mod(kk, per_group))
            advance = c.add(within, _units(group, c.div(kk, per_group)))
        repeat_units = _in_units(c.mul(64 // SWIZZLE_ROWS, atom))
    else:
        groups = (
            c.mul(part // layout.group, owner)
            if part % layout.group == 0
            else c.div(c.mul(part, owner), layout.group)
        )
        first = c.mul(k_extent, k_part)
        tile = shared_tiles.row_of_group(context, region.buffer.name, layout, groups, first)
        leading = group if layout.groups > 1 else Literal(0)
        advance = _units(c.mul(DEPTH // SWIZZLE_ROWS, atom), kk)
        repeat_units = _in_units(c.mul(64 // layout.group, group))
    descriptor = c.call(f"descriptor_sw{swizzle}", tile, leading, atom)
    return _Operand(descriptor, advance, repeat_units)


def _atom_bytes(context: Context, swizzle: int, row_bytes: int) -> Name:
    """The constant for the bytes after which a swizzle repeats."""
    gemms = [(gemm, one) for gemm, one in context.decisions.gemms.items() if one.family == "wgmma"]
    regions = [region for gemm, _ in gemms for region in (gemm.a, gemm.b) if region.buffer.scope == "shared"]
    swizzles = {context.decisions.layout(region.buffer).hardware_swizzle for region in regions}
    name = "kAtomBytes" if len(swizzles) == 1 else f"kAtomBytes{swizzle}"
    value = c.operation("*", SWIZZLE_ROWS, row_bytes)
    context.constants[name] = Constant(
        name, value, "u32", f"8 rows, the period of the {swizzle}-byte swizzle"
    )
    return Name(name)


def _in_units(size: CExpr) -> CExpr:
    """Bytes in a descriptor's units."""
    return c.operation("/", size, UNIT)


def _units(size: CExpr, count: CExpr) -> CExpr:
    """`count` times as many bytes in a descriptor's units."""
    return c.operation("*", _in_units(size), count)


def _own_part(context: Context, decision: GemmDecision, which: str) -> tuple[int, CExpr]:
    """How many rows (of A) or columns (of B) a consumer warpgroup takes, and its number along them."""
    along_m, along_n = decision.warps
    m, n, _ = decision.instruction
    consumer, warpgroup = context.threads.digit, context.target.limits.warpgroup_size
    if which == "a":
        return m * decision.repeats[0], consumer(warpgroup, along_m) if along_m > 1 else Literal(0)
    return n, consumer(warpgroup * along_m, along_n) if along_n > 1 else Literal(0)


def _register_operand(context: Context, gemm: Gemm, decision: GemmDecision, kk: CExpr, repeat: str) -> CExpr:
    values = 8  # elements a thread and step
    base = c.index(gemm.a.buffer.name, repeat) if repeat else Name(gemm.a.buffer.name)
    return Reinterpret("const u32(&)[4]", c.index(base, c.mul(values, kk)), dereference=False)
