"""T.sum_blocks over few blocks: the parts of so many sums are loaded at once as registers have room for."""

# mypy: ignore-errors

from __future__ import annotations

import re

import numpy as np
import pytest
from emulation import emulated, generated, relative_error

import tilegen.language as T
from tilegen.target import load_target
from tilegen.toolchain.cuda import compile_cuda


def product(A, B, block=(128, 128), splits=3, threads=128, persistent=None, two=False):
    """A maximum with 0 behind the sums of A @ B, and maybe of A @ (2 B)."""
    M, K, N = T.const("M, K, N")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    rows, columns = block
    with T.Kernel(
        T.ceildiv(N, columns), T.ceildiv(M, rows), splits, threads=threads, persistent=persistent
    ) as (bx, by, bz):
        a = T.alloc_shared((rows, 64), T.float16)
        b = T.alloc_shared((64, columns), T.float16)
        c = T.alloc_fragment((rows, columns), T.float32)
        d = T.alloc_fragment((rows, columns), T.float32)
        T.clear(c)
        if two:
            T.clear(d)
        for k in T.Pipelined(T.ceildiv(K, 64 * splits), num_stages=2):
            T.copy(A[by * rows, (k * splits + bz) * 64], a)
            T.copy(B[(k * splits + bz) * 64, bx * columns], b)
            T.gemm(a, b, c)
            if two:
                T.gemm(a, b, d)
        if two:
            T.sum_blocks([c, d], bz)
        else:
            T.sum_blocks(c, bz)
        for i, j in T.Parallel(rows, columns):
            c[i, j] = T.max(c[i, j] + d[i, j] if two else c[i, j], 0)
        T.copy(c, C[by * rows, bx * columns])
    return C


def operands(m=136, k=328, n=264):
    rng = np.random.default_rng(2)
    return [rng.integers(-2, 3, shape).astype(np.float16) for shape in ((m, k), (k, n))]


def expected(a, b, two=False):
    return np.maximum(a.astype(np.float64) @ b.astype(np.float64) * (2 if two else 1), 0)


GROUPED = [  # how many sums a group has
    ({"splits": 2}, 32),
    ({"splits": 4, "persistent": False}, 32),
    ({"splits": 5, "block": (64, 160)}, 80),
    ({"splits": 3, "block": (128, 160)}, 16),
    ({"splits": 3, "block": (128, 256), "threads": 256, "persistent": True}, 64),
    ({"splits": 5, "block": (128, 80), "two": True}, 80),
]


@pytest.mark.parametrize(("parameters", "count"), GROUPED, ids=str)
def test_groups_sum_right_and_nothing_spills(parameters, count, require_tool):
    require_tool("host_compiler")
    arrays = operands()
    source = generated(product, "sm_90a", arrays, **parameters).source
    assert int(re.search(r"loads of (\d+) sums run at once", source)[1]) == count
    (found,) = emulated(product, "sm_90a", arrays, {"schedule": "random", "seed": 4}, **parameters)
    assert relative_error(found, expected(*arrays, parameters.get("two"))) < 1e-3
    require_tool("nvcc")
    assert compile_cuda(source, load_target("sm_90a")).spills == 0


@pytest.mark.parametrize(
    ("target", "parameters"),
    [
        ("sm_90a", {"splits": 2, "block": (64, 128)}),  # all parts fit
        ("sm_90a", {"splits": 8}),  # a loop that stays one
        ("sm_80", {"splits": 3}),
        ("gfx942", {"splits": 3}),
    ],
)
def test_elsewhere_a_vector_after_the_other_takes_its_parts(target, parameters):
    source = generated(product, target, operands(), **parameters).source
    said = re.search(
        r"#pragma unroll(.*)\n *for \(int part = 1; .*  // loads of (\w+) parts run at once\n", source
    )
    assert said.groups() == ((" 4", "4") if parameters["splits"] == 8 else ("", "all"))
    assert "sums run at once" not in source
