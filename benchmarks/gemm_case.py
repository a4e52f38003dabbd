"""One GEMM case, in a process of its own: operands, reference, and the competitors side by side."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.cases import GemmCase
from benchmarks.contest import DEFAULT, OWN, Candidates, Contest, Options, hold
from benchmarks.correctness import TOLERANCES, Block, Output, Verdict, judge, product
from benchmarks.isolation import Progress
from benchmarks.measure import CudaTimer, Run
from benchmarks.schedules import Schedule, default_schedule, search_space
from tilegen.runtime.compilation import Backend

BASELINE = "cuBLAS"


@dataclass(frozen=True, slots=True)
class Arrays:
    """A case's operands as they are stored, its output, and the float64 reference."""

    a: Any
    b: Any
    output: Output
    reference: Sequence[Block]


def run_case(progress: Progress, case: GemmCase, options: Options) -> dict[str, Any]:
    """Measures one case on the GPU; returns its entry for the results file."""
    progress("inputs")
    arrays = make_arrays(case)
    contest = Contest(
        case=case.name,
        bar=case.bar,
        baseline=BASELINE,
        competitors=_competitors(case, arrays, options),
        check=lambda name, run: _verdict(name, run, arrays, case),
        work=case.flops,
        unit="teraflops",
    )
    return hold(contest, options, CudaTimer(), progress)


def make_arrays(case: GemmCase, device: str = "cuda", seed: int = 0) -> Arrays:
    """Standard normal operands, a poisoned output and the reference."""
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    dtype = getattr(torch, case.dtype)
    a, b = (
        torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(dtype)
        for shape in case.stored_shapes
    )
    transpose_a, transpose_b = case.transposes
    reference = product(a.T if transpose_a else a, b.T if transpose_b else b, case.kind == "quick_start")
    return Arrays(a, b, Output((case.problem.M, case.problem.N), dtype, device), reference)


def searched(case: GemmCase, limit: int) -> tuple[Schedule, ...]:
    """The schedules that a case's search tries; more where the default is held against the search."""
    if not limit or case.kind == "quick_start":
        return ()
    return search_space(case.stored, case.target, limit + limit // 2 if case.compare_default else limit)


def own_launch(case: GemmCase, schedule: Schedule | None, arrays: Arrays, backend: Backend) -> Run:
    """A launch of tilegen's kernel under a schedule (None: the program's own defaults)."""
    from benchmarks import kernels

    program = kernels.matmul if case.kind == "matmul" else kernels.matmul_relu
    parameters = case.fixed_parameters() | ({} if schedule is None else schedule.parameters())
    kernel = program.emit(*case.specs(), target=case.target, **parameters).compile(backend)
    a, b, c = arrays.a, arrays.b, arrays.output.tensor
    return lambda: kernel.launch(a, b, c)


def _verdict(name: str, run: Run, arrays: Arrays, case: GemmCase) -> Verdict:
    """The result against the reference. cuBLAS has no ReLU: it gets one here, outside what is timed."""

    def once() -> None:
        run()
        if case.kind == "quick_start" and name == BASELINE:
            arrays.output.tensor.clamp_(min=0)

    return judge(once, arrays.output, arrays.reference, TOLERANCES[case.dtype])


def _competitors(case: GemmCase, arrays: Arrays, options: Options) -> dict[str, Candidates]:
    found: dict[str, Candidates] = {BASELINE: {"torch.matmul": lambda: _cublas(case, arrays)}}
    peers = {"triton": ("Triton", _triton), "tilelang": ("TileLang", _tilelang)}
    for package in options.peers:
        name, candidates_of = peers[package]
        if importlib.util.find_spec(package) is not None:
            found[name] = candidates_of(case, arrays)
    if case.kind == "quick_start":
        return found | {OWN: {"as written": lambda: own_launch(case, None, arrays, options.backend)}}
    default = default_schedule(case.stored, case.target)
    schedules = searched(case, options.search)
    found[OWN] = {str(s): _own(case, s, arrays, options.backend) for s in schedules or (default,)}
    if case.compare_default and schedules:
        found[DEFAULT] = {str(default): _own(case, default, arrays, options.backend)}
    return found


def _own(case: GemmCase, schedule: Schedule, arrays: Arrays, backend: Backend) -> Callable[[], Run]:
    return lambda: own_launch(case, schedule, arrays, backend)


def _cublas(case: GemmCase, arrays: Arrays) -> Run:
    import torch

    transpose_a, transpose_b = case.transposes
    a = arrays.a.T if transpose_a else arrays.a
    b = arrays.b.T if transpose_b else arrays.b
    c = arrays.output.tensor
    return lambda: torch.matmul(a, b, out=c)


def _triton(case: GemmCase, arrays: Arrays) -> Candidates:
    if case.kind == "quick_start":
        return {}
    from benchmarks import triton_gemm

    return triton_gemm.candidates(arrays.a, arrays.b, arrays.output.tensor, *case.transposes)


def _tilelang(case: GemmCase, arrays: Arrays) -> Candidates:
    if case.layout != "NN":
        return {}
    from benchmarks import tilelang_gemm

    a, b, c = arrays.a, arrays.b, arrays.output.tensor
    return (
        tilelang_gemm.quick_start(a, b, c)
        if case.kind == "quick_start"
        else tilelang_gemm.candidates(a, b, c)
    )
