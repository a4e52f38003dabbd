"""Clusters that a target cannot run are errors at the line that asks for them, whatever the kernel's schedule."""

# mypy: ignore-errors

import pytest

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.target import load_target, target_names


@tilegen.jit
def twice(X, block: int = 256, cluster=(2,)):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=128, cluster_dims=cluster) as bx:
        for i in T.Parallel(block):
            Y[bx * block + i] = X[bx * block + i] * 2
    return Y


@tilegen.jit
def product(A, B, cluster=(2, 1)):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(N // 128, M // 128, threads=256, cluster_dims=cluster) as (bx, by):
        A_shared = T.alloc_shared((128, 32), T.float16)
        B_shared = T.alloc_shared((32, 128), T.float16)
        C_local = T.alloc_fragment((128, 128), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(K // 32):
            T.copy(A[by * 128, k * 32], A_shared)
            T.copy(B[k * 32, bx * 128], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * 128, bx * 128])
    return C


PROGRAMS = [(twice, [(1000,)], (2,)), (product, [(512, 256), (256, 512)], (2, 1))]


@pytest.mark.parametrize("target", [name for name in target_names() if not load_target(name).has("cluster")])
@pytest.mark.parametrize(("program", "shapes", "cluster"), PROGRAMS, ids=["simple", "pipelined"])
def test_a_target_without_clusters_says_so(program, shapes, cluster, target):
    dtype = T.float32 if program is twice else T.float16
    specs = [T.Tensor(shape, dtype) for shape in shapes]
    with pytest.raises(ProgramError) as refused:
        program.emit(*specs, target=target, cluster=cluster)
    assert refused.value.message == f"cluster_dims asks for 2 blocks a cluster, but {target} has no clusters"
    assert refused.value.location.text.startswith("with T.Kernel(")
    assert "sm_90a" in refused.value.remedy
    assert program.emit(*specs, target=target, cluster=(1,)).source


def test_too_large_a_cluster_says_what_fits():
    with pytest.raises(ProgramError, match="asks for 16 blocks a cluster, but sm_90a runs at most 8"):
        twice.emit(T.Tensor((1000,), T.float32), target="sm_90a", cluster=(16,))
