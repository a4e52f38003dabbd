"""Gemms whose operands threads compute in registers, on every family of matrix instructions."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import generated, kernel_text, relative_error

import tilegen.language as T
from tilegen.emulate import run


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")


def product(
    A,
    B,
    registers: str,
    turned: str = "",
    bm: int = 64,
    bn: int = 64,
    bk: int = 32,
    stages: int = 2,
    threads: int = 128,
    policy=0,
):
    """(2 A) @ (B + 1), each factor changed where its operand is in registers; else it is plain. Those in registers that
    are `turned` hold their tile transposed."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=threads) as (bx, by):
        A_shared = T.alloc_shared((bm, bk), T.float16)
        B_shared = T.alloc_shared((bk, bn), T.float16)
        A_local = T.alloc_fragment((bk, bm) if "A" in turned else (bm, bk), T.float16)
        B_local = T.alloc_fragment((bn, bk) if "B" in turned else (bk, bn), T.float16)
        c = T.alloc_fragment((bm, bn), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
            T.copy(A[by * bm, k * bk], A_shared)
            T.copy(B[k * bk, bx * bn], B_shared)
            if "A" in turned:
                for i, j in T.Parallel(bk, bm):
                    A_local[i, j] = A_shared[j, i] * 2.0
            elif "A" in registers:
                for i, j in T.Parallel(bm, bk):
                    A_local[i, j] = A_shared[i, j] * 2.0
            if "B" in turned:
                for i, j in T.Parallel(bn, bk):
                    B_local[i, j] = B_shared[j, i] + 1.0
            elif "B" in registers:
                for i, j in T.Parallel(bk, bn):
                    B_local[i, j] = B_shared[i, j] + 1.0
            T.gemm(
                A_local if "A" in registers else A_shared,
                B_local if "B" in registers else B_shared,
                c,
                transpose_A="A" in turned,
                transpose_B="B" in turned,
                policy=T.GemmWarpPolicy.FullCol if policy else T.GemmWarpPolicy.Square,
            )
        T.copy(c, C[by * bm, bx * bn])
    return C


def expected(a, b, registers: str):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * 2 if "A" in registers else a) @ (b + 1 if "B" in registers else b)


@pytest.mark.parametrize(
    ("target", "registers", "parameters"),
    [
        ("sm_80", "B", {}),
        ("sm_80", "B", {"policy": 1, "bn": 128}),
        ("sm_80", "AB", {"bk": 64}),
        ("sm_80", "A", {"stages": 3}),
        ("sm_90a", "A", {}),
        ("sm_90a", "B", {}),
        ("sm_90a", "AB", {"bm": 32}),
        ("gfx942", "A", {}),
        ("gfx90a", "A", {"threads": 256, "bk": 64}),
        ("gfx950", "A", {"bk": 64}),
        ("gfx942", "B", {}),
        ("gfx90a", "AB", {"bk": 64}),
        ("gfx950", "AB", {"threads": 64}),
        *((target, "A", {"turned": "A"}) for target in ("sm_80", "sm_90a", "gfx942")),
        *((target, "B", {"turned": "B"}) for target in ("sm_80", "sm_90a", "gfx950")),
        *((target, "AB", {"turned": "AB", "bk": 64}) for target in ("sm_80", "sm_90a", "gfx90a")),
        ("sm_90a", "A", {"turned": "A", "threads": 256, "bm": 128}),
        ("sm_80", "B", {"bn": 8}),
        ("sm_90a", "AB", {"bn": 24, "bm": 16, "bk": 128, "turned": "B"}),
    ],
    ids=str,
)
def test_operands_from_registers(target, registers, parameters) -> None:
    random = np.random.default_rng(0)
    a, b = (
        random.standard_normal((100, 96)).astype(np.float16),
        random.standard_normal((96, 136)).astype(np.float16),
    )
    files = generated(product, target, [a, b], registers=registers, **parameters)
    found = run(files.source, files.manifest, [a, b], schedule="random", asynchronous="lazy", seed=3)
    assert relative_error(found, expected(a, b, registers)) < 1e-3
    text = kernel_text(files)
    assert ("A_local[" in text) == ("A" in registers) and ("B_local[" in text) == ("B" in registers)


@pytest.mark.parametrize("columns", [8, 24])
def test_rows_of_b_that_wgmma_cannot_read(columns) -> None:
    a, b = np.zeros((64, 64), np.float16), np.zeros((64, 48), np.float16)
    source = generated(product, "sm_90a", [a, b], registers="", bn=columns).source
    assert "not by wgmma: wgmma reads rows of B of whole 16 elements" in source
    assert "SM80_16x8x16" in source
