"""Accumulators of mma.sync to tensors: 16 bytes a lane after an exchange among 4 lanes, where rows allow that."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from emulation import emulated, generated, kernel_text, relative_error

import tilegen.language as T

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def product(A, B, dtype="float16", out_dtype="float16", block_N=64, halves=False, turned=False, threads=128):
    """A @ B; with `halves` through a fragment of the output's type, with `turned` transposed."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((K, N), dtype)
    C = T.empty((N, M) if turned else (M, N), out_dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, 64), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((64, 32), dtype)
        B_shared = T.alloc_shared((32, block_N), dtype)
        c = T.alloc_fragment((64, block_N), T.float32)
        rounded = T.alloc_fragment((64, block_N), out_dtype)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 64, k * 32], A_shared)
            T.copy(B[k * 32, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, c)
        if turned:
            for i, j in T.Parallel(64, block_N):
                C[bx * block_N + j, by * 64 + i] = c[i, j]
        elif halves:
            T.copy(c, rounded)
            T.copy(rounded, C[by * 64, bx * block_N])
        else:
            T.copy(c, C[by * 64, bx * block_N])
    return C


def operands(n: int, dtype: str = "float16") -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [rng.standard_normal(shape).astype(NUMPY[dtype]) for shape in ((72, 40), (40, n))]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("n", [128, 136, 40])
@pytest.mark.parametrize("halves", [False, True])
def test_what_is_stored(dtype: str, n: int, halves: bool, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    a, b = operands(n, dtype)
    options = {"schedule": "random", "seed": n}
    (found,) = emulated(product, "sm_80", [a, b], options, dtype=dtype, out_dtype=dtype, halves=halves)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert relative_error(found, expected) < (1e-3 if dtype == "float16" else 1e-2)
    text = kernel_text(generated(product, "sm_80", [a, b], dtype=dtype, out_dtype=dtype, halves=halves))
    assert "transpose_quad(reinterpret_cast<u32(&)[4]>(words));" in text


OTHERS = [
    (132, {}),  # rows of C that are no multiples of 16 bytes
    (136, {"out_dtype": "float32"}),
    (136, {"turned": True}),
    (48, {"block_N": 48, "threads": 32}),  # 6 atoms side by side
]


@pytest.mark.parametrize(("n", "parameters"), OTHERS, ids=str)
def test_other_stores_are_left_alone(
    n: int, parameters: dict[str, object], require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    a, b = operands(n)
    assert "transpose_quad" not in generated(product, "sm_80", [a, b], **parameters).source
    (found,) = emulated(product, "sm_80", [a, b], {"schedule": "reverse"}, **parameters)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert relative_error(found, expected.T if parameters.get("turned") else expected) < 1e-3
