"""From a tile program to the text of a kernel, pass by pass."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.diagnostics import ProgramError
from tilegen.emit.file import render
from tilegen.emit.header import render_header
from tilegen.emit.launcher import launcher_body
from tilegen.emit.manifest import build
from tilegen.emit.spoken_names import called_names, declared_names
from tilegen.inference.decisions import Decisions
from tilegen.inference.infer import infer
from tilegen.ir.drop_unused import drop_unused
from tilegen.ir.effects import expressions_of
from tilegen.ir.inline_positions import inline_positions
from tilegen.ir.location import Location
from tilegen.ir.nodes import Program
from tilegen.ir.rename import names_of, renamed
from tilegen.ir.types import DType
from tilegen.ir.verify import verify
from tilegen.ir.walk import each_node, each_statement
from tilegen.lower.contract import row_divisors
from tilegen.lower.hidden_names import hidden_names
from tilegen.lower.kernel import lower
from tilegen.manifest import Manifest
from tilegen.model.dialect import DialectError
from tilegen.model.kernel import KernelModel
from tilegen.schedule.guard_masks import guard_masks
from tilegen.schedule.plan import Plan
from tilegen.schedule.plan_kernel import plan_kernel
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
    verify(program)
    program = guard_masks(inline_positions(drop_unused(program)))
    generated = _generated(program, machine, regenerate, whole_rows)
    model = generated.model
    launcher = launcher_body(model)
    spoken = declared_names(generated.source) | called_names((model.body, launcher))
    hidden = (
        *hidden_names(model.body, program),
        *hidden_names(launcher, program, taken=(model.name, "stream")),
        *(name for name in names_of(program) if name in spoken and name != model.name),
    )
    return _generated(renamed(program, hidden), machine, regenerate, whole_rows) if hidden else generated


def _generated(program: Program, machine: Target, regenerate: str, whole_rows: bool) -> Generated:
    try:
        return _passes(program, machine, regenerate, whole_rows)
    except DialectError as error:
        place = _place_of(error.dtype, program)
        if place is None:
            raise
        raise ProgramError(
            place,
            f"{error.dtype} has no C++ type on {machine.name}",
            remedy="convert the values to another type before the kernel, or use another target",
        ) from error


def _place_of(dtype: DType | None, program: Program) -> Location | None:
    """The first line of the program that speaks of an element type."""
    for buffer in (*program.tensors, *program.kernel.allocations):
        if buffer.dtype == dtype:
            return buffer.location
    for statement in each_statement(program.kernel.body):
        if any(getattr(node, "dtype", None) == dtype for node in each_node(expressions_of(statement))):
            return statement.location
    return None


def _passes(program: Program, machine: Target, regenerate: str, whole_rows: bool) -> Generated:
    decisions = infer(program, machine, divisors=row_divisors(program) if whole_rows else {})
    plan = plan_kernel(program, machine, decisions)
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


def _register_counts(plan: Plan) -> dict[str, int]:
    """Registers a thread of each role, where the kernel moves them between roles."""
    registers = plan.registers
    if registers is None:
        return {}
    return {"entry": registers.entry, "producer": registers.producer, "consumer": registers.consumer}
