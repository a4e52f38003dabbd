"""Tiles whose rows are no whole 64s: wgmma multiplies exchanged operands, and stmatrix turns what it stores."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.target import load_target
from tilegen.toolchain.cuda import build_cuda


@tilegen.jit
def product(
    A,
    B,
    block_M=144,
    block_N=128,
    threads=128,
    transpose_A=False,
    transpose_B=False,
    num_stages=2,
    out_dtype="float16",
    policy=T.GemmWarpPolicy.Square,
    cluster=(1, 1),
    epilogue="none",
    dtype="float16",
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M) if transpose_A else (M, K), dtype)
    B: T.Tensor((N, K) if transpose_B else (K, N), dtype)
    C = T.empty((M, N), out_dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads, cluster_dims=cluster) as (
        bx,
        by,
    ):
        a = T.alloc_shared((64, block_M) if transpose_A else (block_M, 64), dtype)
        b = T.alloc_shared((block_N, 64) if transpose_B else (64, block_N), dtype)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=num_stages):
            if transpose_A:
                T.copy(A[k * 64, by * block_M], a)
            else:
                T.copy(A[by * block_M, k * 64], a)
            if transpose_B:
                T.copy(B[bx * block_N, k * 64], b)
            else:
                T.copy(B[k * 64, bx * block_N], b)
            T.gemm(a, b, c, transpose_A=transpose_A, transpose_B=transpose_B, policy=policy)
        if epilogue == "places":
            for i, j in T.Parallel(block_M, block_N):
                c[i, j] = T.max(c[i, j], 0) + i * 2 + j
        if epilogue == "rows":
            top = T.alloc_fragment((block_M,), T.float32)
            T.reduce_max(c, top, dim=1)
            for i, j in T.Parallel(block_M, block_N):
                c[i, j] = top[i] - c[i, j]
        if epilogue == "columns":
            total = T.alloc_fragment((block_N,), T.float32)
            T.reduce_sum(c, total, dim=0)
            for i, j in T.Parallel(block_M, block_N):
                c[i, j] = total[j] - c[i, j]
        T.copy(c, C[by * block_M, bx * block_N])
    return C


def operands(shape, seed, transpose_A=False, transpose_B=False):
    m, n, k = shape
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-2, 3, size).astype(np.float16) for size in ((m, k), (k, n)))
    stored = a.T.copy() if transpose_A else a, b.T.copy() if transpose_B else b
    return stored, a.astype(np.float64) @ b


def emitted(stored, **parameters):
    specs = [T.Tensor(array.shape, T.float16) for array in stored]
    return product.emit(*specs, target="sm_90a", **parameters)


TILES = [(72, 64, 128), (80, 128, 128), (144, 256, 256), (152, 128, 256), (208, 128, 256), (240, 192, 384)]


@pytest.mark.parametrize(("rows", "columns", "threads"), TILES)
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_every_tile_and_layout_is_right(rows, columns, threads, layout, require_tool):
    require_tool("host_compiler")
    transposes = {"transpose_A": layout[0] == "T", "transpose_B": layout[1] == "T"}
    stored, expected = operands((rows + 24, columns + 40, 136), rows + columns, **transposes)
    parameters = {"block_M": rows, "block_N": columns, "threads": threads, **transposes}
    if transposes["transpose_A"] and rows % 16:  # nor does mma.sync take such rows
        with pytest.raises(ProgramError, match=f"wgmma computes 64 rows at once, the tile has {rows}"):
            emitted(stored, **parameters)
        return
    emission = emitted(stored, **parameters)
    assert "of exchanged operands: C^T = B^T A^T" in emission.source
    result = emission.emulate(*stored, schedule="random", asynchronous="lazy", seed=rows)
    np.testing.assert_array_equal(result, expected.astype(np.float16))


@pytest.mark.parametrize("epilogue", ["places", "rows", "columns"])
@pytest.mark.parametrize("out_dtype", ["float16", "float32"])
def test_epilogues_see_rows_and_columns_as_they_are(epilogue, out_dtype, require_tool):
    require_tool("host_compiler")
    rows, columns = 80, 128
    stored, product_of = operands((rows, columns, 72), 5)
    emission = emitted(
        stored, block_M=rows, block_N=columns, threads=256, epilogue=epilogue, out_dtype=out_dtype
    )
    expected = {
        "places": np.maximum(product_of, 0) + 2 * np.arange(rows)[:, None] + np.arange(columns),
        "rows": product_of.max(axis=1, keepdims=True) - product_of,
        "columns": product_of.sum(axis=0) - product_of,
    }[epilogue]
    assert "exchanged operands" in emission.source
    result = emission.emulate(*stored, schedule="reverse", asynchronous="random", seed=6)
    np.testing.assert_array_equal(result, expected.astype(out_dtype))


@pytest.mark.parametrize("stages", [0, 1, 3])
@pytest.mark.parametrize(
    ("policy", "cluster"),
    [
        (T.GemmWarpPolicy.FullRow, (1, 2)),
        (T.GemmWarpPolicy.FullCol, (2, 1)),
        (T.GemmWarpPolicy.Square, (1, 4)),
    ],
)
def test_schedules_do_not_change_what_is_computed(stages, policy, cluster, require_tool):
    require_tool("host_compiler")
    stored, expected = operands((300, 264, 136), 7)
    emission = emitted(
        stored,
        block_M=112,
        threads=256,
        num_stages=stages,
        policy=policy,
        cluster=cluster if stages else (1, 1),
    )
    assert "exchanged operands" in emission.source
    result = emission.emulate(*stored, schedule="fifo", asynchronous="lazy")
    np.testing.assert_array_equal(result, expected.astype(np.float16))


def test_the_tile_leaves_through_stmatrix_turned(require_tool):
    require_tool("nvcc")
    stored, _ = operands((288, 512, 256), 8)
    emission = emitted(stored, block_M=144, block_N=256, threads=256)
    assert "stmatrix_x4_trans(" in emission.source and "tma_store_2d(C" in emission.source
    assert "its operands are exchanged: A is the gemm's B" in emission.report()
    assert build_cuda(emission.source, load_target("sm_90a")).spills == 0


def test_rows_that_stmatrix_cannot_turn_are_named():
    stored, _ = operands((304, 512, 256), 8)
    text = emitted(stored, block_M=152, block_N=256, threads=256).source
    assert "no TMA store, stmatrix turns 16 rows at once, the tile has 152" in text


def test_whole_64s_and_fewer_rows_are_not_exchanged():
    stored, _ = operands((256, 256, 128), 9)
    for rows in (16, 32, 64, 128, 192):
        assert (
            "exchanged operands"
            not in emitted(stored, block_M=rows, threads=128 if rows < 192 else 384).source
        )
