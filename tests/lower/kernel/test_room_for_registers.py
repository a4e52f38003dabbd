"""What is on its way in registers finds room beside the fragments, without spills; what never fits is refused."""

# mypy: ignore-errors

from __future__ import annotations

import re

import numpy as np
import pytest
from emulation import relative_error

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.target import load_target
from tilegen.toolchain import compile_cuda

RANDOM = {"schedule": "random", "asynchronous": "random", "seed": 3}


def _spills(emission) -> int:
    return compile_cuda(emission.source, emission.target, "nvcc").spills


@tilegen.jit
def scores(Q, K, V, block_N: int = 48, threads: int = 32, D: int = 128):
    """Two products of the rows of Q, whose second keeps many sums; without stages, threads load the tiles."""
    M, N = T.const("M, N")
    Q: T.Tensor((M, D), T.float16)
    K: T.Tensor((N, D), T.float16)
    V: T.Tensor((N, D), T.float16)
    O = T.empty((M, D), T.float32)
    with T.Kernel(T.ceildiv(M, 16), threads=threads) as bx:
        q = T.alloc_shared((16, D), T.float16)
        k = T.alloc_shared((block_N, D), T.float16)
        v = T.alloc_shared((block_N, D), T.float16)
        s = T.alloc_fragment((16, block_N), T.float32)
        p = T.alloc_fragment((16, block_N), T.float16)
        o = T.alloc_fragment((16, D), T.float32)
        T.copy(Q[bx * 16, 0], q)
        T.clear(o)
        for j in T.Pipelined(T.ceildiv(N, block_N), num_stages=0):
            T.copy(K[j * block_N, 0], k)
            T.gemm(q, k, s, transpose_B=True, clear_accum=True)
            T.copy(s, p)
            T.copy(V[j * block_N, 0], v)
            T.gemm(p, v, o)
        T.copy(o, O[bx * 16, 0])
    return O


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("block_N", [48, 64])
def test_tiles_that_threads_load_come_in_turns_beside_sums(target, block_N, require_tool):
    require_tool("nvcc")
    emission = scores.emit(target=target, dims={"M": 64, "N": 100}, block_N=block_N)
    assert re.search(
        r"#pragma unroll [248]\n.*mi < \d\d; .*  // fragments leave registers for few", emission.source
    )
    assert _spills(emission) == 0


def test_tiles_that_threads_load_in_turns_are_whole(require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((rows, 128)).astype(np.float16) for rows in (21, 100, 100))
    emission = scores.emit(*(T.Tensor(x.shape, T.float16) for x in (q, k, v)), target="sm_80")
    wide = [x.astype(np.float64) for x in (q, k, v)]
    found = emission.emulate(q, k, v, **RANDOM)
    assert relative_error(found, wide[0] @ wide[1].T @ wide[2]) < 1e-3


@tilegen.jit
def reduced(X, dtype: T.dtype = T.uint8, op: str = "prod", rows: int = 33, threads: int = 64):
    M = T.const("M")
    X: T.Tensor((M, rows, 128), dtype)
    Y = T.empty((M, 128), dtype)
    Z = T.empty((M, rows, 128), dtype)
    with T.Kernel(M, threads=threads) as b:
        x = T.alloc_fragment((rows, 128), dtype)
        o = T.alloc_fragment((128,), dtype)
        T.copy(X[b, 0, 0], x)
        T.reduce(x, o, op, dim=0)
        for i, j in T.Parallel(rows, 128):
            Z[b, i, j] = x[i, j] + o[j]
        T.copy(o, Y[b, 0])
    return Y, Z


@pytest.mark.parametrize("op", ["prod", "max", "sum"])
@pytest.mark.parametrize("dtype", [T.uint8, T.int8, T.int16, T.float16], ids=str)
def test_narrow_elements_take_whole_registers_where_they_are_computed_with(dtype, op, require_tool):
    require_tool("nvcc")
    emission = reduced.emit(T.Tensor((3, 33, 128), dtype), target="sm_90a", op=op)
    assert _spills(emission) == 0


@tilegen.jit
def shared_k(A, B, R, block_M: int = 112, block_N: int = 96, block_K: int = 32, threads: int = 128):
    """A product whose warps share k: they cannot share its rows and columns. Something is added at once."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    R: T.Tensor((M, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        a = T.alloc_shared((block_M, block_K), T.float16)
        b = T.alloc_shared((block_K, block_N), T.float16)
        c = T.alloc_fragment((block_M, block_N), T.float32)
        r = T.alloc_shared((block_M, block_N), T.float16)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], a)
            T.copy(B[k * block_K, bx * block_N], b)
            T.gemm(a, b, c, policy=T.GemmWarpPolicy.SlicedK)
        T.copy(R[by * block_M, bx * block_N], r)
        for i, j in T.Parallel(block_M, block_N):
            c[i, j] += r[i, j]
        T.copy(c, C[by * block_M, bx * block_N])
    return C


@tilegen.jit
def one_warp(A, B, block_N: int = 96, block_K: int = 64):
    """A warp that starts the loads of all chunks of its tiles itself, beside 48 sums a thread and more."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, 16), threads=32) as (bx, by):
        a = T.alloc_shared((16, block_K), T.float16)
        b = T.alloc_shared((block_K, block_N), T.float16)
        c = T.alloc_fragment((16, block_N), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * 16, k * block_K], a)
            T.copy(B[k * block_K, bx * block_N], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 16, bx * block_N])
    return C


@pytest.mark.parametrize("block_N", [96, 112, 128])
@pytest.mark.parametrize("columns", [200, 256])
def test_many_chunks_of_a_thread_are_loaded_in_turns(block_N, columns, require_tool):
    require_tool("nvcc")
    emission = one_warp.emit(target="sm_80", dims={"M": 100, "N": columns, "K": 136}, block_N=block_N)
    assert "i < 4; ++i) {\n" in emission.source, "few are unrolled"
    assert re.search(
        r"#pragma unroll 8\n.*// more at once would take the fragments' registers", emission.source
    )
    assert _spills(emission) == 0


def test_chunks_in_turns_are_whole(require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((37, 136), (136, 200)))
    emission = one_warp.emit(T.Tensor(a.shape, T.float16), T.Tensor(b.shape, T.float16), target="sm_80")
    assert (
        relative_error(emission.emulate(a, b, **RANDOM), a.astype(np.float64) @ b.astype(np.float64)) < 1e-3
    )


FOUR = {"block_M": 80, "block_K": 128, "threads": 256}
PARTS = pytest.mark.parametrize(
    ("target", "tile"),
    [("sm_80", {}), ("sm_90a", {}), ("sm_90a", FOUR)],
    ids=["sm_80, two parts", "sm_90a, two parts", "sm_90a, four parts"],
)


@PARTS
def test_parts_of_large_sums_are_added_without_spills(target, tile, require_tool):
    require_tool("nvcc")
    assert _spills(shared_k.emit(target=target, dims={"M": 130, "N": 200, "K": 72}, **tile)) == 0


@PARTS
def test_parts_of_large_sums_are_added_up(target, tile, require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(6)
    arrays = [rng.standard_normal(shape).astype(np.float16) for shape in ((130, 72), (72, 200), (130, 200))]
    emission = shared_k.emit(*(T.Tensor(x.shape, T.float16) for x in arrays), target=target, **tile)
    a, b, r = (x.astype(np.float64) for x in arrays)
    assert relative_error(emission.emulate(*arrays, **RANDOM), a @ b + r) < 1e-3


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_a_fragment_beyond_a_threads_registers_is_refused(target):
    registers = load_target(target).limits.registers_per_thread
    rows = 2 * registers * 64 // 128 + 64
    with pytest.raises(ProgramError, match=r"x takes \d+ registers a thread, but a thread has") as caught:
        reduced.emit(T.Tensor((1, rows, 128), T.float32), target=target, op="sum", rows=rows)
    threads = int(re.search(r"threads=(\d+)\)", caught.value.remedy)[1])
    spec = T.Tensor((1, rows, 128), T.float32)
    assert reduced.emit(spec, target=target, op="sum", rows=rows, threads=threads).source
