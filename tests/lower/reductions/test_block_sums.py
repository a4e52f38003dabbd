"""T.sum_blocks: right on every target and in every order, the same bits each time; no step of it can be left out."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from emulation import Array, emulated, generated, kernel_text, relative_error

import tilegen.language as T
from tilegen.driver import generate
from tilegen.emulate import run
from tilegen.emulate.errors import EmulationError
from tilegen.frontend import parse
from tilegen.inspect.work import measure_work

TARGETS = ("sm_80", "sm_89", "sm_90a", "gfx90a", "gfx942", "gfx950")
ORDERS = [("fifo", "eager"), ("reverse", "lazy"), ("random", "random"), ("random", "lazy")]


@pytest.fixture(autouse=True)
def _needs_compiler(require_tool: Any) -> None:
    require_tool("host_compiler")


def product(  # type: ignore[no-untyped-def]
    A,
    B,
    splits: int = 3,
    stages: int = 2,
    block: int = 64,
    block_K: int = 32,
    threads: int = 128,
    persistent=None,
):
    """Blocks along bz take every third tile of k; a maximum with 0 and the store follow the sums."""
    M, K, N = T.const("M, K, N")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(
        T.ceildiv(N, block), T.ceildiv(M, block), splits, threads=threads, persistent=persistent
    ) as (bx, by, bz):
        A_shared = T.alloc_shared((block, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block), T.float16)
        C_local = T.alloc_fragment((block, block), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K * splits), num_stages=stages):
            T.copy(A[by * block, (k * splits + bz) * block_K], A_shared)
            T.copy(B[(k * splits + bz) * block_K, bx * block], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.sum_blocks(C_local, bz)
        for i, j in T.Parallel(block, block):
            C_local[i, j] = T.max(C_local[i, j], 0)
        T.copy(C_local, C[by * block, bx * block])
    return C


def _operands(m: int = 100, k: int = 296, n: int = 72) -> list[Array]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n))]


def _product(a: Array, b: Array) -> Array:
    return np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "parameters",
    [{}, {"splits": 5, "stages": 0}, {"splits": 2, "stages": 4, "threads": 256}, {"splits": 1}],
    ids=str,
)
def test_products(target: str, parameters: dict[str, Any]) -> None:
    operands = _operands()
    (found,) = emulated(product, target, operands, {"schedule": "random", "seed": 5}, **parameters)
    assert relative_error(found, _product(*operands)) < 1e-3


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_every_order_of_blocks_gives_the_same_bits(target: str) -> None:
    operands = _operands()
    files = generated(product, target, operands)
    found = [
        run(
            files.source,
            files.manifest,
            operands,
            schedule=schedule,
            asynchronous=asynchronous,
            seed=seed,
            multiprocessors=multiprocessors,
        )
        for (schedule, asynchronous), seed, multiprocessors in zip(
            ORDERS, range(4), (1, 2, 5, 12), strict=True
        )
    ]
    for result in found[1:]:
        np.testing.assert_array_equal(np.asarray(result), np.asarray(found[0]))


def with_residual(A, B, R, splits: int = 3, block: int = 64, block_K: int = 32):  # type: ignore[no-untyped-def]
    """A tile that the computing threads load behind the sum, in every tile of the walk that ends with them."""
    M, K, N = T.const("M, K, N")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    R: T.Tensor((M, N), T.float16)
    C = T.empty((M, N), T.float16)
    grid = (T.ceildiv(N, block), T.ceildiv(M, block), splits)
    with T.Kernel(*grid, threads=128, persistent=True) as (bx, by, bz):
        A_shared = T.alloc_shared((block, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block), T.float16)
        R_shared = T.alloc_shared((block, block), T.float16)
        C_local = T.alloc_fragment((block, block), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K * splits), num_stages=2):
            T.copy(A[by * block, (k * splits + bz) * block_K], A_shared)
            T.copy(B[(k * splits + bz) * block_K, bx * block], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.sum_blocks(C_local, bz)
        T.copy(R[by * block, bx * block], R_shared)
        for i, j in T.Parallel(block, block):
            C_local[i, j] += R_shared[i, j]
        T.copy(C_local, C[by * block, bx * block])
    return C


def test_a_sum_parts_the_tiles_that_stand_behind_it() -> None:
    """The barriers of the next tile's sum stand between its residual and the readers of this one."""
    a, b = _operands(150, 200, 136)
    residual = np.random.default_rng(8).standard_normal((150, 136)).astype(np.float16)
    text = kernel_text(generated(with_residual, "sm_90a", [a, b, residual]))
    assert "// R_shared has been written" in text and "R_shared has been read" not in text
    expected = a.astype(np.float64) @ b.astype(np.float64) + residual
    for seed, (schedule, asynchronous) in enumerate(ORDERS):
        options = {"schedule": schedule, "asynchronous": asynchronous, "seed": seed, "multiprocessors": 2}
        (found,) = emulated(with_residual, "sm_90a", [a, b, residual], options)
        assert relative_error(found, expected) < 1e-3


def test_only_the_block_that_stores_waits_for_its_stores() -> None:
    text = kernel_text(generated(product, "sm_90a", _operands()))
    assert re.search(r"tma_store_commit\(\);\n +tma_store_wait_read\(\);\n +}\n  }\n}\n", text)
    assert text.count("tma_store_wait_read") == 1


def test_persistent_blocks_sum_tile_after_tile() -> None:
    operands = _operands(150, 200, 136)
    options = {"schedule": "random", "seed": 2, "multiprocessors": 4}
    (found,) = emulated(product, "sm_90a", operands, options, persistent=True, threads=128)
    assert relative_error(found, _product(*operands)) < 1e-3


def test_extents_that_stay_open() -> None:
    """The parts' memory is as large as the call's grid wants."""

    def rows(A, splits: int = 4, block: int = 32):  # type: ignore[no-untyped-def]
        M, N = T.dynamic("M"), T.dynamic("N")
        A: T.Tensor((M, N), T.float32)
        S = T.empty((M,), T.float32)
        with T.Kernel(T.ceildiv(M, block), splits, threads=64) as (bx, bz):
            total = T.alloc_fragment((block,), T.float32)
            part = T.alloc_fragment((block,), T.float32)
            tile = T.alloc_fragment((block, block), T.float32)
            T.clear(total)
            for k in range(T.ceildiv(N, block * splits)):
                T.copy(A[bx * block, (k * splits + bz) * block], tile)
                T.reduce_sum(tile, part, dim=1)
                for i in T.Parallel(block):
                    total[i] += part[i]
            T.sum_blocks(total, axis=bz)
            T.copy(total, S[bx * block])
        return S

    array = np.random.default_rng(1).standard_normal((70, 300)).astype(np.float32)
    for target in ("sm_80", "gfx942"):
        (found,) = emulated(rows, target, [array])
        assert relative_error(found, array.astype(np.float64).sum(1)) < 1e-6


def test_several_fragments_and_other_types() -> None:
    def both(A, splits: int = 3, block: int = 64):  # type: ignore[no-untyped-def]
        N = T.const("N")
        A: T.Tensor((N,), T.int32)
        S = T.empty((block,), T.int32)
        Q = T.empty((block,), T.float32)
        with T.Kernel(splits, threads=64) as bz:
            s = T.alloc_fragment((block,), T.int32)
            q = T.alloc_fragment((block,), T.float32)
            for i in T.Parallel(block):
                s[i] = A[bz * block + i]
                q[i] = T.cast(A[bz * block + i], T.float32) * 0.5
            T.sum_blocks([s, q], bz)
            T.copy(s, S)
            T.copy(q, Q)
        return S, Q

    array = np.arange(192, dtype=np.int32)
    for target in ("sm_80", "gfx90a"):
        sums, halves = emulated(both, target, [array], {"schedule": "reverse"})
        np.testing.assert_array_equal(sums, array.reshape(3, 64).sum(0))
        np.testing.assert_array_equal(halves, array.reshape(3, 64).sum(0) / 2)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize(
    ("pattern", "new"),
    [
        # A barrier before the count, or behind it
        (r"(\n *)(__syncthreads|block_sync_lds|named_barrier_sync)\([^\n]*(?=\s+if \(\w+ == 0\) shared.arrived)", ""),
        (r"(shared.arrived = count_in[^\n]*)\n *(__syncthreads|block_sync_lds|named_barrier_sync)\([^\n]*", r"\1"),
        # A count that neither releases nor acquires, and none at all
        (r"count_in\(arrivals\[share_group\]", "atomicInc(&arrivals[share_group]"),
        (r"shared.arrived == kSplits - 1", "shared.arrived == 0"),
        # Parts that lie over each other
        (r"i64\(share_group \* kSplits \+ bz\)", "i64(share_group * kSplits)"),
    ],
    ids=["no barrier before", "no barrier behind", "plain count", "the first goes on", "one place for all parts"],
)  # fmt: skip
def test_no_step_can_be_left_out(target: str, pattern: str, new: str) -> None:
    operands = _operands()
    files = generated(product, target, operands)
    damaged, count = re.subn(pattern, new, files.source)
    assert count
    bad = 0
    for schedule, asynchronous in ORDERS:
        try:
            found = run(
                damaged, files.manifest, operands, schedule=schedule, asynchronous=asynchronous, seed=1,
                multiprocessors=4,
            )  # fmt: skip
        except EmulationError as error:
            assert error.kind in ("race", "poison")
            bad += 1
        else:
            bad += not relative_error(np.asarray(found), _product(*operands)) < 1e-3
    assert bad


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_waves_fence_their_own_stores(target: str) -> None:
    """A barrier of the block does not make what other waves have stored visible to other blocks."""
    operands = _operands()
    files = generated(product, target, operands)
    damaged, count = re.subn(r"\n *__threadfence\(\);[^\n]*", "", files.source)
    assert count == 1
    run(files.source, files.manifest, operands, schedule="random", seed=1, multiprocessors=4)
    with pytest.raises(EmulationError) as caught:
        run(damaged, files.manifest, operands, schedule="random", seed=1, multiprocessors=4)
    assert caught.value.kind == "race"


def test_counts_rest_at_0_and_parts_are_scratch() -> None:
    files = generated(product, "sm_90a", _operands())
    parts, counts = files.manifest.tensors[-2:]
    assert (parts.name, parts.role, parts.rests, parts.shape) == (
        "C_local_parts", "scratch", False, ("2", "2", "3", "8", "128", "4"),
    )  # fmt: skip
    assert (counts.name, counts.role, counts.rests, counts.zeroed, counts.shape) == (
        "arrivals", "scratch", True, False, ("2", "2"),
    )  # fmt: skip
    assert "Memset" not in files.source
    never = files.source.replace("kSplits - 1);  // back to 0 with the last", "kSplits);")
    assert never != files.source
    with pytest.raises(EmulationError, match="arrivals is not 0 again after the launch"):
        run(never, files.manifest, _operands())


def test_names_of_the_program_that_the_text_wants() -> None:
    def clash(A, arrivals: int = 2, block: int = 64):  # type: ignore[no-untyped-def]
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        total_parts = T.empty((block,), T.float32)
        with T.Kernel(arrivals, 2, threads=64) as (share_group, last):
            arrived = T.alloc_shared((block,), T.float32)
            total = T.alloc_fragment((block,), T.float32)
            T.copy(A[share_group * block], arrived)
            T.copy(arrived, total)
            T.sum_blocks(total, share_group)
            if last == 0:
                T.copy(total, total_parts)
        return total_parts

    array = np.arange(128, dtype=np.float32)
    for target in ("sm_80", "gfx942"):
        (found,) = emulated(clash, target, [array])
        np.testing.assert_array_equal(found, array.reshape(2, 64).sum(0))


def test_names_of_fragments_that_are_declared_together() -> None:
    def clash(A, block: int = 64):  # type: ignore[no-untyped-def]
        N = T.const("N")
        A: T.Tensor((N, block), T.float32)
        S = T.empty((block,), T.float32)
        with T.Kernel(N, threads=64) as bz:
            total = T.alloc_fragment((block,), T.float32)
            total_own = T.alloc_fragment((block,), T.float32)
            total_first = T.alloc_fragment((block,), T.float32)
            part = T.alloc_fragment((block,), T.float32)
            T.copy(A[bz, 0], total)
            T.copy(A[bz, 0], total_own)
            T.copy(A[bz, 0], total_first)
            T.copy(A[bz, 0], part)
            T.sum_blocks([total, total_own, total_first, part], bz)
            for i in T.Parallel(block):
                total[i] += total_own[i] + total_first[i] + part[i]
            T.copy(total, S)
        return S

    array = np.arange(192, dtype=np.float32).reshape(3, 64)
    for target in ("sm_80", "gfx942"):
        (found,) = emulated(clash, target, [array])
        np.testing.assert_array_equal(found, 4 * array.sum(0))


def test_the_report_counts_what_blocks_leave_and_take() -> None:
    a, b = _operands(64, 384, 64)
    program = parse(
        product, {"A": T.Tensor(a.shape, T.float16), "B": T.Tensor(b.shape, T.float16)}, {"splits": 3}
    )
    work = measure_work(program, {})
    tiles, store, parts = 2 * 2 * 64 * 384, 2 * 64 * 64, 4 * 64 * 64
    assert work.tile_bytes == tiles + store + 3 * parts + 3 * parts


def test_the_text_says_who_goes_on() -> None:
    text = kernel_text(generated(product, "sm_80", _operands()))
    assert "const int share_group = by * kTilesBx + bx;  // blocks that differ in bz alone" in text
    assert re.search(r"if \(shared.arrived == kSplits - 1\) \{ +// the last of them goes on\n", text)


@pytest.mark.parametrize("element", [T.int8, T.uint8, T.float16])
def test_threads_that_hold_one_narrow_element(element: Any) -> None:
    def rows(A, count: int = 8):  # type: ignore[no-untyped-def]
        N = T.const("N")
        A: T.Tensor((N, count), element)
        S = T.empty((count,), element)
        with T.Kernel(N, threads=128) as bz:
            total = T.alloc_fragment((count,), element)
            T.copy(A[bz, 0], total)
            T.sum_blocks(total, bz)
            T.copy(total, S)
        return S

    array = np.random.default_rng(4).integers(0, 9, (3, 8)).astype(element.name)
    for target in ("sm_80", "gfx942"):
        files = generate(parse(rows, {"A": T.Tensor(array.shape, element)}, {}), target)
        found = run(files.source, files.manifest, [array])
        np.testing.assert_array_equal(np.asarray(found), array.sum(0, dtype=array.dtype))
        assert "0 * kThreads" not in files.source
