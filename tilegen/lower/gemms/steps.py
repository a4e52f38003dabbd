"""The steps of one gemm in a pipelined loop of CDNA: operands are read a step ahead of their multiplications, across
the barriers, so that matrix instructions hide LDS, global memory and the barriers themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilegen.inference.mfma_operands import WAVE, lane_k
from tilegen.ir.nodes import Gemm
from tilegen.lower.gemms.mfma import (
    declare_operand,
    from_shared,
    multiply,
    operand_repeats,
    read_operand,
    steps_of,
)
from tilegen.lower.vocabulary.words import counted, listed
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Lambda, Literal, Name
from tilegen.model.statements import Blank, Comment, CStmt, Declare, Expression, ForC

if TYPE_CHECKING:
    from tilegen.lower.pipelines.register_prefetch import Pipeline


class GemmSteps:
    """A loop of loads and one gemm: operands are read a step ahead of their multiplications, across the barriers."""

    def __init__(self, pipeline: Pipeline, gemm: Gemm) -> None:
        self.pipeline = pipeline
        self.context = pipeline.context
        self.gemm = gemm
        self.decision = self.context.decisions.gemms[gemm]
        self.steps = steps_of(self.decision)
        self.operands = {
            which: self.context.name(f"{which.upper()}_operand")
            for which in ("a", "b")
            if from_shared(self.decision, which)
        }
        self.functions = self.context.name("read_operands"), self.context.name("multiply")
        self.reads = sum(operand_repeats(self.decision, which) for which in self.operands)
        own = self.decision.instruction[2] * self.decision.instruction[0] // WAVE
        parts = lane_k(self.decision) // own
        self.mfmas = parts * self.decision.repeats[0] * self.decision.repeats[1]

    @property
    def in_registers(self) -> bool:
        """Whether an operand is in registers for all steps."""
        return len(self.operands) < 2

    def declarations(self) -> list[CStmt]:
        """Two sets of operand registers, and the functions that fill and use one."""
        context = self.context
        slots = Literal(2)
        out: list[CStmt] = [*context.comment(self.gemm.location)]
        reading: list[CStmt] = []
        self.pipeline.open_rings(Name("stage"))
        for which, name in self.operands.items():
            declared = declare_operand(self.gemm, self.decision, which, name)
            assert isinstance(declared, Declare)
            out.append(replace(declared, dimensions=(slots, *declared.dimensions)))
            reading.append(read_operand(context, self.gemm, which, c.index(name, "slot"), Name("step")))
        self.pipeline.close_rings()
        stage = (("int", "stage"),) if self.pipeline.stages > 1 else ()
        operands = {which: c.index(name, "slot") for which, name in self.operands.items()}
        register_step = (("int", "step"),) if self.in_registers else ()
        out += [
            Declare(
                "auto",
                self.functions[0],
                Lambda((("int", "slot"), *stage, ("int", "step")), tuple(reading)),
                const=True,
            ),
            Declare(
                "auto",
                self.functions[1],
                Lambda(
                    (("int", "slot"), *register_step),
                    tuple(multiply(context, self.gemm, operands, Name("step"))),
                ),
                const=True,
            ),
        ]
        return out

    def read(self, slot: CExpr, step: CExpr, stage: CExpr) -> CStmt:
        arguments = (slot, stage, step) if self.pipeline.stages > 1 else (slot, step)
        return Expression(c.call(self.functions[0], *arguments))

    def multiply(self, slot: CExpr, step: CExpr) -> CStmt:
        return Expression(c.call(self.functions[1], *((slot, step) if self.in_registers else (slot,))))

    def schedule(self, reads: int, writes: int, loads: int, mfmas: int) -> CStmt:
        """The hint that spreads memory instructions over MFMAs: as many turns as the memory kind that has most."""
        self.context.primitive("schedule")
        turns = max(1, min(mfmas, max(reads, writes, loads)))
        each = (turns, *(-(-count // turns) for count in (reads, writes, loads)), max(1, mfmas // turns))
        kinds = zip((reads, writes, loads), ("LDS read", "LDS write", "load"), strict=True)
        memory = listed([counted(count, kind) for count, kind in kinds if count])
        return Expression(
            c.call("schedule", template=each), comment=f"{memory} among {counted(mfmas, 'MFMA')}"
        )

    def steps_ahead(self, count: int, stage: CExpr) -> list[CStmt]:
        """`count` steps: the operands of the next are read while this one multiplies."""
        if count == 0:
            return []
        step = Name("step")
        following = c.add(step, 1)
        body = (
            self.read(c.mod(following, 2), following, stage),
            self.multiply(c.mod(step, 2), step),
        )
        if count == 1:
            return [
                self.read(Literal(1), Literal(1), stage),
                self.multiply(Literal(0), Literal(0)),
            ]
        return [ForC("step", Literal(0), Literal(count), body, unroll=True)]

    def lower(self) -> list[CStmt]:
        first = self.read(Literal(0), Literal(0), Literal(0))
        body = self.double() if self.pipeline.stages > 1 else self.single()
        return [first, Blank(), self.pipeline.loop_of(body)]

    def counts(self) -> tuple[int, int]:
        """(LDS writes, global loads) of a thread and iteration."""
        transfers = [carrier.tile.transfer for carrier in self.pipeline.carriers if not carrier.direct]
        writes = sum(t.blocks * (t.piece if t.transposes else 1) for t in transfers)
        return writes, sum(t.loads for t in transfers)

    def double(self) -> list[CStmt]:
        """Two LDS tiles: one barrier, behind which the last step still multiplies."""
        pipeline = self.pipeline
        writes, loads = self.counts()
        last = self.steps - 1
        stage, other = Name("stage"), c.sub(1, "stage")
        k = pipeline.head.variable
        return [
            Declare("int", "stage", pipeline.stage_of(), const=True),
            Comment(f"{pipeline.what_advances()}, under the steps of tile {k}"),
            *pipeline.advance(),
            *self.context.comment(self.gemm.location),
            *self.steps_ahead(last, stage),
            self.schedule(last * self.reads, writes, loads, last * self.mfmas),
            *pipeline.landed(),
            pipeline.synchronise(f"tile {k} has been read, tile {k} + 1 is in LDS"),
            Blank(),
            self.read(Literal(0), Literal(0), other),
            self.multiply(Literal(last % 2), Literal(last)),
            self.schedule(self.reads, 0, 0, self.mfmas),
        ]

    def single(self) -> list[CStmt]:
        """One LDS tile: the last two steps multiply while it is exchanged, between two barriers."""
        pipeline = self.pipeline
        transfers = [carrier.tile.transfer for carrier in pipeline.carriers]
        writes, _ = self.counts()
        early = (len(transfers) + 1) // 2
        loads = pipeline.load(c.add(pipeline.variable, 2))
        last = self.steps - 1
        k = pipeline.head.variable
        return [
            Comment(f"Steps of tile {k} hide the LDS reads of the steps after them"),
            *self.steps_ahead(last - 1, Literal(0)),
            self.read(Literal(last % 2), Literal(last), Literal(0)),
            self.schedule(last * self.reads, 0, 0, max(1, (last - 1) * self.mfmas)),
            pipeline.synchronise(f"every wave has read tile {k}"),
            Blank(),
            Comment(pipeline.what_advances()),
            *pipeline.store(Literal(0)),
            *loads[:early],
            self.multiply(Literal((last - 1) % 2), Literal(last - 1)),
            self.schedule(0, writes, sum(t.loads for t in transfers[:early]), self.mfmas),
            pipeline.synchronise(f"tile {k} + 1 is in LDS"),
            Blank(),
            self.read(Literal(0), Literal(0), Literal(0)),
            *loads[early:],
            self.multiply(Literal(last % 2), Literal(last)),
            self.schedule(self.reads, 0, sum(t.loads for t in transfers[early:]), self.mfmas),
        ]
