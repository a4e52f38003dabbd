"""Kernels with two pipelined loops, one behind the other."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import TARGETS, emulated, generated, relative_error

import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.emulate import EmulationError, run


def sum_of_products(A, B, C, D, block=64, first=2, second=2, dtype=T.float16):
    """A @ B + C @ D."""
    M, N, K, L = T.const("M, N, K, L")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C: T.Tensor((M, L), dtype)
    D: T.Tensor((L, N), dtype)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        A_shared = T.alloc_shared((block, block), T.float16)
        B_shared = T.alloc_shared((block, block), T.float16)
        C_shared = T.alloc_shared((block, block), T.float16)
        D_shared = T.alloc_shared((block, block), T.float16)
        total = T.alloc_fragment((block, block), T.float32)
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(K, block), num_stages=first):
            T.copy(A[by * block, k * block], A_shared)
            T.copy(B[k * block, bx * block], B_shared)
            T.gemm(A_shared, B_shared, total)
        for k in T.Pipelined(T.ceildiv(L, block), num_stages=second):
            T.copy(C[by * block, k * block], C_shared)
            T.copy(D[k * block, bx * block], D_shared)
            T.gemm(C_shared, D_shared, total)
        T.copy(total, Y[by * block, bx * block])
    return Y


@pytest.mark.parametrize("target", TARGETS)
def test_both_loops_add_up(target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(5)
    shapes = ((72, 200), (200, 136), (72, 136), (136, 136))
    a, b, c, d = arrays = [rng.standard_normal(shape).astype(np.float16) for shape in shapes]
    options = {"schedule": "random", "asynchronous": "lazy", "seed": 4}
    (found,) = emulated(sum_of_products, target, arrays, options)
    assert relative_error(found, a.astype(np.float64) @ b + c.astype(np.float64) @ d) < 1e-5


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "parameters",
    [{"first": 3, "second": 1}, {"first": 0, "second": 3}, {"first": 3, "second": 3, "dtype": T.float32}],
    ids=str,
)
def test_one_of_them_may_load_nothing_ahead(
    parameters: dict, target: str, require_tool: Callable[[str], None]
) -> None:
    """For want of stages, or because its tiles are converted on the way."""
    require_tool("host_compiler")
    rng = np.random.default_rng(5)
    shapes = ((72, 200), (200, 136), (72, 136), (136, 136))
    a, b, c, d = arrays = [rng.integers(-2, 3, shape).astype(np.float16) for shape in shapes]
    if "dtype" in parameters:
        arrays[2:] = (x.astype(np.float32) for x in (c, d))
    options = {"schedule": "random", "asynchronous": "lazy", "seed": 4}
    (found,) = emulated(sum_of_products, target, arrays, options, **parameters)
    np.testing.assert_array_equal(found, a.astype(np.float64) @ b + c.astype(np.float64) @ d)


def products_one_by_one(A, B, D, block=64, first=2, second=2, persistent=None):
    """A @ B, stored, and A @ D, each in tiles of its own."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    D: T.Tensor((K, N), T.float16)
    Y = T.empty((M, N), T.float32)
    Z = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128, persistent=persistent) as (bx, by):
        A_shared = T.alloc_shared((block, 32), T.float16)
        B_shared = T.alloc_shared((32, block), T.float16)
        A_again = T.alloc_shared((block, 32), T.float16)
        D_shared = T.alloc_shared((32, block), T.float16)
        product = T.alloc_fragment((block, block), T.float32)
        T.clear(product)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=first):
            T.copy(A[by * block, k * 32], A_shared)
            T.copy(B[k * 32, bx * block], B_shared)
            T.gemm(A_shared, B_shared, product)
        T.copy(product, Y[by * block, bx * block])
        T.clear(product)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=second):
            T.copy(A[by * block, k * 32], A_again)
            T.copy(D[k * 32, bx * block], D_shared)
            T.gemm(A_again, D_shared, product)
        T.copy(product, Z[by * block, bx * block])
    return Y, Z


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"first": 0}, {"second": 0}, {"first": 3, "second": None, "persistent": True}],
    ids=str,
)
def test_a_store_between_them_may_lie_over_their_tiles(
    parameters: dict, target: str, require_tool: Callable[[str], None]
) -> None:
    """Of either loop: those of the second are rings already, and are filled once the store has read its own."""
    require_tool("host_compiler")
    rng = np.random.default_rng(5)
    a, b, d = arrays = [
        rng.integers(-2, 3, shape).astype(np.float16) for shape in ((130, 100), (100, 72), (100, 72))
    ]
    for order in ("random", "reverse", "fifo"):
        options = {"schedule": order, "asynchronous": "lazy", "seed": 4, "multiprocessors": 2}
        first, second = emulated(products_one_by_one, target, arrays, options, **parameters)
        np.testing.assert_array_equal(first, a.astype(np.float64) @ b)
        np.testing.assert_array_equal(second, a.astype(np.float64) @ d)


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("stages", [(2, 20), (20, 2)])
def test_the_loop_that_asks_for_too_much_is_named(target: str, stages: tuple[int, int]) -> None:
    arrays = [np.zeros((64, 64), np.float16)] * 4
    with pytest.raises(ProgramError, match=r"num_stages=\d+ fits") as caught:
        generated(sum_of_products, target, arrays, first=stages[0], second=stages[1])
    wanted = "num_stages=first" if stages[0] > stages[1] else "num_stages=second"
    assert wanted in str(caught.value)


def test_accumulators_that_were_read_want_a_fence_before_the_next_gemm(
    require_tool: Callable[[str], None],
) -> None:
    """The second loop's warpgroup_arrive stands behind a store, which only reads them (PTX ISA, wgmma.fence)."""
    require_tool("host_compiler")
    arrays = [np.ones(shape, np.float16) for shape in ((64, 64), (64, 64), (64, 64))]
    files = generated(products_one_by_one, "sm_90a", arrays)
    before, _, behind = files.source.rpartition("warpgroup_arrive();")
    run(files.source, files.manifest, arrays)
    with pytest.raises(EmulationError) as caught:
        run(before + behind, files.manifest, arrays)
    assert caught.value.kind == "missing-fence"
