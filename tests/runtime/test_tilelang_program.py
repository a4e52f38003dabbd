"""A GEMM as its authors' documentation of TileLang has it, with only the import changed."""

import numpy as np
import pytest

import tilegen as tilelang
import tilegen.language as T


@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M, block_N, block_K, dtype="float16", accum_dtype="float"):
    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_it_runs(target, require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(0)
    a, b = (
        rng.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in ((192, 96), (96, 160))
    )
    kernel = matmul.for_target(target)(192, 160, 96, 128, 128, 32)
    c = kernel(a, b)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    assert c.dtype == np.float16 and np.linalg.norm(c - expected) <= 1e-3 * np.linalg.norm(expected)
    source = kernel.get_kernel_source()
    assert "T.gemm(A_shared, B_shared, C_local)" in source and f"{target}" in source.splitlines()[0]


def test_compile_takes_the_function_that_the_factory_returns(require_tool):
    require_tool("nvrtc")
    function = matmul.__wrapped__(1024, 1024, 1024, 128, 128, 32)
    kernel = tilelang.compile(function, out_idx=-1, target="sm_90a")
    assert kernel.compiled.registers <= 255 and kernel.compiled.spills == 0
    assert kernel.emission.manifest.outputs == ("C",)
