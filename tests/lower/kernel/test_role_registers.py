"""The registers of the roles: a producer keeps its few, and what consumers lack is said with a remedy that helps."""

# mypy: ignore-errors

import pytest

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.target import load_target
from tilegen.toolchain.cuda import build_cuda


@tilegen.jit
def product(A, B, rows=64, columns=176, depth=64, threads=128, cluster=None, transpose_A=False):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M) if transpose_A else (M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=threads, cluster_dims=cluster) as (
        bx,
        by,
    ):
        a = T.alloc_shared((depth, rows) if transpose_A else (rows, depth), T.float16)
        b = T.alloc_shared((depth, columns), T.float16)
        c = T.alloc_fragment((rows, columns), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, depth)):
            if transpose_A:
                T.copy(A[k * depth, by * rows], a)
            else:
                T.copy(A[by * rows, k * depth], a)
            T.copy(B[k * depth, bx * columns], b)
            T.gemm(a, b, c, transpose_A=transpose_A)
        T.copy(c, C[by * rows, bx * columns])
    return C


# Tiles of many column groups, whose loads a compiler starts from as many registers if it unrolls them.
MANY_BOXES = [
    {"columns": 176, "cluster": (3, 1)},
    {"columns": 176},
    {"columns": 240},
    {"rows": 192, "columns": 160, "depth": 32, "threads": 384, "transpose_A": True, "cluster": (1, 4)},
]


@pytest.mark.parametrize("parameters", MANY_BOXES)
@pytest.mark.parametrize("open_", [True, False], ids=["open", "known"])
def test_a_producer_s_loads_spill_nothing(parameters, open_, require_tool):
    require_tool("nvcc")
    a = ("K", "M") if parameters.get("transpose_A") else ("M", "K")
    shapes = (a, ("K", "N")) if open_ else ((1536, 1536), (1536, 720 * 2))
    emission = product.emit(*(T.Tensor(shape, T.float16) for shape in shapes), target="sm_90a", **parameters)
    assert build_cuda(emission.source, load_target("sm_90a")).spills == 0


# Rows and columns of a tile and threads; what the fragments take, what a consumer gets, and whether more threads help.
TOO_LARGE = [
    (128, 240, 128, 240, 240, True),
    (64, 448, 128, 224, 240, True),  # only the addresses lack room
    (256, 240, 256, 240, 240, False),  # as many registers for twice the threads are smaller shares
    (192, 304, 384, 152, 160, False),
]


@pytest.mark.parametrize(("rows", "columns", "threads", "taken", "given", "helps"), TOO_LARGE)
def test_more_threads_are_the_remedy_only_where_they_help(rows, columns, threads, taken, given, helps):
    shapes = (1024, 1024), (1024, columns * 2)
    specs = [T.Tensor(shape, T.float16) for shape in shapes]
    with pytest.raises(ProgramError) as refused:
        product.emit(*specs, target="sm_90a", rows=rows, columns=columns, depth=32, threads=threads)
    assert (
        f"the fragments take {taken} registers a thread, addresses and descriptors at least 20"
        in refused.value.message
    )
    assert f"get {given} each" in refused.value.message
    more = f"use more threads (threads={2 * threads}) or a smaller tile"
    assert refused.value.remedy == (more if helps else "use a smaller tile")
