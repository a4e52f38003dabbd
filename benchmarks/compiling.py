"""Compiles kernels of the benchmarks, in parallel, each in a process of its own."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.cases import GemmCase
from benchmarks.gemm_case import searched
from benchmarks.isolation import Deadline
from benchmarks.schedules import default_schedule
from tilegen.errors import TilegenError
from tilegen.runtime.compilation import Backend, compile_image, for_capability

Result = TypeVar("Result")

_DEVICE = (9, 0)  # compute capability of the machine that the kernels are for
_NOTE = "prepared.json"
_TELLING = (": error:", "ptxas fatal", ": warning")


@dataclass(frozen=True, slots=True)
class Variant:
    """One kernel to compile. `program` is "package.module:name", or the path of an example."""

    program: str
    specs: tuple[Any, ...]
    target: str
    parameters: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Compiled:
    """What became of a variant; `error` is empty where all went well."""

    variant: Variant
    registers: int
    spills: int
    error: str


def load_program(reference: str) -> Any:
    """The @tilegen.jit function behind a variant's `program`."""
    if reference.endswith(".py"):
        from tilegen.cli.loading import load_kernel

        return load_kernel(reference)
    module, _, name = reference.rpartition(":")
    return getattr(importlib.import_module(module), name)


def compile_variant(variant: Variant, backend: Backend) -> Compiled:
    """Emits and compiles a variant, for its own architecture and for the device's where that is another."""
    try:
        program = load_program(variant.program)
        emission = program.emit(*variant.specs, target=variant.target, **dict(variant.parameters))
        kernel = emission.compile(backend)
        target = for_capability(emission.target, _DEVICE)
        if target != emission.target:
            compile_image(emission.source, emission.name, target, backend)
    except TilegenError as error:
        return Compiled(variant, 0, 0, str(error))
    return Compiled(variant, kernel.registers, kernel.spills, "")


def gemm_variants(cases: Iterable[GemmCase], search: int) -> list[Variant]:
    """Every kernel that the GEMM benchmark will ask for."""
    variants: dict[Variant, None] = {}
    for case in cases:
        fixed = case.fixed_parameters()
        if case.kind == "quick_start":
            variants[_variant("matmul_relu", case, fixed)] = None
            continue
        for schedule in (*searched(case, search), default_schedule(case.stored, case.target)):
            variants[_variant("matmul", case, fixed | schedule.parameters())] = None
    return list(variants)


def _variant(name: str, case: GemmCase, parameters: dict[str, Any]) -> Variant:
    return Variant(f"benchmarks.kernels:{name}", case.specs(), case.target, tuple(parameters.items()))


def compile_all(
    variants: Sequence[Variant], backend: Backend, jobs: int, deadline: Deadline
) -> tuple[list[Compiled], int]:
    """Compiles in `jobs` processes until done or out of time.

    Returns:
        what was compiled, and how many variants were left.
    """
    return in_parallel(compile_variant, [(variant, backend) for variant in variants], jobs, deadline)


def in_parallel(
    function: Callable[..., Result], calls: Sequence[tuple[Any, ...]], jobs: int, deadline: Deadline
) -> tuple[list[Result], int]:
    """Makes the calls in `jobs` processes until done or out of time.

    Returns:
        the results there are, in the calls' order, and how many calls were left.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.preload"])
    pool = ProcessPoolExecutor(jobs, mp_context=context)
    futures = [pool.submit(function, *call) for call in calls]
    done, left = wait(futures, timeout=deadline.remaining())
    pool.shutdown(wait=not left, cancel_futures=True)
    return [future.result() for future in futures if future in done], len(left)


def write_note(folder: Path, backend: Backend) -> None:
    """Says which compiler filled the cache."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _NOTE).write_text(json.dumps({"backend": backend}) + "\n")


def backend_of(folder: Path | None, chosen: Backend | None) -> Backend:
    """The compiler to ask for: the one chosen, else the one that filled the cache, else NVRTC."""
    if chosen is not None:
        return chosen
    note = None if folder is None else folder / _NOTE
    if note is not None and note.is_file():
        backend: Backend = json.loads(note.read_text())["backend"]
        return backend
    return "nvrtc"


def summary(results: Sequence[Compiled], left: int) -> str:
    """One line, and the first words of each kind of failure."""
    failed = [result for result in results if result.error]
    spilling = [result for result in results if result.spills]
    lines = [
        f"{len(results) - len(failed)} kernels compiled, {len(failed)} refused, {left} left out, "
        f"{len(spilling)} spill registers"
    ]
    kinds = dict.fromkeys(f"{r.variant.target}: {_telling(r.error)}" for r in failed)
    kinds |= dict.fromkeys(
        f"{r.spills} bytes spilled by {r.variant.target} {_schedule(r.variant)}" for r in spilling
    )
    return "\n".join([*lines, *(f"  {kind}" for kind in list(kinds)[:12])])


def _telling(error: str) -> str:
    """The first line that says what is wrong: a compiler's first error, else the first line."""
    lines = error.splitlines()
    return next((line for line in lines if any(word in line for word in _TELLING)), lines[0])[:160]


def _schedule(variant: Variant) -> str:
    return ", ".join(f"{name}={value}" for name, value in variant.parameters)
