"""Accumulators to shared memory by stmatrix, as they lie and transposed, against other ways to say the same."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from emulation import kernel_text, relative_error

import tilegen.language as T
from tilegen.driver import generate
from tilegen.emulate import run
from tilegen.frontend import parse

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def product(A, B, way: str, dtype, bm: int = 64, bn: int = 32, bk: int = 32, threads: int = 128):
    """A @ B transposed by way of shared memory; the transposed ways turn the result too."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((N, K), dtype)
    turned = way.startswith("transposed")
    C = T.empty((N, M) if turned else (M, N), dtype)
    with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((bm, bk), dtype)
        B_shared = T.alloc_shared((bn, bk), dtype)
        c = T.alloc_fragment((bm, bn), T.float32)
        half = T.alloc_fragment((bm, bn), dtype)
        C_shared = T.alloc_shared((bn, bm) if turned else (bm, bn), dtype)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, bk), num_stages=2):
            T.copy(A[by * bm, k * bk], A_shared)
            T.copy(B[bx * bn, k * bk], B_shared)
            T.gemm(A_shared, B_shared, c, transpose_B=True)
        if way == "copy":
            T.copy(c, C_shared)
        elif way == "loop":
            for i, j in T.Parallel(bm, bn):
                C_shared[i, j] = c[i, j]
        elif way == "transposed":
            for i, j in T.Parallel(bm, bn):
                C_shared[j, i] = c[i, j]
        elif way == "transposed halves":
            T.copy(c, half)
            for i, j in T.Parallel(bm, bn):
                C_shared[j, i] = half[i, j]
        elif way == "doubled":
            for i, j in T.Parallel(bm, bn):
                C_shared[i, j] = c[i, j] * 2.0
        if turned:
            T.copy(C_shared, C[bx * bn, by * bm])
        else:
            T.copy(C_shared, C[by * bm, bx * bn])
    return C


def check(target, way, dtype, m, n, k, **parameters):
    random = np.random.default_rng(0)
    operands = [random.standard_normal(shape).astype(NUMPY[dtype]) for shape in ((m, k), (n, k))]
    specs = {name: T.Tensor(x.shape, dtype) for name, x in zip("AB", operands, strict=True)}
    files = generate(parse(product, specs, {"way": way, "dtype": dtype, **parameters}), target)
    found = run(files.source, files.manifest, operands, schedule="random", asynchronous="lazy", seed=1)
    wanted = operands[0].astype(np.float64) @ operands[1].astype(np.float64).T
    wanted = wanted.T if way.startswith("transposed") else wanted * (2 if way == "doubled" else 1)
    assert relative_error(found, wanted) < (1e-3 if dtype == "float16" else 8e-3)
    return kernel_text(files)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"bn": 8, "bm": 128},
        {"bn": 24},
        {"bm": 256, "bn": 64, "threads": 256},
        {"bm": 128, "bn": 128, "threads": 256},
    ],
    ids=str,
)
@pytest.mark.parametrize("way", ["copy", "loop", "transposed", "transposed halves"])
def test_ways_to_shared_memory(way, parameters) -> None:
    dtype = "bfloat16" if parameters.get("bn") == 64 else "float16"
    text = check("sm_90a", way, dtype, 300, 72, 64, **parameters)
    count = 2 if parameters.get("bn", 32) % 16 else 4
    suffix = "_trans" if way.startswith("transposed") else ""
    assert f"stmatrix_x{count}{suffix}(" in text


@pytest.mark.parametrize(
    ("target", "way"), [("sm_80", "transposed"), ("sm_90a", "doubled"), ("gfx942", "transposed")]
)
def test_other_stores_go_element_by_element(target, way) -> None:
    assert "stmatrix" not in check(target, way, "float16", 100, 72, 64)


def stored_and_used(A, B, then="add", bm: int = 64, bn: int = 64, bk: int = 64):
    """The tile that stmatrix writes is touched by the threads that hold its elements, before or behind it."""
    A: T.Tensor((bm, bk), T.float16)
    B: T.Tensor((bk, bn), T.float16)
    C = T.empty((bm, bn), T.float16)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((bm, bk), T.float16)
        b = T.alloc_shared((bk, bn), T.float16)
        p = T.alloc_shared((bm, bn), T.float16)
        c = T.alloc_fragment((bm, bn), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c, clear_accum=True)
        if then == "overwritten":
            for i, j in T.Parallel(bm, bn):
                p[i, j] = c[i, j] + 5
            for i, j in T.Parallel(bm, bn):
                c[i, j] = c[i, j] + p[i, j]
        T.copy(c, p)
        if then == "add":
            for i, j in T.Parallel(bm, bn):
                p[i, j] = p[i, j] + T.cast(c[i, j], T.float16)
        if then == "read":
            for i, j in T.Parallel(bm, bn):
                c[i, j] = c[i, j] + p[i, j]
            T.copy(c, C)
        else:
            T.copy(p, C)
    return C


@pytest.mark.parametrize("schedule", ["fifo", "reverse", "random"])
@pytest.mark.parametrize("then", ["add", "read", "overwritten"])
def test_its_lanes_write_other_elements_than_they_hold(then, schedule) -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(-2, 3, (64, 64)).astype(np.float16) for _ in range(2))
    specs = {name: T.Tensor((64, 64), "float16") for name in "AB"}
    files = generate(parse(stored_and_used, specs, {"then": then}), "sm_90a")
    assert "stmatrix" in kernel_text(files)
    found = run(files.source, files.manifest, [a, b], schedule=schedule, asynchronous="lazy", seed=1)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(found, 2 * exact + (5 if then == "overwritten" else 0))
