"""Resident blocks leave registers for what reductions hold beside their fragments, and no more than that."""

# mypy: ignore-errors

from collections.abc import Callable

import folded_programs
import numpy as np
import pytest
from emulation import emulated, generated, relative_error

import tilegen.language as T
from tilegen.schedule.registers import allotted_registers, fragment_registers, live_registers
from tilegen.schedule.streaming import streaming_registers
from tilegen.target import load_target
from tilegen.toolchain import compile_cuda


def both_sums(X, bm=64, bn=48, threads=128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    rows = T.empty((M,), T.float32)
    columns = T.empty((T.ceildiv(M, bm), N), T.float32)
    with T.Kernel(T.ceildiv(M, bm), threads=threads) as b:
        x = T.alloc_fragment((bm, bn), T.float32)
        row = T.alloc_fragment((bm,), T.float32)
        column = T.alloc_fragment((bn,), T.float32)
        T.clear(row)
        for n in T.serial(T.ceildiv(N, bn)):
            T.copy(X[b * bm, n * bn], x)
            T.reduce_sum(x, row, dim=1, clear=False)
            T.reduce_sum(x, column, dim=0)
            T.copy(column, columns[b, n * bn])
        T.copy(row, rows[b * bm])
    return rows, columns


X = np.random.default_rng(0).standard_normal((200, 130)).astype(np.float32)


@pytest.mark.parametrize(("bm", "bn", "threads"), [(64, 48, 128), (64, 64, 128), (32, 96, 256)])
def test_reductions_spill_nothing(
    bm: int, bn: int, threads: int, require_tool: Callable[[str], None]
) -> None:
    require_tool("nvcc")
    files = generated(both_sums, "sm_90a", [X], bm=bm, bn=bn, threads=threads)
    assert compile_cuda(files.source, load_target("sm_90a")).spills == 0


def test_sums_along_both_axes(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rows, columns = emulated(both_sums, "sm_80", [X], {"schedule": "reverse"}, bm=37, bn=13, threads=96)
    x = X.astype(np.float64)
    padded = np.pad(x, ((0, 22), (0, 0))).reshape(6, 37, 130)
    assert relative_error(rows, x.sum(1)) < 1e-5
    assert relative_error(columns, padded.sum(1)) < 1e-5


# ------------------------------------------------------------------------------------------- estimates


def test_fragments_that_reductions_compute_take_no_registers() -> None:
    rows = np.zeros((8, 1024), np.float32)
    folded = generated(folded_programs.named, "sm_90a", [rows.astype(np.float16)], bm=1, cols=1024)
    kernel, decisions = folded.program.kernel, folded.decisions
    assert decisions.fragments["weighed"].register_count == 8
    assert fragment_registers(kernel, decisions) == 4 + 1 + 1  # x, two elements a register; top, y
    assert live_registers(kernel, decisions) == 8 + 1 + 1  # x converted, since two reductions compute with it
    kept = generated(folded_programs.kept, "sm_90a", [rows], bm=1, cols=1024, place="two readers")
    assert fragment_registers(kept.program.kernel, kept.decisions) == 8 + 8 + 1 + 1


@pytest.mark.parametrize("threads", [128, 256, 512, 1024])
def test_a_share_of_the_registers_is_what_the_compiler_allots(threads: int) -> None:
    target = load_target("sm_90a")
    for blocks in range(1, 2048 // threads + 1):
        share = allotted_registers(target, blocks * threads)
        assert share % 8 == 0 or share == 255
        assert share * blocks * threads <= 65536
        assert share == 255 or (share + 8) * blocks * threads > 65536


@pytest.mark.parametrize(
    ("threads", "blocks", "share"),
    [(64, 5, 168), (96, 4, 168), (96, 6, 96), (96, 7, 80), (160, 3, 128), (160, 6, 64)],
)
def test_warps_that_partitions_do_not_share_evenly_have_fewer(threads: int, blocks: int, share: int) -> None:
    """What nvcc 13 took at most under these launch bounds, when it spilled."""
    assert allotted_registers(load_target("sm_90a"), blocks * threads) == share


@pytest.mark.parametrize("threads", [64, 128, 256, 512, 1024])
@pytest.mark.parametrize("columns", [512, 1000, 4096, 16384])
def test_blocks_share_a_multiprocessor_where_their_registers_fit(columns: int, threads: int) -> None:
    target = load_target("sm_90a")
    x = np.zeros((8, columns), np.float16)
    files = generated(folded_programs.named, "sm_90a", [x], bm=1, cols=columns, threads=threads)
    blocks = files.plan.blocks_per_multiprocessor
    needed = streaming_registers(files.program.kernel, files.decisions)
    assert blocks == 1 or allotted_registers(target, blocks * threads) >= needed
    wanted = max(2, 1024 // threads)
    assert blocks == wanted or allotted_registers(target, (blocks + 1) * threads) < needed
