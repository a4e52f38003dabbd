"""What a kernel costs before it runs: generation, run-time compilation, and the Python of a launch."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.isolation import Progress
from tilegen.emission import Emission
from tilegen.errors import TilegenError
from tilegen.runtime.compilation import Backend
from tilegen.toolchain import compile_cuda, find_tools

_WARM_CALLS = 100
_CALLS = 400
GENERATION_BAR = 0.20  # seconds
NVRTC_BAR = 1.5  # seconds
LAUNCH_BAR = 12.0  # microseconds


def seconds(
    function: Callable[[], Any], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The median time of a call after one that warms up."""
    function()
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return median(times)


def generation(progress: Progress) -> dict[str, Any]:
    """Seconds from the tile program to the text, imports warm, and of NVRTC where it is found. Needs no GPU."""
    import tilegen.language as T
    from benchmarks import kernels

    square = T.Tensor((4096, 4096), T.float16)
    found: dict[str, Any] = {"generation_seconds": {}, "nvrtc_seconds": {}, "failed": {}}
    programs: dict[str, Callable[[str], Emission]] = {
        "quick start": lambda target: kernels.matmul_relu.emit(square, square, target=target),
        "128x256x64": lambda target: kernels.matmul.emit(
            square, square, target=target, block_N=256, threads=256
        ),
    }
    for name, emit in programs.items():
        for target in ("sm_90a", "sm_80", "gfx942"):
            progress(f"{name} for {target}")
            _cost_of(f"{name}, {target}", functools.partial(emit, target), found)
    return found


def _cost_of(key: str, emit: Callable[[], Emission], found: dict[str, Any]) -> None:
    """Adds one program's times for one target, or why there are none."""
    try:
        found["generation_seconds"][key] = seconds(emit, 5)
        emission = emit()
        if emission.target.language == "cuda" and find_tools().nvrtc is not None:
            compiling = functools.partial(compile_cuda, emission.source, emission.target, "nvrtc")
            found["nvrtc_seconds"][key] = seconds(compiling, 3)
    except TilegenError as error:
        found["failed"][key] = str(error)[:300]


def launch_overhead(progress: Progress, backend: Backend) -> dict[str, float]:
    """Microseconds of Python of a warm call with two inputs and one output, on a product too small to fill the queue.

    `jit` allocates the output, `launch` writes one that exists; torch's own calls stand beside them, and `driver`, the
    part of each launch that is no Python.
    """
    import torch

    import tilegen.language as T
    from benchmarks import kernels

    progress("launch overhead")
    a, b = (torch.randn(128, 128, device="cuda").half() for _ in "ab")
    c = torch.empty_like(a)
    spec = T.Tensor((128, 128), T.float16)
    kernel = kernels.matmul_relu.emit(spec, spec, target="sm_90a").compile(backend)
    prepared = kernel.prepare((a, b), (c,), ())
    prepared.run((a, b), [array.data_ptr() for array in (a, b, c)], (c,), (), None)
    stream = torch.cuda.current_stream().cuda_stream
    calls: dict[str, Callable[[], Any]] = {
        "jit": lambda: kernels.matmul_relu(a, b),
        "jit, out=": lambda: kernels.matmul_relu(a, b, out=c),
        "compiled": lambda: kernel(a, b),
        "launch": lambda: kernel.launch(a, b, c),
        "driver": lambda: prepared.launcher.again(stream),
        "torch.matmul": lambda: torch.matmul(a, b),
        "torch.matmul, out=": lambda: torch.matmul(a, b, out=c),
    }
    return {name: _microseconds(call, torch.cuda.synchronize) for name, call in calls.items()}


def _microseconds(call: Callable[[], Any], synchronize: Callable[[], None]) -> float:
    for _ in range(_WARM_CALLS):
        call()
    times = []
    for _ in range(7):
        synchronize()
        start = time.perf_counter_ns()
        for _ in range(_CALLS):
            call()
        times.append((time.perf_counter_ns() - start) / _CALLS / 1000)
    synchronize()
    return median(times)
