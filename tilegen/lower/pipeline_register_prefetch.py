"""A pipelined loop on CDNA: registers hold the tile that comes next but one, LDS the next, the matrix cores this one.

Nothing is peeled: a tile past the end of the tensor reads as 0 through the range check, and is never multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilegen.ir.nodes import For, Gemm, Stmt
from tilegen.lower.barriers import barrier_before
from tilegen.lower.context import Context
from tilegen.lower.gemm_mfma import (
    declare_operand,
    from_shared,
    hold_accumulators,
    multiply,
    operand_repeats,
    operand_type,
    read_operand,
    registers_of_thread,
    steps_of,
)
from tilegen.lower.loops import LoopHead, loop_head
from tilegen.lower.scalars import lower_for
from tilegen.lower.shared_tiles import buffer_member
from tilegen.lower.statements import lower_statements
from tilegen.lower.tile_copy import declare_registers, load, load_to_lds, store
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Lambda, Literal, Name
from tilegen.model.statements import Blank, Comment, CStmt, Declare, Expression, ForC
from tilegen.schedule.analysis import variables
from tilegen.schedule.plan_register_prefetch import prefetched_copies
from tilegen.schedule.tile_copy import TileCopy

__all__ = ["lower_pipelined"]

ADDRESS_REGISTERS = 64  # of a loop, beside its tiles and operands


@dataclass(frozen=True, slots=True)
class _Carrier:
    """The functions that carry one tile: `load_A(k)` to registers and `store_A(stage)` to LDS, or `load_A(k, stage)`
    without registers, where `store` is empty."""

    tile: TileCopy
    load: str
    store: str

    @property
    def direct(self) -> bool:
        return not self.store


def lower_pipelined(context: Context, loop: Stmt) -> list[CStmt]:
    """Prologue and loop; a loop that the plan left alone runs as it is written."""
    assert isinstance(loop, For)
    stages = context.plan.stages.get(loop)
    if stages is None:
        return lower_for(context, loop)
    copies = prefetched_copies(loop, context.program, context.decisions, context.target)
    assert not isinstance(copies, str)
    context.primitive("block_sync_lds")
    for tile in copies:
        _make_ring(context, tile, stages)
    head = loop_head(context, loop)
    pipeline = _Pipeline(context, loop, head, stages, copies)
    return pipeline.lower()


def _make_ring(context: Context, tile: TileCopy, stages: int) -> None:
    """Declares the tile in SharedStorage, with its stages."""
    buffer = tile.copy.target.buffer
    if any(member.name == buffer.name for member in context.members):
        return
    depth: CExpr = Literal(1)
    if stages > 1:
        context.ring_depths[buffer.name] = stages
        depth = context.constant("kStages", stages, "tiles in LDS: one is read while the next is filled")
    context.members.append(buffer_member(context, buffer, (stages, depth)))


class _Pipeline:
    """The lowering of one loop."""

    def __init__(
        self, context: Context, loop: For, head: LoopHead, stages: int, copies: tuple[TileCopy, ...]
    ) -> None:
        self.context = context
        self.loop = loop
        self.head = head
        self.stages = stages
        self.carriers: list[_Carrier] = []
        self.copies = copies

    # ------------------------------------------------------------------------------------- whole

    def lower(self) -> list[CStmt]:
        declarations = [statement for tile in self.copies for statement in self.carrier(tile)]
        gemm = self.only_gemm()
        if gemm is None:
            return [*declarations, *self.prologue(), *self.general(), *self.held()]
        schedule = _GemmLoop(self, gemm)
        return [*declarations, *schedule.declarations(), *self.prologue(), *schedule.lower(), *self.held()]

    def held(self) -> list[CStmt]:
        """Accumulators that outlive the loop stay in accumulation registers, if the others suffice for the rest."""
        decisions = {
            statement.c.buffer.name: self.context.decisions.gemms[statement]
            for statement in self.rest()
            if isinstance(statement, Gemm)
        }
        tiles = sum(4 * tile.transfer.loads for tile in self.copies)
        operands = max((8 * sum(decision.repeats) for decision in decisions.values()), default=0)
        if 2 * (tiles + operands + ADDRESS_REGISTERS) > registers_of_thread(self.context):
            return []
        return [hold_accumulators(self.context, decision, name) for name, decision in decisions.items()]

    def only_gemm(self) -> Gemm | None:
        """The gemm that is all the loop does beside its loads, if its operands can be read a step ahead."""
        match self.rest():
            case (Gemm() as gemm,):
                decision = self.context.decisions.gemms[gemm]
                fits = decision.family == "mfma" and not gemm.clear and steps_of(decision) % 2 == 0
                return gemm if fits and not barrier_before(self.context, gemm) else None
            case _:
                return None

    def rest(self) -> tuple[Stmt, ...]:
        """The loop's statements without the copies that run ahead."""
        return tuple(
            statement
            for statement in self.loop.body
            if not any(statement is tile.copy for tile in self.copies)
        )

    # ------------------------------------------------------------------------------------- tiles

    def carrier(self, tile: TileCopy) -> list[CStmt]:
        """Registers of a tile, and the functions that fill and empty them."""
        context = self.context
        buffer = tile.copy.target.buffer.name
        if tile.direct and self.stages > 1:
            return self.direct_carrier(tile)
        registers = context.name(f"{tile.name}_next")
        carrier = _Carrier(tile, context.name(f"load_{tile.name}"), context.name(f"store_{tile.name}"))
        self.carriers.append(carrier)
        comment = context.comment(tile.copy.location)
        loading = load(context, tile, registers, self.within(tile))
        context.ring_stage.pop(buffer, None)
        if self.stages > 1:
            context.ring_stage[buffer] = Name("stage")
        storing = store(context, tile, registers)
        context.ring_stage.pop(buffer, None)
        stage = (("int", "stage"),) if self.stages > 1 else ()
        return [
            *comment,
            declare_registers(context, tile, registers),
            Declare("auto", carrier.load, Lambda((("int", self.head.variable),), tuple(loading)), const=True),
            Declare("auto", carrier.store, Lambda(stage, tuple(storing)), const=True),
        ]

    def direct_carrier(self, tile: TileCopy) -> list[CStmt]:
        """The function that loads a tile to LDS."""
        context = self.context
        buffer = tile.copy.target.buffer.name
        carrier = _Carrier(tile, context.name(f"load_{tile.name}"), "")
        self.carriers.append(carrier)
        comment = context.comment(tile.copy.location)
        context.primitive("wait_loads")
        context.ring_stage[buffer] = Name("stage")
        loading = load_to_lds(context, tile, self.within(tile))
        context.ring_stage.pop(buffer, None)
        parameters = (("int", self.head.variable), ("int", "stage"))
        return [*comment, Declare("auto", carrier.load, Lambda(parameters, tuple(loading)), const=True)]

    def within(self, tile: TileCopy) -> CExpr | None:
        """Where the loop's variable picks a matrix of a larger tensor, tiles past the loop's end are outside it."""
        region = tile.copy.source
        picked = [offset for axis, offset in enumerate(region.offsets) if axis not in region.kept]
        if self.loop.var.name not in variables(tuple(picked)):
            return None
        return c.operation("<", self.head.variable, self.head.stop)

    def load(self, iteration: CExpr) -> list[CStmt]:
        """Tiles to registers."""
        return [
            Expression(c.call(carrier.load, iteration)) for carrier in self.carriers if not carrier.direct
        ]

    def store(self, stage: CExpr) -> list[CStmt]:
        """Tiles from registers to LDS."""
        arguments = (stage,) if self.stages > 1 else ()
        return [
            Expression(c.call(carrier.store, *arguments)) for carrier in self.carriers if not carrier.direct
        ]

    def load_direct(self, iteration: CExpr, stage: CExpr) -> list[CStmt]:
        """Tiles to LDS, without registers."""
        return [
            Expression(c.call(carrier.load, iteration, stage)) for carrier in self.carriers if carrier.direct
        ]

    def landed(self) -> list[CStmt]:
        """Waits for the loads to LDS; those to registers, issued after them, may go on."""
        if not any(carrier.direct for carrier in self.carriers):
            return []
        pending = sum(carrier.tile.transfer.loads for carrier in self.carriers if not carrier.direct)
        return [Expression(c.call("wait_loads", template=(pending,)), comment="what goes to LDS has landed")]

    def synchronise(self, comment: str = "") -> CStmt:
        return Expression(c.call("block_sync_lds"), comment=comment)

    @property
    def variable(self) -> Name:
        return Name(self.head.variable)

    def stage_of(self) -> CExpr:
        return c.mod(c.sub(self.variable, self.head.start), Name("kStages"))

    # ------------------------------------------------------------------------------------- prologue and loop

    def prologue(self) -> list[CStmt]:
        """The first tile in LDS, the second in registers."""
        start = self.head.start
        through = any(not carrier.direct for carrier in self.carriers)
        second = ", the second to registers" if through else ""
        out: list[CStmt] = [Blank(), Comment(f"Prologue: the first tile to LDS{second}")]
        out += self.load(start)
        if self.reused():
            out.append(self.synchronise("every wave has left the tiles of before"))
        out += [*self.load_direct(start, Literal(0)), *self.store(Literal(0)), *self.load(c.add(start, 1))]
        return [*out, *self.landed(), self.synchronise()]

    def reused(self) -> bool:
        """Whether LDS may be in use when the loop begins: it runs again, or something before it used the same bytes."""
        body = self.context.program.kernel.body
        first = next((s for s in body if isinstance(s, For) and s in self.context.plan.stages), None)
        return self.context.plan.persistent or first is not self.loop

    def general(self) -> list[CStmt]:
        """Any statements between the loads: one barrier an iteration with two LDS tiles, two with one."""
        ahead = c.add(self.variable, 2)
        double = self.stages > 1
        first: list[CStmt] = []
        last: list[CStmt] = []
        if double:
            first.append(Declare("int", "stage", self.stage_of(), const=True))
            first += self.advance()
            last += self.landed()
            last.append(self.synchronise(f"tile {self.head.variable} has been read, the next is in LDS"))
            self.open_rings(Name("stage"))
        else:
            last.append(self.synchronise(f"every wave has read tile {self.head.variable}"))
            last += [*self.store(Literal(0)), *self.load(ahead), self.synchronise("the next tile is in LDS")]
        body = lower_statements(self.context, self.rest())
        self.close_rings()
        return [self.loop_of([*first, *body, Blank(), *last])]

    def advance(self) -> list[CStmt]:
        """With two LDS tiles: the next tile to the other one, the tile after it to registers."""
        other = c.sub(1, "stage")
        following, ahead = c.add(self.variable, 1), c.add(self.variable, 2)
        return [*self.store(other), *self.load_direct(following, other), *self.load(ahead)]

    def loop_of(self, body: list[CStmt]) -> CStmt:
        head = self.head
        return ForC(head.variable, head.start, head.stop, tuple(body), comment=head.comment)

    def open_rings(self, stage: CExpr) -> None:
        if self.stages > 1:
            for tile in self.copies:
                self.context.ring_stage[tile.copy.target.buffer.name] = stage

    def close_rings(self) -> None:
        for tile in self.copies:
            self.context.ring_stage.pop(tile.copy.target.buffer.name, None)


class _GemmLoop:
    """A loop of loads and one gemm: operands are read a step ahead of their multiplications, across the barriers."""

    def __init__(self, pipeline: _Pipeline, gemm: Gemm) -> None:
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
        self.reads = sum(operand_repeats(self.decision, which) for which in self.operands)
        own = self.decision.instruction[2] * self.decision.instruction[0] // 64
        parts = 2 if own < int(operand_type(gemm, self.decision).rpartition("x")[2]) else 1
        self.mfmas = parts * self.decision.repeats[0] * self.decision.repeats[1]

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
        register_step = () if "a" in self.operands else (("int", "step"),)
        out += [
            Declare(
                "auto",
                "read_operands",
                Lambda((("int", "slot"), *stage, ("int", "step")), tuple(reading)),
                const=True,
            ),
            Declare(
                "auto",
                "multiply",
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
        return Expression(c.call("read_operands", *arguments))

    def multiply(self, slot: CExpr, step: CExpr) -> CStmt:
        return Expression(c.call("multiply", *((slot,) if "a" in self.operands else (slot, step))))

    def schedule(self, reads: int, writes: int, loads: int, mfmas: int) -> CStmt:
        """The hint that spreads memory instructions over MFMAs: as many turns as the memory kind that has most."""
        self.context.primitive("schedule")
        turns = max(1, min(mfmas, max(reads, writes, loads)))
        each = (turns, *(-(-count // turns) for count in (reads, writes, loads)), max(1, mfmas // turns))
        return Expression(c.call("schedule", template=each))

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

    def what_advances(self) -> str:
        k = self.pipeline.head.variable
        through = any(not carrier.direct for carrier in self.pipeline.carriers)
        registers = f", tile {k} + 2 to registers" if through else ""
        return f"Tile {k} + 1 to LDS{registers}, under the steps of tile {k}"

    def double(self) -> list[CStmt]:
        """Two LDS tiles: one barrier, behind which the last step still multiplies."""
        pipeline = self.pipeline
        writes, loads = self.counts()
        last = self.steps - 1
        stage, other = Name("stage"), c.sub(1, "stage")
        k = pipeline.head.variable
        return [
            Declare("int", "stage", pipeline.stage_of(), const=True),
            Comment(self.what_advances()),
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
            Comment(f"Tile {k} + 1 to LDS, tile {k} + 2 to registers"),
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
