"""Tiles of uneven work are drawn from a counter, the longest first: right under every schedule, and no step of the
hand-over from the producer to the consumers can be left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulation import Array, generated, kernel_text, relative_error

import tilegen.language as T
from tilegen.emulate import run
from tilegen.emulate.errors import EmulationError


def triangle(A, B, block: int = 64, threads: int = 128):  # type: ignore[no-untyped-def]
    """C[h, i] = sum of A[h, i, k] @ B[h, k] over the blocks k up to i, A and B cut into square blocks."""
    H, N, D = T.const("H, N, D")
    A: T.Tensor((H, N, N), T.float16)
    B: T.Tensor((H, N, D), T.float16)
    C = T.empty((H, N, D), T.float16)
    with T.Kernel(T.ceildiv(N, block), H, threads=threads, persistent=True) as (i, h):
        A_shared = T.alloc_shared((block, block), T.float16)
        B_shared = T.alloc_shared((block, D), T.float16)
        C_local = T.alloc_fragment((block, D), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(i + 1, num_stages=2):
            T.copy(A[h, i * block : (i + 1) * block, k * block : (k + 1) * block], A_shared)
            T.copy(B[h, k * block : (k + 1) * block, :], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[h, i * block : (i + 1) * block, :])
    return C


def _inputs() -> list[Array]:
    rng = np.random.default_rng(4)
    shapes = ((3, 304, 304), (3, 304, 64))
    return [rng.standard_normal(shape).astype(np.float16) for shape in shapes]


def _expected(a: Array, b: Array, block: int = 64) -> Array:
    rows = np.arange(a.shape[1]) // block
    return np.where(rows[None, :, None] >= rows[None, None, :], a, 0).astype(np.float64) @ b.astype(
        np.float64
    )


@pytest.mark.parametrize("multiprocessors", [1, 2, 5, 40])
@pytest.mark.parametrize(
    ("schedule", "asynchronous"), [("fifo", "eager"), ("reverse", "lazy"), ("random", "random")]
)
def test_every_tile_is_computed_once(
    multiprocessors: int, schedule: Any, asynchronous: Any, require_tool: Any
) -> None:
    require_tool("host_compiler")
    inputs = _inputs()
    files = generated(triangle, "sm_90a", inputs, threads=128)
    assert files.plan.draws_tiles
    result = run(
        files.source, files.manifest, inputs, schedule=schedule, asynchronous=asynchronous, seed=7,
        multiprocessors=multiprocessors,
    )  # fmt: skip
    assert isinstance(result, np.ndarray)  # the counter is no result
    assert relative_error(result, _expected(*inputs)) < 1e-3


def test_the_counter_is_scratch_that_the_launcher_clears() -> None:
    files = generated(triangle, "sm_90a", _inputs())
    counter = files.manifest.tensors[-1]
    assert (counter.name, counter.role, counter.zeroed, counter.shape) == (
        "tile_counter", "scratch", True, ("1",),
    )  # fmt: skip
    assert "tile_counter" not in files.manifest.outputs
    cleared = files.source.index("cudaMemsetAsync(tile_counter, 0, sizeof(*tile_counter), stream)")
    assert (
        files.source.rindex("return cudaErrorInvalidValue") < cleared
    )  # a call that is refused writes nothing


def test_blocks_of_equal_work_take_tiles_at_fixed_steps() -> None:
    def square(A, B, block: int = 64):  # type: ignore[no-untyped-def]
        M, K, N = T.const("M, K, N")
        A: T.Tensor((M, K), T.float16)
        B: T.Tensor((K, N), T.float16)
        C = T.empty((M, N), T.float16)
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128, persistent=True) as (x, y):
            A_shared = T.alloc_shared((block, block), T.float16)
            B_shared = T.alloc_shared((block, block), T.float16)
            C_local = T.alloc_fragment((block, block), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                T.copy(A[y * block, k * block], A_shared)
                T.copy(B[k * block, x * block], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[y * block, x * block])
        return C

    files = generated(square, "sm_90a", [np.zeros((256, 256), np.float16)] * 2)
    assert not files.plan.draws_tiles
    assert "tile += gridDim.x" in kernel_text(files)


_MUTATIONS = {
    "consumers do not wait for the number": ("mbarrier_wait(shared.tile_full, round % 2);", ""),
    "the producer does not wait for readers": ("mbarrier_wait(shared.tile_empty, (round % 2) ^ 1);", ""),
    "the producer hands over nothing": ("mbarrier_arrive(shared.tile_full);", ""),
    "consumers never let go of it": ("mbarrier_arrive(shared.tile_empty);", ""),
    "one reader too few is waited for": (
        "mbarrier_init(shared.tile_empty, kConsumers * kWarpgroup);",
        "mbarrier_init(shared.tile_empty, kConsumers * kWarpgroup - 1);",
    ),
    "the number is drawn without an atomic": (
        "atomicAdd(tile_counter, 1)",
        "(*tile_counter)++",
    ),
}


@pytest.mark.parametrize("mutation", _MUTATIONS, ids=lambda name: name)
def test_no_step_of_the_hand_over_can_be_left_out(mutation: str, require_tool: Any) -> None:
    require_tool("host_compiler")
    inputs = _inputs()
    files = generated(triangle, "sm_90a", inputs)
    before, after = _MUTATIONS[mutation]
    assert files.source.count(before) == 1
    text = files.source.replace(before, after)
    with pytest.raises(EmulationError):
        for schedule, seed in (("fifo", 0), ("reverse", 0), *(("random", seed) for seed in range(6))):
            run(
                text,
                files.manifest,
                inputs,
                schedule=schedule,
                asynchronous="lazy",
                seed=seed,
                multiprocessors=3,
            )  # type: ignore[arg-type]
