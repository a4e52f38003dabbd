"""What the GPU tests do in their child processes. Functions return lists of problems; empty lists are success."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tilegen.language as T
from benchmarks import kernels
from benchmarks.cases import GemmCase
from benchmarks.correctness import TOLERANCES, Output, compare
from benchmarks.gemm_case import make_arrays
from benchmarks.schedules import Problem
from tilegen.cli.comparing import difference, host_array
from tilegen.cli.loading import load_example
from tilegen.cli.run import _on_gpu, call
from tilegen.errors import TilegenError

Progress = Callable[[str], None]
Shapes = Sequence[tuple[int, int, int]]
REPEATS = 20  # launches whose results must be the same bits


def gemm_shapes(
    progress: Progress,
    shapes: Shapes,
    dtype: str,
    layout: Any,
    target: str,
    parameters: Mapping[str, Any],
    open_extents: bool = False,
) -> list[str]:
    """`kernels.matmul` on each shape against float64; with `open_extents`, one file for all shapes."""
    import torch

    problems = []
    opened = None
    for shape in shapes:
        case = GemmCase(Problem(*shape), dtype, layout, target=target)
        progress(case.name)
        arrays = make_arrays(case)
        out_dtype = parameters.get("out_dtype", dtype)
        output = Output(arrays.output.tensor.shape, getattr(torch, out_dtype), "cuda")
        chosen = {**case.fixed_parameters(), **parameters}
        try:
            if open_extents:
                opened = opened or kernels.matmul.emit(*_open_specs(case), target=target, **chosen).compile()
                kernel = opened
            else:
                kernel = kernels.matmul.emit(*case.specs(), target=target, **chosen).compile()
            if kernel.spills:
                problems.append(f"{case.name}: {kernel.spills} bytes are spilled")
            kernel.launch(arrays.a, arrays.b, output.tensor)
        except TilegenError as error:
            problems.append(f"{case.name}: {error}")
            continue
        verdict = compare(output, arrays.reference, TOLERANCES[out_dtype])
        if not verdict.passed:
            problems.append(f"{case.name} {dict(parameters)}: {verdict}")
    return problems


def _open_specs(case: GemmCase) -> tuple[Any, Any]:
    """The operands with all extents open."""
    transpose_a, transpose_b = case.transposes
    a, b = ("K", "M") if transpose_a else ("M", "K"), ("N", "K") if transpose_b else ("K", "N")
    return T.Tensor(a, case.dtype), T.Tensor(b, case.dtype)


def gemm_repeats(
    progress: Progress, shape: tuple[int, int, int], target: str, parameters: Mapping[str, Any]
) -> list[str]:
    """The same launch many times gives the same bits: what differs is a race."""
    import torch

    case = GemmCase(Problem(*shape), target=target)
    progress(case.name)
    arrays = make_arrays(case)
    kernel = kernels.matmul.emit(
        *case.specs(), target=target, **case.fixed_parameters(), **parameters
    ).compile()
    first = None
    for turn in range(REPEATS):
        arrays.output.poison()
        kernel.launch(arrays.a, arrays.b, arrays.output.tensor)
        bits = arrays.output.tensor.view(torch.int16).clone()
        if first is not None and not torch.equal(first, bits):
            return [f"{case.name}: launch {turn} differs from the first"]
        first = bits
    verdict = compare(arrays.output, arrays.reference, TOLERANCES["float16"])
    return [] if verdict.passed else [f"{case.name}: {verdict}"]


def gemm_in_graph(progress: Progress, target: str, parameters: dict[str, Any]) -> list[str]:
    """A launch captured into a CUDA graph, replayed twice on new inputs, launches outside of it in between."""
    import torch

    case = GemmCase(Problem(512, 768, 256), target=target)
    arrays = make_arrays(case)
    parameters = case.fixed_parameters() | parameters
    kernel = kernels.matmul.emit(*case.specs(), target=target, **parameters).compile()
    a, b = torch.zeros_like(arrays.a), torch.zeros_like(arrays.b)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        kernel.launch(a, b, arrays.output.tensor)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel.launch(a, b, arrays.output.tensor)
    a.copy_(arrays.a)
    b.copy_(arrays.b)
    failures = []
    for turn in ("first replay", "launch", "second replay"):
        arrays.output.poison()
        if turn == "launch":
            kernel.launch(a, b, arrays.output.tensor)
        else:
            graph.replay()
        verdict = compare(arrays.output, arrays.reference, TOLERANCES["float16"])
        failures += [] if verdict.passed else [f"{turn}: {verdict}"]
    return failures


def quick_start_everywhere(progress: Progress, framework: str) -> list[str]:
    """The quick start called as a Python function on arrays of a framework, on a stream of its own."""
    import cupy
    import torch

    generator = np.random.default_rng(5)
    a, b = (generator.standard_normal(shape).astype(np.float16) for shape in ((300, 200), (200, 136)))
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    if framework == "torch":
        with torch.cuda.stream(torch.cuda.Stream()):
            result = kernels.matmul_relu(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda())
            torch.cuda.current_stream().synchronize()
    else:
        with cupy.cuda.Stream(non_blocking=True) as stream:
            result = kernels.matmul_relu(cupy.asarray(a), cupy.asarray(b))
            stream.synchronize()
    found = difference(result, expected)
    return [] if found.within(1e-3) else [f"{framework}: {found}"]


def example(progress: Progress, path: str, target: str | None, seed: int, small: bool) -> list[str]:
    """An example module against its own reference, twice: the second call takes the warm path."""
    loaded = load_example(path)
    kernel = loaded.kernel if target is None else loaded.kernel.for_target(target)
    generator = np.random.default_rng(seed)
    parameters = loaded.parameters if target is None else loaded.parameters_for(target)
    inputs = loaded.made_inputs(generator, parameters, small)
    arrays = tuple(_on_gpu(array) for array in inputs)
    expected = loaded.expected(inputs, parameters)
    run = call(kernel, arrays, dict(parameters))
    problems = []
    for turn in ("cold", "warm"):
        progress(f"{loaded.name} {turn}")
        found = difference(run(), expected)
        if not found.within(loaded.tolerance):
            problems.append(f"{loaded.name} ({turn}), seed {seed}: {found}")
    return problems


def program_named(file: str) -> Any:
    """A module of tile programs below tests/, by its path there."""
    path = Path(__file__).resolve().parents[1] / file
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def program(
    progress: Progress,
    file: str,
    name: str,
    target: str,
    arrays: Sequence[Any],
    expected: Any,
    parameters: Mapping[str, Any],
    tolerance: float,
) -> list[str]:
    """A tile program of a test module on arrays, twice, against what it should give."""
    kernel = getattr(program_named(file), name).for_target(target)
    on_device = [_on_gpu(array) for array in arrays]
    problems = []
    for turn in ("first", "second"):
        progress(f"{name} {turn}")
        found = difference(kernel(*on_device, **parameters), expected)
        if not found.within(tolerance):
            problems.append(f"{name} ({turn} launch) {dict(parameters)}: {found}")
    return problems


def attention_shapes(
    progress: Progress, cases: Sequence[tuple[int, ...]], causal: bool, target: str
) -> list[str]:
    """examples/attention.py on (batch, heads, key heads, queries, keys, head dimension), output and log-sum-exp."""
    import torch

    from benchmarks.own import kernel_of

    kernel = kernel_of("attention").for_target(target)
    problems = []
    for batch, heads, key_heads, queries, keys, dimension in cases:
        name = f"B{batch} H{heads}/{key_heads} Sq{queries} Sk{keys} D{dimension}"
        progress(name)
        generator = torch.Generator("cuda").manual_seed(1)

        def tensor(length: int, count: int, b: int = batch, d: int = dimension, g: Any = generator) -> Any:
            return torch.randn((b, length, count, d), generator=g, device="cuda").half()

        q, k, v = tensor(queries, heads), tensor(keys, key_heads), tensor(keys, key_heads)
        expected, sums = _attention(q, k, v, causal)
        try:
            out, lse = kernel(q, k, v, causal=causal)
        except TilegenError as error:
            problems.append(f"{name}: {error}")
            continue
        seen = torch.isfinite(sums)  # a query that sees no key has no defined output
        rows = seen.transpose(1, 2)[..., None]
        found = difference(
            host_array(torch.where(rows, out.double(), 0)), host_array(torch.where(rows, expected, 0))
        )
        if not found.within(2e-3) or found.worst > 2e-2:
            problems.append(f"{name} output: {found}")
        found = difference(
            host_array(torch.where(seen, lse.double(), 0)), host_array(torch.where(seen, sums, 0))
        )
        if found.worst > 1e-3 or found.not_finite:
            problems.append(f"{name} log-sum-exp: {found}")
    return problems


def _attention(q: Any, k: Any, v: Any, causal: bool) -> tuple[Any, Any]:
    """Output [B, S, H, D] and log-sum-exp [B, H, S] in float64; the last query sees the last key."""
    import torch

    heads, queries, keys = q.shape[2], q.shape[1], k.shape[1]
    times = heads // k.shape[2]
    left, right = (t.double().repeat_interleave(times, 2).transpose(1, 2) for t in (k, v))
    scores = q.double().transpose(1, 2) @ left.transpose(2, 3) / q.shape[3] ** 0.5
    if causal:
        hidden = torch.ones(queries, keys, dtype=torch.bool, device=q.device).triu(1 + keys - queries)
        scores.masked_fill_(hidden, float("-inf"))
    weights = torch.nan_to_num(torch.softmax(scores, -1))
    return (weights @ right).transpose(1, 2), torch.logsumexp(scores, -1)
