"""A pipelined loop on CDNA: registers hold the tile that comes next but one, LDS the next, the matrix cores this one.

Nothing is peeled: a tile past the end of the tensor reads as 0 through the range check, and is never multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from tilegen.inference.mfma_operands import lane_k
from tilegen.ir.nodes import Buffer, Copy, For, Gemm, If, Persistent, Stmt
from tilegen.lower.copies.tile_copy import declare_registers, load, load_to_lds, store
from tilegen.lower.gemms.mfma import (
    from_shared,
    hold_accumulators,
    operand_repeats,
    registers_of_thread,
    steps_of,
)
from tilegen.lower.gemms.steps import GemmSteps
from tilegen.lower.pipelines.control_flow import lower_for
from tilegen.lower.pipelines.lds_tiles import declare_tile
from tilegen.lower.statements import lower_statements
from tilegen.lower.synchronisation.barriers import barrier_before
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.loops import LoopHead, loop_head
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Lambda, Literal, Name
from tilegen.model.statements import Blank, Comment, CStmt, Declare, Expression, ForC
from tilegen.model.walk import names
from tilegen.schedule.analysis import each_statement, reads, variables
from tilegen.schedule.plan_register_prefetch import prefetched_copies
from tilegen.schedule.tile_copy import TileCopy

__all__ = ["lower_pipelined"]

ADDRESS_REGISTERS = 64  # of a loop, beside its tiles and operands
LOAD_REGISTERS = 4  # of the 16 bytes of a load
ADDRESSING = {
    1: 120,
    2: 160,
}  # percent, by LDS stages: tiles and operands with addresses, as clang 19 and 20 allot


@dataclass(frozen=True, slots=True)
class _Carrier:
    """The functions that carry one tile: `load_A(k)` to registers and `store_A(stage)` to LDS, or `load_A(k, stage)`
    without registers, where `store` is empty. `load_A()` where all iterations load the same tile (`moves` is False)."""

    tile: TileCopy
    load: str
    store: str
    moves: bool

    def load_call(self, iteration: CExpr, *stage: CExpr) -> CStmt:
        return Expression(c.call(self.load, *((iteration,) if self.moves else ()), *stage))

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
        declare_tile(context, tile.copy.target.buffer)
    head = loop_head(context, loop)
    pipeline = Pipeline(context, loop, head, stages, copies)
    return pipeline.lower()


class Pipeline:
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
        title = self.context.title(self.loop)
        gemm = self.only_gemm()
        # A barrier ends each iteration, where nothing is read ahead of the next one.
        self.context.left.update((tile.copy.target.buffer.name, gemm is None) for tile in self.copies)
        if gemm is None:
            return [*declarations, *self.prologue(), *title, *self.general(), *self.held()]
        schedule = GemmSteps(self, gemm)
        ahead = [*schedule.declarations(), *self.prologue()]
        return [*declarations, *ahead, *title, *schedule.lower(), *self.held()]

    def held(self) -> list[CStmt]:
        """Accumulators that outlive the loop stay in accumulation registers, if the others suffice for the rest."""
        decisions = {
            statement.c.buffer.name: self.context.decisions.gemms[statement]
            for statement in self.rest()
            if isinstance(statement, Gemm) and self.outlives(statement.c.buffer)
        }
        tiles = sum(4 * tile.transfer.loads for tile in self.copies)
        operands = max((8 * sum(decision.repeats) for decision in decisions.values()), default=0)
        if 2 * (tiles + operands + ADDRESS_REGISTERS) > registers_of_thread(self.context):
            return []
        return [hold_accumulators(self.context, decision, name) for name, decision in decisions.items()]

    def outlives(self, buffer: Buffer) -> bool:
        """Whether something outside the loop reads a buffer."""
        inside = list(each_statement((self.loop,)))
        return any(
            buffer in reads(statement)
            for statement in each_statement(self.context.program.kernel.body)
            if not isinstance(statement, For | If | Persistent)
            and not any(statement is one for one in inside)
        )

    def only_gemm(self) -> Gemm | None:
        """The gemm that is all the loop does beside its loads, if its operands can be read a step ahead."""
        match self.rest():
            case (Gemm() as gemm,):
                decision = self.context.decisions.gemms[gemm]
                fits = decision.family == "mfma" and not gemm.clear and steps_of(decision) % 2 == 0
                if not fits or barrier_before(self.context, gemm):
                    return None
                needed, owned = self.registers_ahead(gemm), registers_of_thread(self.context)
                if needed > owned:
                    self.context.pipeline_notes.append(
                        f"operands are read where they are multiplied: a step ahead, a thread needs about {needed} "
                        f"registers and has {owned}"
                    )
                    return None
                return gemm
            case _:
                return None

    def registers_ahead(self, gemm: Gemm) -> int:
        """Registers of a thread if operands are read a step ahead: accumulators, and beside them two sets of operands,
        the tiles on their way with an offset a load, and those that are transposed once more."""
        decision = self.context.decisions.gemms[gemm]
        transfers = [tile.transfer for tile in self.copies if not (tile.direct and self.stages > 1)]
        tiles = sum(t.loads * (LOAD_REGISTERS * (2 if t.transposes else 1) + 1) for t in transfers)
        operands = 2 * sum(
            operand_repeats(decision, which) * lane_k(decision) // 2
            for which in ("a", "b")
            if from_shared(decision, which)
        )
        return decision.c.register_count + ADDRESSING[self.stages] * (tiles + operands) // 100

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
        called = context.name(f"load_{tile.name}"), context.name(f"store_{tile.name}")
        comment = context.comment(tile.copy.location)
        loading = load(context, tile, registers, self.within(tile))
        carrier = _Carrier(tile, *called, moves=self.head.variable in names(tuple(loading)))
        self.carriers.append(carrier)
        iteration = (("int", self.head.variable),) if carrier.moves else ()
        context.ring_stage.pop(buffer, None)
        if self.stages > 1:
            context.ring_stage[buffer] = Name("stage")
        storing = store(context, tile, registers)
        context.ring_stage.pop(buffer, None)
        stage = (("int", "stage"),) if self.stages > 1 else ()
        return [
            *comment,
            declare_registers(context, tile, registers),
            Declare("auto", carrier.load, Lambda(iteration, tuple(loading)), const=True),
            Declare("auto", carrier.store, Lambda(stage, tuple(storing)), const=True),
        ]

    def direct_carrier(self, tile: TileCopy) -> list[CStmt]:
        """The function that loads a tile to LDS."""
        context = self.context
        buffer = tile.copy.target.buffer.name
        called = context.name(f"load_{tile.name}")
        comment = context.comment(tile.copy.location)
        context.primitive("wait_loads")
        context.ring_stage[buffer] = Name("stage")
        loading = load_to_lds(context, tile, self.within(tile))
        context.ring_stage.pop(buffer, None)
        carrier = _Carrier(tile, called, "", moves=self.head.variable in names(tuple(loading)))
        self.carriers.append(carrier)
        parameters = (*((("int", self.head.variable),) if carrier.moves else ()), ("int", "stage"))
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
        return [carrier.load_call(iteration) for carrier in self.carriers if not carrier.direct]

    def store(self, stage: CExpr) -> list[CStmt]:
        """Tiles from registers to LDS."""
        arguments = (stage,) if self.stages > 1 else ()
        return [
            Expression(c.call(carrier.store, *arguments)) for carrier in self.carriers if not carrier.direct
        ]

    def load_direct(self, iteration: CExpr, stage: CExpr) -> list[CStmt]:
        """Tiles to LDS, without registers."""
        return [carrier.load_call(iteration, stage) for carrier in self.carriers if carrier.direct]

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
        second = ", the second to registers" if self.through_registers else ""
        past = "what is not there reads as 0 through the range check, and nothing multiplies it."
        first = f"Prologue: the first tile to LDS{second}. Loads run on past the last tile: {past}"
        out: list[CStmt] = [Blank(), Comment(first)]
        out += self.load(start)
        if self.reused():
            out.append(self.synchronise("every wave has left the tiles of before"))
        out += [*self.load_direct(start, Literal(0)), *self.store(Literal(0)), *self.load(c.add(start, 1))]
        return [*out, *self.landed(), self.synchronise("the first tile is in LDS")]

    def reused(self) -> bool:
        """Whether LDS may be in use when the loop begins: it runs again, or something before it used the same bytes."""
        body, plan = self.context.program.kernel.body, self.context.plan
        first = next((s for s in body if isinstance(s, For) and s in plan.stages), None)
        if plan.persistent or first is not self.loop:
            return True
        tiles = {tile.copy.target.buffer.name for tile in self.copies}
        before = takewhile(lambda statement: statement is not self.loop, each_statement(body))
        staged = [plan.staging[s] for s in before if isinstance(s, Copy) and s in plan.staging]
        return any(name in tiles for staging in staged for name in staging.over)

    def general(self) -> list[CStmt]:
        """Any statements between the loads: one barrier an iteration with two LDS tiles, two with one."""
        ahead = c.add(self.variable, 2)
        k = self.head.variable
        advances = Comment(self.what_advances())
        first: list[CStmt] = []
        last: list[CStmt] = []
        if self.stages > 1:
            first += [Declare("int", "stage", self.stage_of(), const=True), advances, *self.advance()]
            last += self.landed()
            last.append(self.synchronise(f"tile {k} has been read, tile {k} + 1 is in LDS"))
            self.open_rings(Name("stage"))
        else:
            last += [self.synchronise(f"every wave has read tile {k}"), Blank(), advances]
            last += [*self.store(Literal(0)), *self.load(ahead), self.synchronise(f"tile {k} + 1 is in LDS")]
        body = lower_statements(self.context, self.rest())
        self.close_rings()
        return [self.loop_of([*first, *body, Blank(), *last])]

    @property
    def through_registers(self) -> bool:
        """Whether a tile goes to LDS by way of registers."""
        return any(not carrier.direct for carrier in self.carriers)

    def what_advances(self) -> str:
        k = self.head.variable
        return f"Tile {k} + 1 to LDS{f', tile {k} + 2 to registers' if self.through_registers else ''}"

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
