"""T.Kernel's `min_blocks`: the launch bounds that it gives in every schedule, and what it is refused for."""

# mypy: ignore-errors

import re
from collections.abc import Callable

import numpy as np
import pytest
from emulation import emulated, generated, relative_error

import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.target import load_target
from tilegen.toolchain import compile_cuda


def doubled(X, columns=1024, threads=128, min_blocks=None, tile=0):
    M = T.const("M")
    X: T.Tensor((M, columns), T.float32)
    Y = T.empty((M, columns), T.float32)
    with T.Kernel(M, threads=threads, min_blocks=min_blocks) as b:
        x = T.alloc_fragment((1, columns), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(X[b, 0], x)
        if tile:
            shared = T.alloc_shared((1, tile), T.float32)
            T.copy(x, shared)
            T.copy(shared, x)
        T.reduce_max(x, total, dim=1)
        for i, j in T.Parallel(1, columns):
            Y[b + i, j] = x[i, j] + total[i]
    return Y


def product(A, B, min_blocks=None, stages=2, threads=128):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=threads, min_blocks=min_blocks) as (bx, by):
        a = T.alloc_shared((64, 32), T.float16)
        b = T.alloc_shared((32, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=stages):
            T.copy(A[by * 64, k * 32], a)
            T.copy(B[k * 32, bx * 64], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 64, bx * 64])
    return C


ROWS = np.random.default_rng(0).standard_normal((5, 1024)).astype(np.float32)
PAIR = [np.random.default_rng(n).standard_normal((96, 96)).astype(np.float16) for n in (1, 2)]


def bound(source: str) -> int:
    return int(re.search(r"__launch_bounds__\(kThreads, (\d+)\)", source)[1])


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("blocks", [1, 3, 5])
def test_blocks_a_multiprocessor_on_cuda(target: str, blocks: int) -> None:
    assert bound(generated(doubled, target, [ROWS], min_blocks=blocks).source) == blocks
    if target == "sm_89" and blocks == 5:
        return  # five rings do not fit
    files = generated(product, target, PAIR, min_blocks=blocks)
    assert bound(files.source) == blocks
    assert files.plan.blocks_per_multiprocessor == blocks


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_waves_a_simd_on_hip(target: str) -> None:
    """A compute unit has four: blocks of 256 threads are a wave on each, one of 128 shares two of them."""
    assert bound(generated(doubled, target, [ROWS], threads=256).source) == 1
    for threads, blocks, waves in ((256, 3, 3), (128, 3, 2), (512, 2, 4), (64, 1, 1)):
        files = generated(doubled, target, [ROWS], threads=threads, min_blocks=blocks)
        assert bound(files.source) == waves
    assert bound(generated(product, target, PAIR, threads=256, min_blocks=2).source) == 2


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_stages_in_lds_leave_room_for_the_blocks(target: str) -> None:
    two = generated(product, target, PAIR, threads=256)
    for blocks in (2, 4, 8):
        files = generated(product, target, PAIR, threads=256, min_blocks=blocks)
        assert (
            blocks * files.manifest.shared_bytes <= load_target(target).limits.shared_bytes_per_multiprocessor
        )
    assert files.manifest.shared_bytes < two.manifest.shared_bytes


@pytest.mark.parametrize(
    ("target", "asked", "says", "remedy"),
    [
        ("sm_90a", {"min_blocks": 33, "threads": 32, "columns": 32}, "sm_90a holds 32", "min_blocks=32"),
        ("sm_90a", {"min_blocks": 9, "threads": 256}, "256 threads each leave room for 8", "min_blocks=8"),
        ("sm_89", {"min_blocks": 9, "threads": 256}, "256 threads each leave room for 6", "min_blocks=6"),
        ("sm_90a", {"min_blocks": 5, "columns": 16384}, "fragments of 129 registers a thread", "min_blocks=3"),
        ("gfx942", {"min_blocks": 9, "threads": 256}, "256 threads each leave room for 8", "min_blocks=8"),
        ("sm_80", {"min_blocks": 6, "columns": 8192, "tile": 8192}, "32,768 bytes of shared memory", "min_blocks=4"),
    ],
)  # fmt: skip
def test_more_than_fit_are_refused(target: str, asked: dict, says: str, remedy: str) -> None:
    rows = np.zeros((2, asked.get("columns", 1024)), np.float32)
    with pytest.raises(ProgramError, match=re.escape(says)) as error:
        generated(doubled, target, [rows], **asked)
    assert remedy in error.value.remedy
    assert generated(doubled, target, [rows], **{**asked, "min_blocks": int(remedy[-1:])}).source


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_the_result_is_the_same(target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    expected = ROWS + ROWS.max(axis=1, keepdims=True)
    assert np.array_equal(
        emulated(doubled, target, [ROWS], {"schedule": "random"}, min_blocks=4)[0], expected
    )
    exact = PAIR[0].astype(np.float64) @ PAIR[1]
    (found,) = emulated(product, target, PAIR, {"schedule": "random"}, threads=256, min_blocks=2)
    assert relative_error(found, exact) < 1e-3


def test_the_compiler_takes_the_registers_that_are_left(require_tool: Callable[[str], None]) -> None:
    require_tool("nvcc")
    rows = np.zeros((2, 8192), np.float32)
    taken = [
        compile_cuda(
            generated(doubled, "sm_90a", [rows], columns=8192, min_blocks=blocks).source,
            load_target("sm_90a"),
        ).registers
        for blocks in (1, 7)
    ]
    assert taken[1] <= 72 < taken[0]
