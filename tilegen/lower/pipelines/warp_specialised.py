"""A warp-specialised kernel: the producer's and the consumers' roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilegen.ir.expressions import Var
from tilegen.ir.nodes import Copy, For, Gemm, If, Kernel, Let, Persistent, Stmt
from tilegen.ir.walk import each_node
from tilegen.lower.copies.tile_loader import load_whole
from tilegen.lower.copies.tma import lower_load
from tilegen.lower.gemms.gemm import accumulates
from tilegen.lower.pipelines import rings
from tilegen.lower.pipelines.across_tiles import Declarations, lower_across
from tilegen.lower.pipelines.consumers import Consumers, shares_loads
from tilegen.lower.pipelines.skewed_loop import first_turn
from tilegen.lower.pipelines.tile_draw import draw, draw_barriers, draw_members, hand_on, take_next
from tilegen.lower.pipelines.tiles import TileLoop, cluster_constant, persistent_tiles, reuses_tiles
from tilegen.lower.statements import lower_statement
from tilegen.lower.synchronisation.shared_hazards import SharedHazards
from tilegen.lower.vocabulary.context import Context, constant_name
from tilegen.lower.vocabulary.dtypes import type_name
from tilegen.lower.vocabulary.fold_clear import FoldedClears
from tilegen.lower.vocabulary.loops import loop_head
from tilegen.lower.vocabulary.scalar import dialect, scalar
from tilegen.lower.vocabulary.shared_tiles import extent_constants
from tilegen.lower.vocabulary.uniform import uniform_load
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.kernel import Constant, SharedMember, StaticAssert
from tilegen.model.statements import Blank, CStmt, Declare, Expression, ForC, IfC
from tilegen.schedule.analysis import each_statement, variables
from tilegen.schedule.plan import HandOver
from tilegen.schedule.residency import PRODUCER_REGISTERS

MANY_BOXES = 8  # in an iteration: unrolled, their addresses did not fit PRODUCER_REGISTERS (nvcc 13)


@dataclass(slots=True)
class Producer:
    """Lowers the slice of the program that one thread of the producer warpgroup runs."""

    context: Context
    reused: bool
    waits: bool = False  # whether a wait stands in the text already

    def block(self, statements: tuple[Stmt, ...]) -> list[CStmt]:
        """The loads of these statements with the control flow and the scalars that they need."""
        out: list[CStmt] = []
        for position, statement in enumerate(statements):
            match statement:
                case Copy() if (hand_over := self.context.plan.hand_over_of(statement)) is not None:
                    out += self.load(statement, hand_over)
                case Let(var) if var.name in self.context.hoisted:
                    pass
                case Let(var, value) if var.name in variables(statements[position + 1 :]) and self.feeds(
                    statements[position + 1 :], var.name
                ):
                    out += [Blank()] if out and not isinstance(out[-1], Declare) else []
                    read = scalar(self.context, value, uniform_load(self.context))
                    kind = dialect(self.context).type_name(var.dtype)
                    out.append(Declare(kind, var.name, read, const=not statement.mutable))
                case For() if self.loads(statement.body):
                    out += self.loop(statement)
                case Persistent() if self.loads(statement.body):
                    tiles = persistent_tiles(self.context, statement)
                    out += tiles.wrap(self.context, self.block(statement.body))
                case If() if self.loads((statement,)):
                    out.append(
                        IfC(
                            scalar(self.context, statement.condition),
                            tuple(self.block(statement.then)),
                            tuple(self.block(statement.otherwise)),
                        )
                    )
                case _:
                    pass
        return out

    def loads(self, statements: tuple[Stmt, ...]) -> bool:
        return any(
            isinstance(s, Copy) and self.context.plan.hand_over_of(s) is not None
            for s in each_statement(statements)
        )

    def feeds(self, statements: tuple[Stmt, ...], name: str) -> bool:
        """Whether a scalar takes part in where or whether something is loaded."""
        for statement in statements:
            match statement:
                case Copy() if self.context.plan.hand_over_of(statement) is not None:
                    if name in variables((statement.source.offsets, statement.target.offsets)):
                        return True
                case Persistent() if self.loads(statement.body):
                    if name in variables(statement.extents) or self.feeds(statement.body, name):
                        return True
                case For() if self.loads(statement.body):
                    if name in variables((statement.start, statement.stop)) or self.feeds(
                        statement.body, name
                    ):
                        return True
                case If() if self.loads((statement,)):
                    inner = (*statement.then, *statement.otherwise)
                    if name in variables(statement.condition) or self.feeds(inner, name):
                        return True
                case Let(var, value) if name in variables(value):
                    if self.feeds(statements, var.name):
                        return True
                case _:
                    pass
        return False

    def load(self, copy: Copy, hand_over: HandOver) -> list[CStmt]:
        """Waits for the stage before the first copy of a hand-over, and moves on after the last."""
        out: list[CStmt] = []
        full = self.barrier(hand_over, "full")
        whole = load_whole(self.context, hand_over, full)
        if copy is hand_over.copies[0]:
            out += [Blank()] if not whole else self.context.comment(copy.location)
            if hand_over.loop is not None or self.reused:
                out.append(self.wait(hand_over))
            if whole:
                return [*out, *whole, *self.advance(hand_over)]
            self.context.primitive("mbarrier_arrive_expect_tx")
            out.append(
                Expression(c.call("mbarrier_arrive_expect_tx", full, stage_bytes(self.context, hand_over)))
            )
        out += self.context.comment(copy.location)
        out += lower_load(self.context, copy, full)
        return [*out, *(self.advance(hand_over) if copy is hand_over.copies[-1] else [])]

    def wait(self, hand_over: HandOver) -> CStmt:
        """Waits until the stage is free."""
        self.context.primitive("mbarrier_wait")
        phase = rings.position(self.context, hand_over, "phase")
        comment = ""
        if rings.counted(self.context, hand_over):
            phase = c.operation("^", phase, 1)
            comment = "passes at once the first time" if not self.waits else ""
        self.waits = True
        return Expression(c.call("mbarrier_wait", self.barrier(hand_over, "empty"), phase), comment=comment)

    def advance(self, hand_over: HandOver) -> list[CStmt]:
        refilled = hand_over.loop is not None or self.reused
        return rings.advance(self.context, hand_over) if refilled else []

    def barrier(self, hand_over: HandOver, kind: str) -> CExpr:
        base = c.member("shared", hand_over.barrier("full" if kind == "full" else "empty"))
        if hand_over.stages == 1:
            return base
        return c.index(base, rings.position(self.context, hand_over, "stage"))

    def loop(self, loop: For) -> list[CStmt]:
        declared, head = rings.trip_count(self.context, loop, loop_head(self.context, loop))
        rings.enter(self.context, rings.filled_by(self.context, loop), Name(head.variable))
        body = tuple(self.block(loop.body))
        plan, registers = self.context.plan, self.context.plan.registers
        # Unrolled, a loop needs more registers than the smallest budget has, or than counting from tile to tile, a
        # cluster's shares or many loads from places between open extents leave.
        counts = any(loop is one for one in rings.counted_loops(self.context))
        many = len(plan.hand_overs) > 1 or self.boxes(loop) >= MANY_BOXES
        crowded = counts or plan.multicasts != () or (many and self.extents_open(loop))
        once = registers is not None and (registers.producer < PRODUCER_REGISTERS or crowded)
        unroll = 1 if once else None
        each = ForC(head.variable, head.start, head.stop, body, unroll=unroll, comment=head.comment)
        return [*declared, Blank(), each]

    def boxes(self, loop: For) -> int:
        """How many TMA loads stand in a loop."""
        copies = (copy for one in self.context.plan.hand_overs if one.loop is loop for copy in one.copies)
        layouts = (self.context.decisions.layout(copy.target.buffer) for copy in copies)
        return sum(layout.groups for layout in layouts)

    def extents_open(self, loop: For) -> bool:
        """Whether a loop's bounds or the tiles' coordinates are computed from extents that are launch arguments."""
        bounds = (loop.start, loop.stop, self.context.program.kernel.grid)
        return any(isinstance(node, Var) and node.role == "extent" for node in each_node(bounds))


def register_budget(context: Context) -> None:
    """States the register counts, and asserts that the block owns what its warpgroups ask for."""
    registers = context.plan.registers
    if registers is None:
        return
    consumers = context.constant("kConsumers", context.plan.consumers)
    entry = context.constant(
        "kEntryRegisters", registers.entry, "65,536 over the resident threads, in steps of 8"
    )
    producer = context.constant("kProducerRegisters", registers.producer)
    consumer = context.constant("kConsumerRegisters", registers.consumer)
    owned = c.operation("*", entry, c.operation("+", 1, consumers))
    wanted = c.operation("+", producer, c.operation("*", consumers, consumer))
    context.asserts.append(
        StaticAssert(
            c.operation("<=", wanted, owned),
            "the warpgroups ask for more registers than the block owns: setmaxnreg would wait for ever",
        )
    )


def stage_bytes(context: Context, hand_over: HandOver) -> CExpr:
    """The constant that says how many bytes a stage's full barrier waits for."""
    name = constant_name(hand_over.name) + "StageBytes"
    elements: dict[str, list[CExpr]] = {}
    for copy in hand_over.copies:
        buffer = copy.target.buffer
        count: CExpr = Literal(1)
        for extent in extent_constants(context, buffer):
            count = c.mul(count, extent)
        elements.setdefault(type_name(buffer.dtype, context.target.language), []).append(count)
    sizes = [c.product(c.call("sizeof", dtype), c.add(*counts)) for dtype, counts in elements.items()]
    context.constants[name] = Constant(name, c.add(*sizes), "u32", f"awaited by {hand_over.barrier('full')}")
    return Name(name)


def barrier_members(context: Context, reused: bool) -> list[SharedMember]:
    """The full and empty barriers in SharedStorage."""
    members = []
    for hand_over in context.plan.hand_overs:
        shape = (rings.stage_count(context, hand_over),) if hand_over.stages > 1 else ()
        kinds = ("full", "empty") if hand_over.loop is not None or reused else ("full",)
        for kind in kinds:
            name = hand_over.barrier("full" if kind == "full" else "empty")
            members.append(SharedMember("u64", name, shape, 8 * hand_over.stages, 8))
    return [*members, *draw_members(context)]


def initialise_barriers(context: Context, reused: bool) -> list[CStmt]:
    """One thread makes the barriers ready; everyone sees them after the block's barrier."""
    context.primitive("mbarrier_init")
    context.primitive("fence_barrier_init")
    single: list[CStmt] = draw_barriers(context)
    deep: dict[CExpr, list[CStmt]] = {}
    for hand_over in context.plan.hand_overs:
        kinds = [("full", c.expr(1)), ("empty", _releases(context, hand_over))]
        for kind, arrivals in kinds if hand_over.loop is not None or reused else kinds[:1]:
            barrier = c.member("shared", hand_over.barrier("full" if kind == "full" else "empty"))
            depth = rings.stage_count(context, hand_over)
            if hand_over.stages > 1:
                barrier = c.index(barrier, "stage")
            initialise = Expression(c.call("mbarrier_init", barrier, arrivals))
            (deep.setdefault(depth, []) if hand_over.stages > 1 else single).append(initialise)
    loops = [ForC("stage", Literal(0), depth, tuple(inner)) for depth, inner in deep.items()]
    fence = Expression(c.call("fence_barrier_init"), comment="so that TMA finds them ready")
    body = (*single, *loops, fence)
    return [IfC(c.operation("==", "threadIdx.x", 0), body), meet(context)]


def _releases(context: Context, hand_over: HandOver) -> CExpr:
    """How many arrivals say that a stage is free."""
    count: CExpr = context.constant("kConsumers", context.plan.consumers)
    if hand_over.by_warps:
        warps = context.constant("kWarpsPerWarpgroup", context.target.limits.warps_per_warpgroup)
        count = c.operation("*", count, warps)
    return c.operation("*", cluster_constant(context), count) if shares_loads(context, hand_over) else count


def meet(context: Context, why: str = "") -> CStmt:
    """A barrier of all threads of the block, or of its cluster."""
    if context.plan.cluster_size == 1:
        return Expression(c.call("__syncthreads"), comment=why)
    context.primitive("cluster_sync")
    return Expression(c.call("cluster_sync"), comment=why)


def ring_states(context: Context, phase: int, reused: bool, comment: str = "") -> list[CStmt]:
    """Declares the position of each ring; the producer starts in the phase in which every stage counts as empty."""
    out: list[CStmt] = []
    for hand_over in context.plan.hand_overs:
        if (hand_over.loop is None and not reused) or rings.counted(context, hand_over):
            continue
        context.helper("ring_state")
        depth = rings.stage_count(context, hand_over)
        text = depth.name if isinstance(depth, Name) else "1"
        ring = f"RingState<{text}>"
        out.append(Declare(ring, hand_over.ring, c.call(ring, phase), comment=comment))
        comment = ""
    return out


def producer_role(context: Context, kernel: Kernel, tiles: TileLoop) -> tuple[CStmt, ...]:
    """The body of the producer warpgroup's branch."""
    producer = Producer(context, reuses_tiles(context))
    rings.enter(context, rings.outside_loops(context), Literal(0))
    issue = [
        *ring_states(context, 1, reuses_tiles(context), "every stage starts empty"),
        *_walk(context, tiles, [*draw(context), *producer.block(tiles.body(kernel))], hand_on),
    ]
    context.ring_stage.clear()
    release: list[CStmt] = []
    if context.plan.registers is not None:
        context.primitive("register_release")
        registers = context.constant("kProducerRegisters", context.plan.registers.producer)
        release.append(Expression(c.call("register_release", template=(registers,))))
    return (*release, IfC(c.operation("==", "threadIdx.x", 0), tuple(issue)))


def _walk(
    context: Context, tiles: TileLoop, body: list[CStmt], go_on: Callable[[Context], list[CStmt]]
) -> list[CStmt]:
    """A role's walk over the block's tiles; `go_on` comes to the next one where that is drawn."""
    following = go_on(context) if context.plan.draws_tiles else []
    counter = rings.ROUND if rings.counts_tiles(context) else ""
    counted = [*rings.counts_at(context), *body, *rings.count_on(context)]
    whole = tiles.wrap(context, counted, following, counter)
    return [*rings.counters(context), *whole]


def consumer_role(
    context: Context,
    kernel: Kernel,
    folded: FoldedClears,
    tiles: TileLoop,
    declare: Declarations,
) -> list[CStmt]:
    """The code of the computing warpgroups, after the names of their threads."""
    acquire: list[CStmt] = []
    if context.plan.registers is not None:
        context.primitive("register_acquire")
        registers = context.constant("kConsumerRegisters", context.plan.registers.consumer)
        acquire.append(Expression(c.call("register_acquire", template=(registers,))))

    def accumulate(gemm: Gemm) -> CExpr:
        return accumulates(context, gemm)

    hazards = SharedHazards(context)
    consumers = Consumers(context, lower_statement, accumulate, hazards, reused=reuses_tiles(context))
    if context.plan.next_tile is not None:
        walk = lower_across(consumers, kernel, tiles, context.plan.next_tile, declare)
    else:
        walk = _consumers_walk(consumers, kernel, tiles, declare)
    context.ring_stage.clear()
    rest = [*ring_states(context, 0, reuses_tiles(context)), *first_turn(context), *walk]
    return [*acquire, *context.threads.declarations(rest), *rest]


def _consumers_walk(
    consumers: Consumers, kernel: Kernel, tiles: TileLoop, declare: Declarations
) -> list[CStmt]:
    """One tile after another."""
    context = consumers.context
    rings.enter(context, rings.outside_loops(context), Literal(0))
    body = consumers.block(tiles.body(kernel))
    if consumers.outstanding:
        body += consumers.settle(len(consumers.outstanding))
    body += consumers.hazards.end_of_iteration(({}, {}), tiles.body(kernel)) if reuses_tiles(context) else []
    # After the body, which says what alignment vector accesses want.
    declarations = declare(lambda name: True)
    start: list[CStmt] = [Blank()] if tiles.repeats else []
    whole = _walk(context, tiles, [*start, *declarations, Blank(), *body], take_next)
    return [*start, *whole]
