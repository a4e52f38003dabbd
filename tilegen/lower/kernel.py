"""Assembles the kernel model: roles, shared storage, parameters, launch contract, the header's tables."""

from __future__ import annotations

from tilegen.inference.decisions import Decisions
from tilegen.ir.nodes import Kernel, Program
from tilegen.ir.summary import summary
from tilegen.lower.bodies import lower_body
from tilegen.lower.context import Context, constant_name
from tilegen.lower.facts import buffer_rows, pipeline_lines
from tilegen.lower.launch import launch_of
from tilegen.lower.parameters import parameters_of, requirements_of, tensor_arguments
from tilegen.lower.storage import order_members
from tilegen.lower.threads import Threads, consumer_threads, plain_threads
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
    context.constant("kThreads", plan.threads)
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


def ordered_constants(context: Context) -> list[Constant]:
    """The program's parameters in their order, then what tilegen added in the order of its use."""
    parameters = [constant_name(name) for name, _ in context.program.parameters]
    rank = {name: position for position, name in enumerate(parameters)}
    return sorted(context.constants.values(), key=lambda constant: rank.get(constant.name, len(rank)))


def threads_of(plan: Plan, target: Target) -> Threads:
    """The names of the threads that compute."""
    limits = target.limits
    if plan.kind == "warp_specialised":
        return consumer_threads(plan.consumers, limits.warpgroup_size, limits.warp_size)
    return plain_threads(plan.threads, limits.warp_size, "wave" if target.language == "hip" else "warp")


def reserve_names(context: Context, program: Program) -> None:
    """Names that the text has from the program or from tilegen itself; fresh ones avoid them."""
    kernel: Kernel = program.kernel
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
    )
    for name in (
        *own,
        *(tensor.name for tensor in program.tensors),
        *(var.name for var in (*program.scalars, *program.extents)),
        *(buffer.name for buffer in kernel.allocations),
    ):
        context.taken[name] = None
