"""Blocks of as many threads as there can be: a producer needs room, and an instruction registers."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.target import load_target, target_names
from tilegen.toolchain.cuda import build_cuda


@tilegen.jit
def sums(X, threads=1024):
    """Running sums of rows, which come through a ring."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 1024), threads=threads) as bx:
        x = T.alloc_shared((4, 1024), T.float16)
        y = T.alloc_fragment((1024,), T.float32)
        T.clear(y)
        for m in T.Pipelined(T.ceildiv(M, 4), num_stages=3):
            T.copy(X[m * 4, bx * 1024], x)
            for i in T.serial(4):
                for j in T.Parallel(1024):
                    y[j] += x[i, j]
        T.copy(y, Y[bx * 1024])
    return Y


@tilegen.jit
def product(A, B, block_M=128, block_N=256, threads=256, registers=False):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        a = T.alloc_shared((block_M, 32), T.float16)
        b = T.alloc_shared((block_N, 32), T.float16)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        left = T.alloc_fragment((block_M, 32), T.float16) if registers else a
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * block_M, k * 32], a)
            T.copy(B[bx * block_N, k * 32], b)
            if registers:
                T.copy(a, left)
            T.gemm(left, b, c, transpose_B=True)
        T.copy(c, C[by * block_M, bx * block_N])
    return C


@tilegen.jit
def two_products(A, B, D, block: int = 128, threads: int = 128, stages: int = 2):
    """A gated layer's: both sums are alive to the end."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    D: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=threads) as (bx, by):
        a = T.alloc_shared((block, 32), T.float16)
        b = T.alloc_shared((32, block), T.float16)
        d = T.alloc_shared((32, block), T.float16)
        gate = T.alloc_fragment((block, block), T.float32)
        up = T.alloc_fragment((block, block), T.float32)
        T.clear(gate)
        T.clear(up)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=stages):
            T.copy(A[by * block, k * 32], a)
            T.copy(B[k * 32, bx * block], b)
            T.copy(D[k * 32, bx * block], d)
            T.gemm(a, b, gate)
            T.gemm(a, d, up)
        for i, j in T.Parallel(block, block):
            up[i, j] *= gate[i, j]
        T.copy(up, C[by * block, bx * block])
    return C


@pytest.mark.parametrize("target", target_names())
@pytest.mark.parametrize("stages", [0, 2], ids=["nothing ahead", "a ring"])
def test_sums_beyond_a_threads_registers_are_refused(target, stages):
    """256 registers of sums and their addresses: CUDA's 255 would spill in every iteration, CDNA has 512."""
    if load_target(target).language == "hip":
        two_products.emit(target=target, stages=stages)
        return
    with pytest.raises(ProgramError, match="256 registers a thread") as caught:
        two_products.emit(target=target, stages=stages)
    assert caught.value.remedy == "use more threads (threads=256) or a smaller tile"
    two_products.emit(target=target, stages=stages, threads=256)


@pytest.mark.parametrize("target", target_names())
@pytest.mark.parametrize("threads", [512, 896, 1024])
def test_no_block_has_more_threads_than_its_target_runs(target, threads, require_tool):
    require_tool("host_compiler")
    x = np.random.default_rng(1).integers(-2, 3, (19, 1500)).astype(np.float16)
    emission = sums.emit(T.Tensor(x.shape, T.float16), target=target, threads=threads)
    assert emission.manifest.block[0] <= load_target(target).limits.threads_per_block
    result = emission.emulate(x, schedule="random", asynchronous="lazy", seed=2)
    np.testing.assert_array_equal(result, x.astype(np.float32).sum(axis=0))


def test_the_text_says_that_the_block_is_full():
    x = T.Tensor((64, 2048), T.float16)
    said = "1024 threads leave no room for a producer among 1024"
    assert said in sums.emit(x, target="sm_90a").source
    assert "1 producer warpgroup" in sums.emit(x, target="sm_90a", threads=896).source


# Rows and columns of a tile, threads, whether A lies in registers, and the columns of wgmma, if it computes them.
TILES = [
    (64, 200, 128, False, 200),  # 168 registers at launch or, of two blocks a multiprocessor, 128
    (64, 200, 128, True, 200),
    (64, 208, 128, False, 208),
    (64, 256, 128, False, 256),
    (64, 256, 128, True, 256),
    (128, 256, 256, False, 256),  # 168
    (192, 192, 384, False, 192),  # 128
    (192, 192, 384, True, 192),
    (192, 208, 384, False, None),
    (192, 208, 384, True, None),
    (256, 128, 512, True, 128),  # 96
    (256, 136, 512, False, 136),
    (512, 64, 1024, False, 64),  # 64
    (256, 256, 1024, False, 64),
]


@pytest.mark.parametrize(("rows", "columns", "threads", "registers", "wgmma"), TILES)
def test_an_instruction_s_sums_fit_the_registers_of_the_launch(
    rows, columns, threads, registers, wgmma, require_tool
):
    """ptxas refuses wgmma whose accumulators, an A in registers, and 26 more exceed them, whatever setmaxnreg gives
    later; blocks that share a multiprocessor have half of them each."""
    require_tool("nvcc")
    shapes = (512, 512), (8 * columns, 512)  # of B whole tiles, so that none needs registers for its bounds
    emission = product.emit(
        *(T.Tensor(shape, T.float16) for shape in shapes),
        target="sm_90a",
        block_M=rows,
        block_N=columns,
        threads=threads,
        registers=registers,
    )
    build_cuda(emission.source, load_target("sm_90a"))
    most = 196 if registers else 204
    why = f"not by wgmma: 128 registers, which 384 threads get at launch, hold the sums of {most} columns at most"
    if wgmma is None:
        assert why in emission.source and why in emission.report()
    else:
        kind = "RS" if registers else "SS"
        assert f"math by SM90_64x{wgmma}x16_F32F16F16_{kind}" in emission.source
        assert "not by wgmma" not in emission.source
