"""Loops that load by cp.async into a ring of stages: what they compute, how often threads meet, what compilers make of
them."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import emulated, generated, kernel_text, relative_error

import tilegen.language as T
from tilegen.runtime.compilation import for_capability
from tilegen.target import load_target
from tilegen.toolchain import compile_cuda


def product(
    A, B, transpose_A=False, transpose_B=False, block_M=128, block_N=128, block_K=64, stages=3, threads=128
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M) if transpose_A else (M, K), T.float16)
    B: T.Tensor((N, K) if transpose_B else (K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((block_K, block_M) if transpose_A else (block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_N, block_K) if transpose_B else (block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            if transpose_A:
                T.copy(A[k * block_K, by * block_M], A_shared)
            else:
                T.copy(A[by * block_M, k * block_K], A_shared)
            if transpose_B:
                T.copy(B[bx * block_N, k * block_K], B_shared)
            else:
                T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_A=transpose_A, transpose_B=transpose_B)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


def two_loops(A, B, D, E, stages=3):
    """A B + D E, one pipelined loop behind the other."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    D: T.Tensor((M, K), T.float16)
    E: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 32), T.float16)
        B_shared = T.alloc_shared((32, 64), T.float16)
        D_shared = T.alloc_shared((64, 32), T.float16)
        E_shared = T.alloc_shared((32, 64), T.float16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=stages):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[k * 32, bx * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=stages):
            T.copy(D[by * 64, k * 32], D_shared)
            T.copy(E[k * 32, bx * 64], E_shared)
            T.gemm(D_shared, E_shared, C_local)
        T.copy(C_local, C[by * 64, bx * 64])
    return C


def doubled(A, B, skip=False):
    """2 A B, the doubled tile written to shared memory by threads; with `skip`, of every second tile alone."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 64), T.float16)
        B_shared = T.alloc_shared((64, 64), T.float16)
        A_local = T.alloc_fragment((64, 64), T.float16)
        twice = T.alloc_shared((64, 64), T.float16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
            T.copy(A[by * 64, k * 64], A_shared)
            T.copy(B[k * 64, bx * 64], B_shared)
            T.copy(A_shared, A_local)
            for i, j in T.Parallel(64, 64):
                A_local[i, j] = A_local[i, j] * 2.0
            T.copy(A_local, twice)
            if skip:
                if k % 2 == 0:
                    T.gemm(twice, B_shared, C_local)
            else:
                T.gemm(twice, B_shared, C_local)
        T.copy(C_local, C[by * 64, bx * 64])
    return C


def matrix(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def exact(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


@pytest.mark.parametrize("stages", [2, 3])
def test_two_loops_in_one_kernel(stages: int, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    a, b, d, e = matrix(1, 72, 104), matrix(2, 104, 136), matrix(3, 72, 104), matrix(4, 104, 136)
    options = {"schedule": "random", "asynchronous": "lazy", "seed": stages}
    (found,) = emulated(two_loops, "sm_80", [a, b, d, e], options, stages=stages)
    assert relative_error(found, exact(a) @ exact(b) + exact(d) @ exact(e)) < 1e-3


# One tile of K, fewer tiles than stages, and many; warps of 32, 48 and 64 columns; columns in 1, 2 and 4 groups.
TILES = [
    {"block_M": 64, "block_N": 64, "block_K": 32, "stages": 4},
    {"block_M": 128, "block_N": 64, "block_K": 128, "stages": 2},
    {"block_M": 64, "block_N": 96, "block_K": 64, "stages": 3},
    {"block_M": 128, "block_N": 256, "block_K": 32, "stages": 3, "threads": 256},
]


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: "x".join(map(str, tile.values())))
@pytest.mark.parametrize("transposes", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("k", [24, 328])
def test_products(tile: dict[str, int], transposes: str, k: int, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    a, b = matrix(5, 136, k), matrix(6, k, 264)
    turned = {"transpose_A": transposes[0] == "T", "transpose_B": transposes[1] == "T"}
    arrays = [a.T.copy() if turned["transpose_A"] else a, b.T.copy() if turned["transpose_B"] else b]
    options = {"schedule": "random", "asynchronous": "random", "seed": k}
    (found,) = emulated(product, "sm_80", arrays, options, **tile, **turned)
    assert relative_error(found, exact(a) @ exact(b)) < 1e-3


@pytest.mark.parametrize(("stages", "steps"), [(2, [0, 1]), (3, [1, 2])])
def test_loads_start_in_steps_of_their_own(stages: int, steps: list[int]) -> None:
    arrays = [np.zeros((128, 256), np.float16), np.zeros((256, 128), np.float16)]
    text = kernel_text(generated(product, "sm_80", arrays, stages=stages))
    heads = [f"if (kk == {steps[0]} && k_ahead < kTilesK) ", f"if (kk == {steps[1]}) {{"]  # one with a commit
    places = [text.index(head) for head in heads]
    assert text.count("if (kk == ") == 2
    assert places[0] < text.index("load_A_shared(freed") < places[1] < text.index("load_B_shared(freed")
    # All of them are under way when the last step waits for the next tile.
    assert text.index("load_B_shared(freed") < text.rindex("cp_async_commit()")


def test_the_barrier_of_an_iteration_serves_what_threads_write_in_it() -> None:
    arrays = [np.zeros((128, 256), np.float16), np.zeros((256, 128), np.float16)]
    text = kernel_text(generated(doubled, "sm_80", arrays))
    # One behind which the tiles have landed and `twice` has been left, one behind which `twice` is complete.
    assert text[text.index("// Main loop") : text.index("// Epilogue")].count("__syncthreads") == 2


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_products_of_every_second_tile(target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    # Rows of B that no TMA unit loads: Hopper's tensor cores read what cp.async brings, behind a proxy fence.
    a, b = matrix(7, 72, 256), matrix(8, 256, 68)
    (found,) = emulated(doubled, target, [a, b], {"schedule": "random", "asynchronous": "lazy"}, skip=True)
    chosen = exact(a).reshape(72, 4, 64)[:, ::2].reshape(72, 128)
    assert relative_error(found, 2 * chosen @ exact(b).reshape(4, 64, 68)[::2].reshape(128, 68)) < 1e-3


@pytest.mark.parametrize("transposes", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("shape", [(512, 512, 4096), (1024, 768, 512), (200, 264, 136)], ids=str)
def test_nothing_is_spilled(
    transposes: str, shape: tuple[int, int, int], require_tool: Callable[[str], None]
) -> None:
    require_tool("nvcc")
    m, n, k = shape
    turned = {"transpose_A": transposes[0] == "T", "transpose_B": transposes[1] == "T"}
    arrays = [
        np.zeros((k, m) if turned["transpose_A"] else (m, k), np.float16),
        np.zeros((n, k) if turned["transpose_B"] else (k, n), np.float16),
    ]
    target = load_target("sm_80")
    files = generated(product, "sm_80", arrays, **turned)
    for device in (target, for_capability(target, (9, 0))):
        assert compile_cuda(files.source, device).spills == 0
