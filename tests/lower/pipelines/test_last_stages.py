"""The stages of a loop's last iteration are let go where the producer fills them again, and nowhere else."""

# mypy: ignore-errors

from __future__ import annotations

import re

import numpy as np
import pytest
from emulation import kernel_text, relative_error

import tilegen
import tilegen.language as T
from tilegen.toolchain import compile_cuda

ORDERS = [("reverse", "lazy"), ("random", "random")]


@tilegen.jit
def product(A, B, block: int = 64, block_K: int = 32, persistent=False, cluster: int = 1):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(
        T.ceildiv(N, block),
        T.ceildiv(M, block),
        threads=128,
        persistent=persistent,
        cluster_dims=(cluster, 1),
    ) as (bx, by):
        A_shared = T.alloc_shared((block, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block), T.float16)
        C_local = T.alloc_fragment((block, block), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block, bx * block])
    return C


CASES = [  # parameters, and whether the loop runs again in a block
    ({}, False),
    ({"cluster": 2}, False),
    ({"persistent": True}, True),
]


@pytest.mark.parametrize(("parameters", "again"), CASES, ids=str)
def test_who_lets_the_last_stage_go(parameters, again, require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((128, 256), (256, 256)))
    specs = [T.Tensor(x.shape, T.float16) for x in (a, b)]
    emission = product.emit(*specs, target="sm_90a", **parameters)
    consumers = kernel_text(emission).split(" consumers\n")[1]
    releases = re.findall(r"mbarrier_arrive(?:_cluster)?\(shared\.\w*empty\[", consumers)
    assert len(releases) == (2 if again else 1)
    for seed, (schedule, asynchronous) in enumerate(ORDERS):
        found = emission.emulate(
            a, b, schedule=schedule, asynchronous=asynchronous, seed=seed, multiprocessors=2
        )
        assert relative_error(found, a.astype(np.float64) @ b.astype(np.float64)) < 1e-3


@pytest.mark.parametrize(("columns", "depth", "out"), [(64, 64, T.float16), (96, 16, T.float32)], ids=str)
@pytest.mark.parametrize("rows", [128, 192])
def test_wgmma_of_loops_that_may_not_run_is_not_serialised(rows, columns, depth, out, require_tool):
    """ptxas tells the accumulators' zeros from the wgmma that is under way (C7515)."""
    require_tool("nvcc")

    @tilegen.jit
    def wide(A, B):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), T.float16)
        B: T.Tensor((K, N), T.float16)
        C = T.empty((M, N), out)
        with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=2 * rows, persistent=False) as (
            bx,
            by,
        ):
            A_shared = T.alloc_shared((rows, depth), T.float16)
            B_shared = T.alloc_shared((depth, columns), T.float16)
            C_local = T.alloc_fragment((rows, columns), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
                T.copy(A[by * rows, k * depth], A_shared)
                T.copy(B[k * depth, bx * columns], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * rows, bx * columns])
        return C

    emission = wide.emit(target="sm_90a")
    assert "wgmma.mma_async" in emission.source
    built = compile_cuda(emission.source, emission.target, "nvcc")
    assert "serialized" not in built.log and built.spills == 0
