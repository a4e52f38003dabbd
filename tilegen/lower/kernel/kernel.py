"""Assembles the kernel model: roles, shared storage, parameters, launch contract, the header's tables."""

from __future__ import annotations

from tilegen.inference.decisions import Decisions
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Kernel, Program
from tilegen.ir.per_thread import per_thread
from tilegen.ir.summary import summary
from tilegen.lower.gemms import own_k
from tilegen.lower.gemms.ldmatrix_lanes import NAMES as LANE_NAMES
from tilegen.lower.kernel.bodies import lower_body
from tilegen.lower.kernel.configuration import ordered_constants
from tilegen.lower.kernel.facts import buffer_rows, pipeline_lines
from tilegen.lower.kernel.hidden_names import declared_in
from tilegen.lower.kernel.launch import launch_of
from tilegen.lower.kernel.parameters import parameters_of, requirements_of, tensor_arguments
from tilegen.lower.kernel.storage import order_members
from tilegen.lower.pipelines import rings
from tilegen.lower.pipelines.tile_draw import NAMES
from tilegen.lower.reductions import block_sums
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.threads import Threads, consumer_threads, plain_threads
from tilegen.model import build as c
from tilegen.model.expressions import Name
from tilegen.model.kernel import Constant, KernelModel
from tilegen.schedule.plan import Plan
from tilegen.target import Target


def lower(program: Program, target: Target, decisions: Decisions, plan: Plan, regenerate: str) -> KernelModel:
    """The kernel model of a program under a plan.

    Raises:
        ProgramError: when a statement has no lowering on the target.
    """
    context = Context(program, target, decisions, plan, threads_of(plan, target))
    reserve_names(context, program)
    name_threads(context)
    bind_thread(context)
    tiles, body = lower_body(context, program.kernel)
    members = order_members(context.members)
    parameters = parameters_of(context, body)
    launch = launch_of(context, tiles, members)
    return KernelModel(
        name=program.name,
        target=target.name,
        language=target.language,
        summary=summary(program),
        source=f"{program.location.file}:{program.location.line}",
        digest=program.digest,
        regenerate=regenerate,
        parameters=parameters,
        tensors=tensor_arguments(context),
        extents=tuple(var.name for var in program.extents),
        scalars=tuple((var.name, var.dtype) for var in program.scalars),
        requirements=requirements_of(context),
        constants=tuple(ordered_constants(context)),
        shared=tuple(members),
        asserts=tuple(context.asserts),
        primitives=tuple(context.primitives),
        helpers=tuple(context.helpers),
        helper_values=tuple(dict(v for values in context.helpers.values() for v in values).items()),
        functions=tuple(context.functions),
        body=tuple(body),
        launch=launch,
        buffers=buffer_rows(context),
        pipeline=pipeline_lines(context),
        notes=(*context.decisions.notes, *context.notes),
        outputs=program.outputs,
    )


def bind_thread(context: Context) -> None:
    """What the program knows as its threads' index."""
    context.own = per_thread(context.program.kernel)
    if context.own.index is not None:
        whole = context.threads.whole
        context.environment[context.own.index.name] = context.threads.name(whole.name)
        context.ranges[context.own.index.name] = (0, whole.count - 1)


def name_threads(context: Context) -> None:
    """The constants that say how many threads there are and what part of a tile a consumer warpgroup owns."""
    plan = context.plan
    if plan.kind != "warp_specialised":
        context.constant("kThreads", plan.threads)
        return
    warpgroup = context.warpgroup()
    consumers = context.constant("kConsumers", plan.consumers, "warpgroups that compute; one more loads")
    threads = c.operation("*", warpgroup, c.operation("+", 1, consumers))
    context.constants["kThreads"] = Constant("kThreads", threads)
    _name_own_k(context, consumers)
    shares = {decision.warps: decision for _, decision in context.decisions.gemms.items()}
    if plan.consumers == 1 or len(shares) != 1:
        return
    gemm, decision = next(iter(context.decisions.gemms.items()))
    for axis, name in enumerate(("kConsumerRows", "kConsumerColumns")):
        along = 1 - axis if decision.exchanged else axis
        own = decision.instruction[along] * decision.repeats[along]
        extent = gemm.c.buffer.shape[axis]
        if isinstance(extent, Const) and extent.name and own * plan.consumers == int(extent.value):
            value = c.operation("/", context.literal(extent), consumers)
            context.constants[name] = Constant(name, value, comment="of a tile, for each of them")
            context.threads.shares[own] = Name(name)


def _name_own_k(context: Context, consumers: Name) -> None:
    """The constant that says what part of a tile's k a consumer warpgroup multiplies, where each has its own."""
    found = {(decision.k_parts, decision.k_extent) for _, decision in context.decisions.gemms.items()}
    if (
        context.plan.consumers == 1
        or {parts for parts, _ in found} != {context.plan.consumers}
        or len(found) != 1
    ):
        return
    gemm, decision = next(iter(context.decisions.gemms.items()))
    extent = gemm.a.buffer.shape[0 if gemm.transpose_a else 1]
    if isinstance(extent, Const) and extent.name:
        value = c.operation("/", context.literal(extent), consumers)
        context.constants[own_k.CONSTANT] = Constant(
            own_k.CONSTANT, value, comment="of a tile, for each of them"
        )
        context.threads.shares[decision.k_extent] = Name(own_k.CONSTANT)


def threads_of(plan: Plan, target: Target) -> Threads:
    """The names of the threads that compute."""
    limits = target.limits
    if plan.kind == "warp_specialised":
        return consumer_threads(plan.consumers, limits.warpgroup_size, limits.warp_size)
    return plain_threads(plan.threads, limits.warp_size, "wave" if target.language == "hip" else "warp")


def reserve_names(context: Context, program: Program) -> None:
    """Names that the text has from the program or from tilegen itself; fresh ones avoid them."""
    kernel: Kernel = program.kernel
    context.spoken = frozenset(declared_in(program))
    own = (
        "shared",
        "thread",
        "warp",
        "wave",
        "lane",
        "consumer",
        "warpgroup",
        "tile",
        "ring",
        "released",
        "kk",
        "stage",
        *(NAMES if context.plan.draws_tiles else ()),
        *(block_sums.NAMES if block_sums.sums_of(kernel) is not None else ()),
        *(LANE_NAMES if any(d.family == "mma_sync" for _, d in context.decisions.gemms.items()) else ()),
        *((rings.ROUND, rings.DONE) if context.plan.persistent else ()),
    )
    for name in (
        *own,
        *(tensor.name for tensor in program.tensors),
        *(var.name for var in (*program.scalars, *program.extents)),
        *(buffer.name for buffer in kernel.allocations),
    ):
        context.taken[name] = None
