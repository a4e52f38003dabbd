"""Gemms on warp instructions: ldmatrix one step of k ahead of the multiplications.

Source: PTX ISA, "ldmatrix" and "mma.m16n8k16": register i of an x4 load holds the 8 x 8 matrix that lanes 8 i … 8 i + 7
point at; a transposed load serves operands whose rows in shared memory run along m or n.
"""

from __future__ import annotations

from tilegen.inference.decisions import GemmDecision
from tilegen.inference.shared import SharedLayout
from tilegen.ir.nodes import Gemm, Region
from tilegen.lower import shared_tiles
from tilegen.lower.context import Context
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Index, Literal, Name, Operation, Prefix, Reinterpret
from tilegen.model.statements import CStmt, Declare, Expression, ForC, IfC
from tilegen.schedule.registers import operand_slots

STEP = 16  # of k
CHUNK = 8  # elements in 16 bytes


def lower_gemm(context: Context, gemm: Gemm) -> list[CStmt]:
    """C += A B of one tile. Fragments of A and B that come from shared memory are read one step ahead."""
    decision = context.decisions.gemms[gemm]
    context.primitive("mma_sync", a="bf16" if gemm.a.buffer.dtype.name == "bfloat16" else "f16")
    steps = c.div(shared_tiles.extent_constants(context, gemm.a.buffer)[0 if gemm.transpose_a else 1], STEP)
    ahead = decision.steps > 1 and slots(context) == 2
    out = declare_operands(decision, (Literal(2),) if ahead else ())
    first = loads(context, gemm, decision, Literal(0), Literal(0) if ahead else None)
    out += first if ahead else []
    kk = Name("kk")
    body: list[CStmt] = []
    if ahead and first:
        following = loads(context, gemm, decision, c.add(kk, 1), c.mod(c.add(kk, 1), 2))
        body.append(IfC(c.operation("<", c.add(kk, 1), steps), tuple(following)))
    elif first:
        body += loads(context, gemm, decision, kk, None)
        out = declare_operands(decision, ())
    body += multiply(gemm, decision, kk, c.mod(kk, 2) if ahead else None)
    note = "loads run one step of 16 k ahead" if ahead and first else ""
    out.append(ForC("kk", Literal(0), steps, tuple(body), unroll=True, comment=note))
    return out


def slots(context: Context) -> int:
    """Register slots for operands: 2 where they fit."""
    blocks = context.plan.blocks_per_multiprocessor
    guarded = context.guarded or context.plan.kind == "simple"
    return operand_slots(context.program, context.decisions, context.target, blocks, guarded)


def declare_operands(decision: GemmDecision, slots: tuple[CExpr, ...]) -> list[CStmt]:
    """Registers for the operands that come from shared memory."""
    repeat_m, repeat_n = decision.repeats
    out: list[CStmt] = []
    if decision.a_source == "shared":
        out.append(Declare("u32", "a", dimensions=(*slots, Literal(repeat_m), Literal(4))))
    if decision.b_source == "shared":
        out.append(Declare("u32", "b", dimensions=(*slots, Literal(repeat_n), Literal(2))))
    return out


def loads(
    context: Context, gemm: Gemm, decision: GemmDecision, step: CExpr, slot: CExpr | None
) -> list[CStmt]:
    """The ldmatrix of one step of k into a register slot."""
    out: list[CStmt] = []
    if decision.a_source == "shared":
        out.append(_load_a(context, gemm.a, decision, step, slot))
    if decision.b_source == "shared":
        out.append(_load_b(context, gemm.b, decision, step, slot))
    return out


def _slot(name: str, slot: CExpr | None) -> CExpr:
    return Name(name) if slot is None else c.index(name, slot)


def _load_a(
    context: Context, region: Region, decision: GemmDecision, step: CExpr, slot: CExpr | None
) -> CStmt:
    """16 rows x 16 k an ldmatrix.x4: registers are rows 0-7, rows 8-15, then the same for the next 8 k."""
    transposed = decision.a_major == "MN"
    context.primitive("ldmatrix", count=4, transpose=transposed)
    layout = context.decisions.layout(region.buffer)
    lane = context.threads.name("lane")
    along_m, _ = decision.warps
    rows = STEP * decision.repeats[0]
    first = c.mul(rows, context.threads.digit(32, along_m)) if along_m > 1 else Literal(0)
    m = c.add(first, c.mul(16, "mi"))
    if transposed:
        row = c.add(c.mul(STEP, step), c.mod(lane, 8), c.mul(8, c.div(lane, 16)))
        column = c.add(m, c.mul(8, c.mod(c.div(lane, 8), 2)))
    else:
        row = c.add(m, c.mod(lane, 16))
        column = c.add(c.mul(STEP, step), c.mul(8, c.div(lane, 16)))
    call = c.call(
        f"ldmatrix_x4{'_trans' if transposed else ''}",
        c.index(_slot("a", slot), "mi"),
        chunk_address(context, region, layout, row, column),
    )
    return ForC("mi", Literal(0), Literal(decision.repeats[0]), (Expression(call),), unroll=True)


def _load_b(
    context: Context, region: Region, decision: GemmDecision, step: CExpr, slot: CExpr | None
) -> CStmt:
    """16 k x 16 columns an ldmatrix.x4: two registers for each of two neighbouring tiles of 8 columns."""
    transposed = decision.b_major == "MN"
    context.primitive("ldmatrix", count=4, transpose=transposed)
    layout = context.decisions.layout(region.buffer)
    lane = context.threads.name("lane")
    along_m, along_n = decision.warps
    columns = CHUNK * decision.repeats[1]
    first = c.mul(columns, context.threads.digit(32 * along_m, along_n)) if along_n > 1 else Literal(0)
    n = c.add(first, c.mul(8, "ni"))
    if transposed:
        row = c.add(c.mul(STEP, step), c.mod(lane, 16))
        column = c.add(n, c.mul(8, c.div(lane, 16)))
    else:
        row = c.add(n, c.mod(lane, 8), c.mul(8, c.div(lane, 16)))
        column = c.add(c.mul(STEP, step), c.mul(8, c.mod(c.div(lane, 8), 2)))
    call = c.call(
        f"ldmatrix_x4{'_trans' if transposed else ''}",
        Reinterpret("u32(&)[4]", c.index(_slot("b", slot), "ni"), dereference=False),
        chunk_address(context, region, layout, row, column),
    )
    return ForC(
        "ni", Literal(0), Literal(decision.repeats[1]), (Expression(call),), step=Literal(2), unroll=True
    )


def chunk_address(context: Context, region: Region, layout: SharedLayout, row: CExpr, column: CExpr) -> CExpr:
    """`&shared.A_shared[stage][group][row][8 * (chunk ^ row % 8)]` of the 16 bytes that start at (row, column)."""
    base = shared_tiles.tile(context, region.buffer.name)
    chunk = eighth(column)
    per_group = layout.group // CHUNK
    if layout.groups > 1:
        base = c.index(base, c.div(chunk, per_group))
        chunk = c.mod(chunk, per_group)
    for xor in layout.xors:
        chunk = Operation("^", chunk, c.mod(c.div(row, xor.divisor), xor.extent))
    return Prefix("&", Index(c.index(base, row), c.mul(CHUNK, chunk)))


def eighth(expression: CExpr) -> CExpr:
    """The expression divided by 8, term by term where all terms are multiples of 8."""
    match expression:
        case Literal(int() as value) if value % CHUNK == 0:
            return Literal(value // CHUNK)
        case Operation("*", Literal(int() as factor), right) if factor % CHUNK == 0:
            return c.mul(factor // CHUNK, right)
        case Operation("+", left, right):
            return c.add(eighth(left), eighth(right))
        case _:
            return c.div(expression, CHUNK)


def multiply(gemm: Gemm, decision: GemmDecision, step: CExpr, slot: CExpr | None) -> list[CStmt]:
    """All atoms of one step of k."""
    if decision.a_source == "shared":
        a: CExpr = c.index(_slot("a", slot), "mi")
    else:
        a = _register(gemm.a.buffer.name, "mi", step, "const u32(&)[4]")
    if decision.b_source == "shared":
        b: CExpr = c.index(_slot("b", slot), "ni")
    else:
        b = _register(gemm.b.buffer.name, step, Name("ni"), "const u32(&)[2]")
    call = Expression(c.call(f"{decision.atom}::fma", c.index(gemm.c.buffer.name, "mi", "ni"), a, b))
    inner = ForC("ni", Literal(0), Literal(decision.repeats[1]), (call,), unroll=True)
    return [ForC("mi", Literal(0), Literal(decision.repeats[0]), (inner,), unroll=True)]


def _register(name: str, first: str | CExpr, second: CExpr, type_name: str) -> CExpr:
    return Reinterpret(type_name, c.index(name, first, second, 0), dereference=False)
