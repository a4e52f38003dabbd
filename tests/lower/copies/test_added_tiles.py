"""Accumulators that blocks add to one tensor: through the TMA unit where it can add them, by threads elsewhere."""

# mypy: ignore-errors

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from emulation import TARGETS, emulated, generated, kernel_text

import tilegen.language as T

RANDOM = {"schedule": "random", "asynchronous": "lazy", "seed": 4}


def product(A, B, block: int = 64, split: int = 2, threads: int = 128, out: str = "float16"):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), out)
    tiles = T.ceildiv(K, 64 * split)
    with T.Kernel(T.ceildiv(N, block) * split, T.ceildiv(M, block), threads=threads) as (x, y):
        A_shared = T.alloc_shared((block, 64), T.float16)
        B_shared = T.alloc_shared((64, block), T.float16)
        C_local = T.alloc_fragment((block, block), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(tiles, num_stages=2):
            T.copy(A[y * block, (x % split * tiles + k) * 64], A_shared)
            T.copy(B[(x % split * tiles + k) * 64, x // split * block], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.atomic_add(C[y * block, x // split * block], C_local)
    return C


def _numbers(*shape: int):
    """So small that every order of adding gives the same sum in 16 bits."""
    return np.random.default_rng(9).integers(-1, 2, shape).astype(np.float16)


@pytest.mark.parametrize("out", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(("block", "threads", "split"), [(64, 128, 2), (128, 256, 3)])
@pytest.mark.parametrize("target", TARGETS)
def test_parts_of_k_add_up(target, block, threads, split, out, require_tool):
    require_tool("host_compiler")
    a, b = _numbers(200, 320), _numbers(320, 136)
    (c,) = emulated(product, target, [a, b], RANDOM, block=block, threads=threads, split=split, out=out)
    assert c.dtype == (ml_dtypes.bfloat16 if out == "bfloat16" else np.dtype(out))
    assert np.array_equal(c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize(
    ("columns", "out", "by_tma"),
    [(136, "float16", True), (136, "bfloat16", True), (136, "float32", False), (132, "float16", False)],
)
def test_hopper_adds_tiles_of_16_bit_elements_by_tma(columns, out, by_tma, require_tool):
    """Whose rows the unit can describe; what it cannot add, threads do."""
    require_tool("host_compiler")
    a, b = _numbers(64, 128), _numbers(128, 136)[:, :columns].copy()
    files = generated(product, "sm_90a", [a, b], out=out)
    assert ("tma_reduce_add_2d(C" in kernel_text(files)) == by_tma
    assert ("reduce_add(" in kernel_text(files) or "reduce_add_v" in kernel_text(files)) != by_tma
    (c,) = emulated(product, "sm_90a", [a, b], RANDOM, out=out)
    assert np.array_equal(c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


def test_a_dropped_fence_before_the_addition_is_reported(require_tool):
    """TMA reads the staged tile through another proxy than the threads that wrote it."""
    from tilegen.emulate import run
    from tilegen.emulate.errors import EmulationError

    require_tool("host_compiler")
    a, b = _numbers(64, 128), _numbers(128, 64)
    files = generated(product, "sm_90a", [a, b])
    head, kernel = files.source.split("- kernel\n")
    assert kernel.count("fence_proxy_async();") == 1
    with pytest.raises(EmulationError):
        run(head + "- kernel\n" + kernel.replace("fence_proxy_async();", ""), files.manifest, [a, b])
