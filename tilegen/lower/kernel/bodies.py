"""The kernel's body under each kind of plan."""

from __future__ import annotations

from tilegen.ir.nodes import Copy, Fill, For, Gemm, Kernel, Persistent, Stmt
from tilegen.lower.copies.tma_store import finish_stores
from tilegen.lower.kernel.known_values import with_known_values
from tilegen.lower.kernel.storage import lay_over
from tilegen.lower.kernel.unused_names import named_values, without_unused
from tilegen.lower.pipelines.rings import stage_count
from tilegen.lower.pipelines.tiles import TileLoop, bind_coordinates, reuses_tiles, tile_loop
from tilegen.lower.pipelines.warp_specialised import (
    barrier_members,
    consumer_role,
    initialise_barriers,
    meet,
    producer_role,
    register_budget,
)
from tilegen.lower.statements import lower_statements
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.fold_clear import FoldedClears, fold_clears
from tilegen.lower.vocabulary.fragments import fragment_declarations, initial_fills
from tilegen.lower.vocabulary.loops import hoist_lets, note_ranges
from tilegen.lower.vocabulary.shared_tiles import buffer_member
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.statements import Banner, Blank, CStmt, Declare, IfC, Return
from tilegen.schedule.analysis import each_statement
from tilegen.schedule.skew import find_skew


def lower_body(context: Context, kernel: Kernel) -> tuple[TileLoop, list[CStmt]]:
    """The statements of the kernel, and the walk over its grid."""
    tiles = tile_loop(context, kernel)
    if not tiles.repeats:
        hoist_lets(context, tiles.body(kernel))
    note_ranges(context, tiles.body(kernel))
    loops = [s for s in each_statement(kernel.body) if isinstance(s, For) and s.kind == "pipelined"]
    skews = [skew for loop in loops if (skew := find_skew(loop, context.decisions, context.plan)) is not None]

    def overwrites(gemm: Gemm) -> bool:
        """Whether the gemm's first instruction ignores old accumulators; a skewed one knows no first iteration."""
        late = any(skew.second is gemm for skew in skews)
        return context.decisions.gemms[gemm].family == "wgmma" and not late

    context.folded = fold_clears(kernel, overwrites)
    if context.plan.persistent or not reuses_tiles(context):
        context.initial = initial_fills(context, kernel)
    name_parts(context, kernel.body)
    if context.plan.kind == "warp_specialised":
        body = _warp_specialised(context, kernel, context.folded, tiles)
    else:
        body = _single_role(context, kernel, tiles)
    body = [*_shared_reference(context), *with_known_values(context.prologue, body)]
    called = [context.environment.get(name, Name(name)) for name in named_values(kernel)]
    used = without_unused(body, [name.name for name in called if isinstance(name, Name)])
    return tiles, bind_coordinates(used)


def name_parts(context: Context, statements: tuple[Stmt, ...]) -> None:
    """Where the main loop and the epilogue begin, in a kernel with one pipelined loop."""
    loops = [s for s in each_statement(statements) if isinstance(s, For) and s.kind == "pipelined"]
    if len(loops) != 1:
        return
    for position, statement in enumerate(statements):
        if isinstance(statement, Persistent):
            name_parts(context, statement.body)
        if statement is loops[0]:
            context.parts[statement] = "Main loop"
            following = [one for one in statements[position + 1 :] if not _done_elsewhere(context, one)]
            if following:
                context.parts[following[0]] = "Epilogue"


def _done_elsewhere(context: Context, statement: Stmt) -> bool:
    """Whether nothing is left of a statement where it stands: a producer loads the tile, or a declaration or the first
    instruction of a gemm has the value."""
    match statement:
        case Copy():
            return context.plan.hand_over_of(statement) is not None
        case Fill():
            return statement in context.folded.fills or statement in context.initial
        case _:
            return False


def _shared_reference(context: Context) -> list[CStmt]:
    """`SharedStorage& shared = shared_storage();` where the kernel has shared memory."""
    if not context.members:
        return []
    context.primitive("shared_storage")
    return [Declare("SharedStorage", "shared", c.call("shared_storage"), reference=True)]


def _shared_tiles(context: Context, kernel: Kernel) -> None:
    """The program's shared tiles and rings as members of SharedStorage."""
    for buffer in kernel.allocations:
        if buffer.scope != "shared" or buffer.name not in context.decisions.shared:
            continue
        hand_over = context.plan.hand_over_reading(buffer.name)
        stages: tuple[int, CExpr] = (1, Literal(1))
        if hand_over is not None:
            stages = (hand_over.stages, stage_count(context, hand_over))
        elif buffer.name in context.ring_depths:
            stages = (context.ring_depths[buffer.name], ring_constant(context, buffer.name))
        if buffer.name not in [member.name for member in context.members]:
            context.members.append(buffer_member(context, buffer, stages))
    context.members[:] = lay_over(context.members, context.plan.overlays)


def ring_constant(context: Context, name: str) -> CExpr:
    """The constant that a pipeline gave a ring's depth."""
    depth = context.ring_depths[name]
    known = context.constants.values()
    named = [entry for entry in known if entry.name.startswith("kStages") and entry.value == Literal(depth)]
    return Name(named[0].name) if named else Literal(depth)


def _single_role(context: Context, kernel: Kernel, tiles: TileLoop) -> list[CStmt]:
    """Every thread does the same."""
    body = lower_statements(context, tiles.body(kernel))
    _shared_tiles(context, kernel)
    # What a tile computes in is declared in its turn of the walk, with the values that it begins with.
    start = [Blank()] if tiles.repeats else []
    rest = tiles.wrap(context, [*start, *fragment_declarations(context, kernel), Blank(), *body])
    return [*context.threads.declarations(rest), *rest]


def _warp_specialised(context: Context, kernel: Kernel, folded: FoldedClears, tiles: TileLoop) -> list[CStmt]:
    """One warpgroup loads, the others compute."""
    _shared_tiles(context, kernel)
    warpgroup = context.warpgroup()
    consumers = context.plan.consumers
    others = {1: "1 consumes", 2: "1 and 2 consume"}.get(consumers, f"1 to {consumers} consume")
    register_budget(context)
    setup = initialise_barriers(context, reuses_tiles(context))
    producer = producer_role(context, kernel, tiles)
    consumer = consumer_role(
        context, kernel, folded, tiles, lambda chosen: fragment_declarations(context, kernel, chosen)
    )
    context.members += barrier_members(context, reuses_tiles(context))
    # From a shuffle, ptxas knows that the lanes of a warp agree: roles do not diverge, so that ring positions and
    # descriptors stay in uniform registers.
    index = c.call("__shfl_sync", "~0u", c.operation("/", "threadIdx.x", warpgroup), 0)
    head: list[CStmt] = [
        Declare("int", "warpgroup", index, const=True, comment=f"0 produces, {others}; lanes agree"),
        Blank(),
        *setup,
        Blank(),
        Banner("producer"),
    ]
    first = c.operation("==", "warpgroup", 0)
    consumer = finish_stores(context, consumer)
    if context.plan.cluster_size > 1:
        leave = meet(context, "no block leaves while another one loads into it or arrives at its barriers")
        return [*head, IfC(first, producer, (Banner("consumers"), *consumer)), leave]
    return [*head, IfC(first, (*producer, Return())), Blank(), Banner("consumers"), *consumer]
