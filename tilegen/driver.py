"""From a tile program to the text of a kernel, pass by pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilegen.emit.file import render
from tilegen.emit.header import render_header
from tilegen.emit.launcher import launcher_body
from tilegen.emit.manifest import build
from tilegen.emit.spoken_names import called_names, declared_names
from tilegen.inference.decisions import Decisions
from tilegen.inference.infer import infer
from tilegen.ir.drop_unused import drop_unused, left_out
from tilegen.ir.inline_positions import inline_positions
from tilegen.ir.name_bounds import name_bounds
from tilegen.ir.name_places import name_places
from tilegen.ir.nodes import Program
from tilegen.ir.rename import names_of, renamed
from tilegen.ir.single_elements import single_elements
from tilegen.ir.through_registers import through_registers
from tilegen.ir.verify import verify
from tilegen.lower.kernel.check_types import check_types
from tilegen.lower.kernel.contract import row_divisors
from tilegen.lower.kernel.hidden_names import hidden_names, hidden_tiles
from tilegen.lower.kernel.kernel import lower
from tilegen.manifest import Manifest
from tilegen.model.kernel import KernelModel
from tilegen.schedule.add_partials import PartsOfOldValues, add_partials
from tilegen.schedule.guard_masks import guard_masks
from tilegen.schedule.kept_exchanges import kept_exchanges
from tilegen.schedule.plan import Plan
from tilegen.schedule.plan_kernel import plan_kernel
from tilegen.schedule.plan_simple import check_threads
from tilegen.target import Target, load_target


@dataclass(frozen=True, slots=True)
class Generated:
    """One kernel for one target: its text, its launcher's header, its manifest, and how they came about."""

    source: str
    header: str
    manifest: Manifest
    model: KernelModel
    program: Program
    decisions: Decisions
    plan: Plan
    target: Target


def generate(
    program: Program, target: str | Target, regenerate: str = "", *, whole_rows: bool = True
) -> Generated:
    """The emitted files of a program for a target. `regenerate` is the command that the header quotes.

    `whole_rows` lets the text assume that rows of dynamic length are whole 16-byte units, which the launcher then
    checks; without it the text is right for any length, and slower.

    Raises:
        ProgramError: pointing at the user's line, when the program is wrong or does not fit the target.
        TargetError: when there is no such target.
    """
    machine = load_target(target) if isinstance(target, str) else target
    program = single_elements(program)
    verify(program)
    check_types(program, machine)
    program = through_registers(program)
    used = drop_unused(program)
    remarks = left_out(program, used)
    program = guard_masks(name_places(inline_positions(name_bounds(used))))
    generated = _passes(program, machine, regenerate, whole_rows, remarks)
    named, model = generated.program, generated.model
    launcher = launcher_body(model)
    spoken = declared_names(generated.source) | called_names((model.body, launcher))
    spoken |= {tensor.name for tensor in model.tensors if tensor.role == "scratch"}
    hidden = (
        *hidden_names(model.body, named),
        *hidden_names(launcher, named, taken=(model.name, "stream")),
        *(name for name in names_of(named) if name in spoken and name != model.name),
    )
    if hidden:
        generated = _passes(renamed(named, hidden), machine, regenerate, whole_rows, remarks)
    manifest = _with_arguments(generated.manifest, program.arguments)
    return replace(generated, manifest=_with_extents(manifest, generated.program))


def _with_extents(manifest: Manifest, program: Program) -> Manifest:
    """The manifest with what the program calls its extents, where the text has other names."""
    pairs = zip(program.extents, program.called, strict=False)
    called = {extent.name: name for extent, name in pairs if extent.name != name}
    return replace(manifest, called=called) if called else manifest


def _with_arguments(manifest: Manifest, names: tuple[str, ...]) -> Manifest:
    """The manifest with what callers call its scalars, whatever the text calls them."""
    if not names:
        return manifest
    pairs = zip(manifest.scalars, names, strict=True)
    scalars = tuple(
        scalar if scalar.name == name else replace(scalar, argument=name) for scalar, name in pairs
    )
    return replace(manifest, scalars=scalars)


def _passes(
    program: Program, machine: Target, regenerate: str, whole_rows: bool, remarks: tuple[str, ...]
) -> Generated:
    check_threads(program, machine)  # first: layouts of parts of warps fail in ways that tell nothing
    decisions, program = _decided(program, machine, row_divisors(program) if whole_rows else {})
    plan = plan_kernel(program, machine, decisions)
    decisions.kept = kept_exchanges(program.kernel, decisions, plan)
    plan.reasons += remarks
    if hidden := hidden_tiles(program, plan):
        return _passes(renamed(program, hidden), machine, regenerate, whole_rows, remarks)
    model = lower(program, machine, decisions, plan, regenerate)
    return Generated(
        source=render(model),
        header=render_header(model),
        manifest=build(model, registers=_register_counts(plan)),
        model=model,
        program=program,
        decisions=decisions,
        plan=plan,
        target=machine,
    )


def _decided(
    program: Program, machine: Target, divisors: Mapping[str, int], whole: tuple[str, ...] = ()
) -> tuple[Decisions, Program]:
    """The decisions, and the program with the additions of sums that warps hold parts of. Where old values are in the
    way of parts that nobody asked for, the warps share rows and columns if they can: `whole` names such accumulators.
    """
    decisions = infer(program, machine, divisors=divisors, whole=whole)
    try:
        return decisions, add_partials(program, decisions)
    except PartsOfOldValues as error:
        if error.asked or error.buffer in whole:
            raise
        return _decided(program, machine, divisors, (*whole, error.buffer))


def _register_counts(plan: Plan) -> dict[str, int]:
    """Registers a thread of each role, where the kernel moves them between roles."""
    registers = plan.registers
    if registers is None:
        return {}
    return {"entry": registers.entry, "producer": registers.producer, "consumer": registers.consumer}
