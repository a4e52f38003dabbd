"""`tilegen check`: every target of an example, emulated under adversarial schedules and compiled by every compiler."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, Literal

import numpy
import typer
from rich import box
from rich.table import Table
from rich.text import Text

from tilegen.cli.comparing import difference
from tilegen.cli.console import errors, output
from tilegen.cli.loading import Example, load_example
from tilegen.cli.options import ExampleFile, Settings, Targets, read_settings
from tilegen.emission import Emission
from tilegen.emulate import CompilerMissing
from tilegen.errors import TilegenError
from tilegen.language.tensors import TensorSpec, spec_of_array
from tilegen.toolchain import CompileResult, ToolMissing, build_cuda, build_hip, compile_cuda, compile_hip

Status = Literal["ok", "slow", "finding", "skipped"]
_STYLES: dict[Status, str] = {"ok": "green", "slow": "yellow", "finding": "bold red", "skipped": "yellow"}
_SERIALISED = re.compile(
    r"\((C75\d\d)\)[^\n]*instructions are serialized"
)  # ptxas's note that no wgmma overlaps
_EMULATE = "emulate "
_SCHEDULES: tuple[tuple[Any, Any], ...] = (
    ("reverse", "eager"),
    ("reverse", "lazy"),
    ("random", "eager"),
    ("random", "lazy"),
    ("random", "random"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check of one target found: "slow" is a right kernel that its compiler could not make fast."""

    target: str
    what: str
    status: Status
    detail: str


def check(
    file: ExampleFile,
    target: Targets = None,
    set: Settings = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Random schedules of each kind.")] = 3,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Checks at a time.")] = os.cpu_count() or 1,
) -> None:
    """Check an example on every target; exit with 1 on a finding."""
    example = load_example(file)
    settings = read_settings(set)
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(jobs) as pool:
        for name in target or example.targets:
            verdicts += check_target(example, name, {**example.parameters_for(name), **settings}, seeds, pool)
    output.print(_table(verdicts))
    findings = [verdict for verdict in verdicts if verdict.status == "finding"]
    for verdict in findings:
        errors.print(Text.assemble((f"{verdict.target}, {verdict.what}: ", "bold red"), verdict.detail))
    skipped = sum(verdict.status == "skipped" for verdict in verdicts)
    output.print(f"{len(verdicts)} checks, {len(findings)} findings, {skipped} skipped for a missing tool")
    if findings:
        raise typer.Exit(1)


def check_target(
    example: Example, target: str, parameters: dict[str, Any], seeds: int, pool: ThreadPoolExecutor
) -> list[Verdict]:
    """Emits the example for one target and checks the text in every way that this machine allows."""
    inputs = example.made_inputs(numpy.random.default_rng(0), parameters, small=True)
    specs = tuple(_spec(array) for array in inputs)
    try:
        if example.kernel.is_factory:
            emission = example.kernel.emit(target=target, **parameters)
        else:
            emission = example.kernel.emit(*specs, target=target, **parameters)
    except TilegenError as error:
        return [Verdict(target, "emit", "finding", str(error))]
    lines = len(emission.source.splitlines())
    verdicts = [Verdict(target, "emit", "ok", f"{lines} lines")]
    expected = example.expected(inputs, parameters)

    def emulated(mode: tuple[str, str, int]) -> Verdict:
        return _emulated(emission, inputs, expected, example.tolerance, mode)

    modes = list(_modes(seeds))
    verdicts.append(emulated(modes[0]))  # alone, so that the rest find the emulator's program built
    verdicts += pool.map(emulated, modes[1:])
    verdicts += pool.map(lambda entry: _compiled(emission, *entry), compilers(emission))
    return verdicts


def _spec(array: numpy.ndarray[Any, Any]) -> TensorSpec:
    return spec_of_array(array.shape, array.dtype)


def _modes(seeds: int) -> Iterator[tuple[str, str, int]]:
    for schedule, asynchronous in _SCHEDULES:
        for seed in range(seeds if "random" in (schedule, asynchronous) else 1):
            yield schedule, asynchronous, seed


def _emulated(
    emission: Emission,
    inputs: tuple[Any, ...],
    expected: Any,
    tolerance: float,
    mode: tuple[str, str, int],
) -> Verdict:
    schedule, asynchronous, seed = mode
    what = f"{_EMULATE}{schedule}/{asynchronous} seed {seed}"
    options: dict[str, Any] = {"schedule": schedule, "asynchronous": asynchronous, "seed": seed}
    try:
        found = difference(emission.emulate(*inputs, **options), expected)
    except CompilerMissing as error:
        return Verdict(emission.target.name, what, "skipped", str(error))
    except TilegenError as error:
        return Verdict(emission.target.name, what, "finding", str(error))
    return Verdict(emission.target.name, what, "ok" if found.within(tolerance) else "finding", str(found))


def compilers(emission: Emission) -> list[tuple[str, Callable[[], CompileResult]]]:
    """The ways to compile an emission's file: device code, and the whole file with its launcher."""
    source, target = emission.source, emission.target
    if target.language == "cuda":
        return [
            ("NVRTC", lambda: compile_cuda(source, target, "nvrtc")),
            ("nvcc, device code", lambda: compile_cuda(source, target, "nvcc")),
            ("nvcc, whole file", lambda: build_cuda(source, target)),
        ]
    return [
        ("clang, device code", lambda: compile_hip(source, target)),
        ("clang, host code", lambda: build_hip(source, target)),
    ]


def _compiled(emission: Emission, what: str, compile_it: Callable[[], CompileResult]) -> Verdict:
    try:
        result = compile_it()
    except ToolMissing as error:
        return Verdict(emission.target.name, what, "skipped", str(error))
    except TilegenError as error:
        return Verdict(emission.target.name, what, "finding", str(error))
    detail = f"{result.registers} registers, {result.spills} spilled" if result.kernels else "compiles"
    if result.scalar_spills:
        detail += f", {result.scalar_spills} scalar ones kept in vector registers"
    serialised = _SERIALISED.search(result.log)
    if serialised is not None:
        detail += f", wgmma serialised (ptxas {serialised[1]})"
    return Verdict(emission.target.name, what, "slow" if serialised or result.spills else "ok", detail)


def _table(verdicts: list[Verdict]) -> Table:
    table = Table("target", "check", "result", box=box.SIMPLE, pad_edge=False)
    table.add_column("detail", overflow="fold")
    above = ""
    for verdict in _folded(verdicts):
        detail = verdict.detail.splitlines()[0] if verdict.detail else ""
        target = verdict.target if verdict.target != above else ""
        table.add_row(target, verdict.what, Text(verdict.status, style=_STYLES[verdict.status]), Text(detail))
        above = verdict.target
    return table


def _folded(verdicts: list[Verdict]) -> Iterator[Verdict]:
    """Emulations of a target that ended alike as one verdict, findings and everything else one by one."""
    for (target, status, emulated), group in groupby(
        verdicts, lambda verdict: (verdict.target, verdict.status, verdict.what.startswith(_EMULATE))
    ):
        alike = list(group)
        if emulated and status != "finding":
            yield Verdict(target, f"{_EMULATE}in {len(alike)} schedules", status, alike[0].detail)
        else:
            yield from alike
