"""Gemms on warp instructions: ldmatrix one step of k ahead of the multiplications.

Source: PTX ISA, "ldmatrix" and "mma.m16n8k16": register i of an x4 load holds the 8 x 8 matrix that lanes 8 i … 8 i + 7
point at; a transposed load serves operands whose rows in shared memory run along m or n.
"""

from __future__ import annotations

from tilegen.inference.decisions import GemmDecision
from tilegen.inference.gemm_mma_sync import DEPTH
from tilegen.ir.nodes import Gemm
from tilegen.lower.gemms.ldmatrix_lanes import counter, declare_lane, lane_a, lane_b, lane_load
from tilegen.lower.gemms.own_k import own_extent
from tilegen.lower.vocabulary.context import Context
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, Reinterpret
from tilegen.model.statements import CStmt, Declare, Expression, ForC, IfC
from tilegen.schedule.registers import operand_slots


def lower_gemm(context: Context, gemm: Gemm) -> list[CStmt]:
    """C += A B of one tile. Fragments of A and B that come from shared memory are read one step ahead."""
    decision = context.decisions.gemms[gemm]
    note_primitive(context, gemm)
    steps = c.div(own_extent(context, gemm, decision), DEPTH)
    ahead = decision.steps > 1 and slots(context) == 2
    out = declare_operands(context, gemm, decision, (Literal(2),) if ahead else ())
    first = loads(context, gemm, decision, Literal(0), Literal(0) if ahead else None)
    out += first if ahead else []
    kk = Name("kk")
    body: list[CStmt] = []
    if ahead and first:
        following = loads(context, gemm, decision, c.add(kk, 1), c.mod(c.add(kk, 1), 2))
        body.append(IfC(c.operation("<", c.add(kk, 1), steps), tuple(following)))
    elif first:
        body += loads(context, gemm, decision, kk, None)
        out = declare_operands(context, gemm, decision, ())
    body += multiply(gemm, decision, kk, c.mod(kk, 2) if ahead else None)
    note = "loads run one step of 16 k ahead" if ahead and first else ""
    out.append(ForC("kk", Literal(0), steps, tuple(body), unroll=True, comment=note))
    return out


def slots(context: Context) -> int:
    """Register slots for operands: 2 where they fit."""
    blocks = context.plan.blocks_per_multiprocessor
    return operand_slots(context.program, context.decisions, context.target, blocks)


A_REGISTERS, B_REGISTERS = "a_fragment", "b_fragment"


def note_primitive(context: Context, gemm: Gemm) -> None:
    """Notes the instruction of a gemm."""
    context.primitive("mma_sync", a="bf16" if gemm.a.buffer.dtype.name == "bfloat16" else "f16")


def declare_operands(
    context: Context, gemm: Gemm, decision: GemmDecision, slots: tuple[CExpr, ...]
) -> list[CStmt]:
    """Registers for the operands that come from shared memory, and where a lane reads them."""
    repeat_m, repeat_n = decision.repeats
    out: list[CStmt] = []
    nothing = Literal(0)
    if decision.a_source == "shared":
        out.append(Declare("u32", A_REGISTERS, dimensions=(*slots, Literal(repeat_m), Literal(4))))
        out += declare_lane(
            "a", lane_a(context, gemm.a, decision, nothing), context.decisions.layout(gemm.a.buffer)
        )
    if decision.b_source == "shared":
        out.append(Declare("u32", B_REGISTERS, dimensions=(*slots, Literal(repeat_n), Literal(2))))
        out += declare_lane(
            "b", lane_b(context, gemm.b, decision, nothing), context.decisions.layout(gemm.b.buffer)
        )
    return out


def loads(
    context: Context, gemm: Gemm, decision: GemmDecision, step: CExpr, slot: CExpr | None
) -> list[CStmt]:
    """The ldmatrix of one step of k into a register slot."""
    out: list[CStmt] = []
    repeat_m, repeat_n = decision.repeats
    if decision.a_source == "shared":
        mi = counter("mi", repeat_m)
        target = c.index(_slot(A_REGISTERS, slot), mi)
        load = lane_load(context, gemm.a, target, "a", lane_a(context, gemm.a, decision, step))
        out += _repeated(mi, repeat_m, (load,))
    if decision.b_source == "shared":
        if repeat_n > 1:
            ni = counter("ni", repeat_n // 2)
            pair = Reinterpret("u32(&)[4]", c.index(_slot(B_REGISTERS, slot), ni), dereference=False)
            load = lane_load(context, gemm.b, pair, "b", lane_b(context, gemm.b, decision, step))
            out += _repeated(ni, repeat_n - repeat_n % 2, (load,), step=2)
        if repeat_n % 2:
            last = Literal(repeat_n - 1)
            target = c.index(_slot(B_REGISTERS, slot), last)
            lane = lane_b(context, gemm.b, decision, step, last)
            out.append(lane_load(context, gemm.b, target, "b", lane, matrices=2))
    return out


def _slot(name: str, slot: CExpr | None) -> CExpr:
    return Name(name) if slot is None else c.index(name, slot)


def _repeated(variable: CExpr, count: int, body: tuple[CStmt, ...], step: int = 1) -> list[CStmt]:
    """The body in a loop over the variable; without one where there is nothing to count."""
    if not isinstance(variable, Name):
        return list(body)
    return [ForC(variable.name, Literal(0), Literal(count), body, step=Literal(step), unroll=True)]


def multiply(gemm: Gemm, decision: GemmDecision, step: CExpr, slot: CExpr | None) -> list[CStmt]:
    """All atoms of one step of k."""
    repeat_m, repeat_n = decision.repeats
    mi, ni = counter("mi", repeat_m), counter("ni", repeat_n)
    if decision.a_source == "shared":
        a: CExpr = c.index(_slot(A_REGISTERS, slot), mi)
    else:
        a = _register(gemm.a.buffer.name, mi, step, "const u32(&)[4]")
    if decision.b_source == "shared":
        b: CExpr = c.index(_slot(B_REGISTERS, slot), ni)
    else:
        b = _register(gemm.b.buffer.name, step, ni, "const u32(&)[2]")
    call = Expression(c.call(f"{decision.atom}::fma", c.index(gemm.c.buffer.name, mi, ni), a, b))
    return _repeated(mi, repeat_m, tuple(_repeated(ni, repeat_n, (call,))))


def _register(name: str, first: CExpr, second: CExpr, type_name: str) -> CExpr:
    return Reinterpret(type_name, c.index(name, first, second, 0), dereference=False)
