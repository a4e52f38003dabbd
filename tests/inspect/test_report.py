"""The work counted against sums over all blocks, and the report's facts."""

import pytest

import tilegen
import tilegen.language as T
from tilegen.building import Definition, read_program
from tilegen.inspect.report import report
from tilegen.inspect.work import measure_work, open_extents


def matmul(
    A, B, block_M: int = 128, block_N: int = 128, block_K: int = 32, num_stages: int = 3, persistent=None
):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128, persistent=persistent) as (
        bx,
        by,
    ):
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        for i, j in T.Parallel(block_M, block_N):
            C_local[i, j] = T.max(C_local[i, j], 0)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


def triangular(A, B):
    """Block bx multiplies bx // 2 + 1 tiles: the work of a causal mask."""
    A: T.Tensor((1024, 64), T.float16)
    B: T.Tensor((64, 2048), T.bfloat16)
    C = T.empty((1024, 64), T.float32)
    with T.Kernel(16, threads=128) as bx:
        A_shared = T.alloc_shared((64, 64), T.float16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for t in T.serial(bx // 2 + 1):
            T.copy(A[t * 64, 0], A_shared)
            T.gemm(A_shared, A_shared, C_local)
        T.copy(C_local, C[bx * 64, 0])
    return C


def program(function, **dims):
    return read_program(Definition(function, "eager", None, function.__name__), {}, {}, dims)


def test_matmul_counts_whole_tiles():
    work = measure_work(program(matmul, M=300, N=1000, K=72), {})
    blocks, steps = 3 * 8, 3
    assert work.matrix == {"float16": blocks * steps * 2 * 128 * 128 * 32}
    assert work.tile_bytes == blocks * 2 * (steps * 2 * 128 * 32 + 128 * 128)
    assert work.least_bytes == 2 * (300 * 72 + 72 * 1000 + 300 * 1000)
    assert work.elements == blocks * 128 * 128


def test_open_extents_are_given_later():
    opened = program(matmul, K=64)
    assert open_extents(opened, {}) == ("M", "N") and open_extents(opened, {"M": 1}) == ("N",)
    fixed = measure_work(program(matmul, M=256, N=384, K=64), {})
    assert measure_work(opened, {"M": 256, "N": 384}) == fixed
    with pytest.raises(KeyError):
        measure_work(opened, {"M": 256})


def test_loops_whose_length_depends_on_the_block():
    work = measure_work(program(triangular), {})
    tiles = sum(bx // 2 + 1 for bx in range(16))
    assert work.matrix == {"float16": tiles * 2 * 64**3}
    assert work.tile_bytes == tiles * 2 * 64 * 64 + 16 * 4 * 64 * 64


def test_an_empty_grid_does_no_work():
    work = measure_work(program(matmul, M=0, N=1000, K=72), {})
    assert work.matrix == {"float16": 0} and work.tile_bytes == 0


@pytest.mark.parametrize(
    "target, atom", [("sm_80", "SM80_16x8x16"), ("sm_90a", "SM90_64x128x16"), ("gfx942", "mfma_f32_32x32x8")]
)
def test_the_report_states_the_facts(target, atom):
    emission = tilegen.jit(matmul).emit(
        T.Tensor((4096, 4096), T.float16), T.Tensor((4096, 4096), T.float16), target=target
    )
    text = emission.report()
    lines = text.splitlines()
    assert lines[0].startswith(f"matmul for {target} (") and "test_report.py:" in lines[0]
    for words in ("Launch", "A_shared", "bank conflicts", "T.Parallel(block_M, block_N)", "roofline on"):
        assert words in text
    assert atom in text
    assert "137.4 G operations of the matrix units, float16" in text
    assert "100.7 MB at least" in text and "bound by float16 matrix units" in text
    milliseconds = 2 * 4096**3 / emission.target.device.matrix_flops_per_second("float16") * 1e3
    assert f"at least {milliseconds:.4g} ms" in text
    assert all(line == line.rstrip() for line in lines)


def test_loops_are_listed_as_they_stand_in_the_program():
    lines = tilegen.jit(matmul).emit(target="sm_90a").report().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("Loops"))
    end = next(at for at in range(start, len(lines)) if not lines[at])
    numbers = [int(line.split("test_report.py:")[1].split()[0]) for line in lines[start:end]]
    assert len(numbers) > 2 and numbers == sorted(numbers)


def test_open_extents_leave_the_work_open():
    emission = tilegen.jit(matmul).emit(target="sm_80")
    assert "depends on M, N, K" in emission.report()
    assert "137.4 G operations" in report(emission.generated, {"M": 4096, "N": 4096, "K": 4096})


def squares(X):
    """Element-wise work that only feeds a reduction."""
    X: T.Tensor((64, 512), T.float32)
    Y = T.empty((64,), T.float32)
    with T.Kernel(64, threads=128) as b:
        x = T.alloc_fragment((1, 512), T.float32)
        square = T.alloc_fragment((1, 512), T.float32)
        y = T.alloc_fragment((1,), T.float32)
        T.copy(X[b, 0], x)
        for i, j in T.Parallel(1, 512):
            square[i, j] = x[i, j] * x[i, j]
        T.reduce_sum(square, y, dim=1)
        T.copy(y, Y[b])
    return Y


def test_a_fragment_without_registers_says_why():
    found = report(tilegen.jit(squares).emit(target="sm_90a").generated)
    lines = [line.strip() for line in found.splitlines()]
    (reason,) = (line for line in lines if line.startswith("square: "))
    assert reason.startswith("square: no registers, test_report.py:")
    assert not any("square," in line or line.startswith("square ") for line in lines)
