"""Where TMA boxes may begin: at multiples of 16 bytes along the innermost axis, and when they are stored, nowhere
before the tensor. The hardware ends other boxes in an illegal instruction, so that the schedule takes another way and
the emulator reports them."""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulation import Array, generated, relative_error

import tilegen.language as T
from tilegen.emulate import run
from tilegen.emulate.errors import EmulationError


def product(rows: int = 64, last: int = 0, first: int = 0):
    def program(A, B, block: int = 64):
        M, K, D, N = T.const("M, K, D, N")
        A: T.Tensor((M, K), T.float16)
        B: T.Tensor((D, N), T.float16)
        C = T.empty((rows, N), T.float16)
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(rows, block), threads=128) as (x, y):
            A_shared = T.alloc_shared((block, block), T.float16)
            B_shared = T.alloc_shared((block, block), T.float16)
            C_local = T.alloc_fragment((block, block), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(D, block), num_stages=2):
                T.copy(A[y * block + first, k * block + last], A_shared)
                T.copy(B[k * block, x * block], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[y * block, x * block])
        return C

    return program


def _inputs() -> list[Array]:
    rng = np.random.default_rng(6)
    return [rng.standard_normal(shape).astype(np.float16) for shape in ((80, 152), (128, 64))]


@pytest.mark.parametrize(
    ("first", "last", "by_tma"), [(3, 0, True), (0, 8, True), (1, 16, True), (0, 3, False)]
)
def test_rows_that_begin_anywhere_are_right(first: int, last: int, by_tma: bool, require_tool: Any) -> None:
    require_tool("host_compiler")
    a, b = _inputs()
    files = generated(product(64, last, first), "sm_90a", [a, b])
    assert ("tma_load" in files.source) == by_tma
    if not by_tma:
        assert "no TMA load, the tile's rows need not begin at a multiple of 16 bytes" in files.source
    result = run(files.source, files.manifest, [a, b], schedule="random", asynchronous="lazy", seed=2)
    reach = min(128, a.shape[1] - last)
    part = np.zeros((64, 128))
    part[:, :reach] = a[first : first + 64, last : last + reach]
    assert relative_error(result, part @ b.astype(np.float64)) < 1e-3


@pytest.mark.parametrize(("offset", "by_tma"), [(0, True), (8, True), (4, False)])
def test_stores_that_begin_anywhere_are_right(offset: int, by_tma: bool, require_tool: Any) -> None:
    require_tool("host_compiler")

    x = np.random.default_rng(3).standard_normal((64, 128)).astype(np.float16)
    y = np.zeros((64, 192), np.float16)

    def program(X, Y, block: int = 64):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float16)
        Y: T.Tensor((M, N + 64), T.float16)
        with T.Kernel(T.ceildiv(M, block), threads=128) as row:
            X_shared = T.alloc_shared((block, block), T.float16)
            total = T.alloc_fragment((block, block), T.float16)
            for k in T.Pipelined(T.ceildiv(N, block), num_stages=2):
                T.copy(X[row * block, k * block], X_shared)
                T.copy(X_shared, total)
                T.copy(total, Y[row * block, k * block + offset])

    files = generated(program, "sm_90a", [x, y])
    assert ("tma_store" in files.source) == by_tma
    result = run(files.source, files.manifest, [x, y], schedule="reverse", asynchronous="lazy")
    assert np.array_equal(result[:, offset : offset + 128], x)


def test_the_emulator_reports_a_box_that_begins_elsewhere(require_tool: Any) -> None:
    require_tool("host_compiler")
    a, b = _inputs()
    files = generated(product(), "sm_90a", [a, b])
    assert files.source.count("A, k * kBlock, ") == 1
    text = files.source.replace("A, k * kBlock, ", "A, k * kBlock + 3, ")
    with pytest.raises(
        EmulationError, match=r"misaligned.*a box of A begins at byte 6 of a row.*multiple of 16"
    ):
        run(text, files.manifest, [a, b])


def shifted(place: str):
    def program(A, B, C, back: int = 8):
        M, K, N = T.const("M, K, N")
        A: T.Tensor((M, K), T.float16)
        B: T.Tensor((K, N), T.float16)
        C: T.Tensor((M, N), T.float16)
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (x, y):
            A_shared = T.alloc_shared((64, 64), T.float16)
            B_shared = T.alloc_shared((64, 64), T.float16)
            C_local = T.alloc_fragment((64, 64), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                T.copy(A[y * 64, k * 64], A_shared)
                T.copy(B[k * 64, x * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            if place == "by a number":
                T.copy(C_local, C[y * 64 - 8, x * 64])
            elif place == "by a parameter, along rows":
                T.copy(C_local, C[y * 64, x * 64 - back])
            else:
                T.copy(C_local, C[T.max(y * 64 - 8, 0), x * 64])

    return program


@pytest.mark.parametrize(
    ("place", "by_tma"),
    [("by a number", False), ("by a parameter, along rows", False), ("not at all", True)],
)
def test_stores_that_may_begin_before_the_tensor_go_without_tma(
    place: str, by_tma: bool, require_tool: Any
) -> None:
    """The hardware loads boxes from there, but stores none."""
    require_tool("host_compiler")
    rng = np.random.default_rng(8)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((64, 64), (64, 128)))
    c = np.full((64, 128), 7, np.float16)
    files = generated(shifted(place), "sm_90a", [a, b, c])
    assert ("tma_store" in files.source) == by_tma
    if not by_tma:
        assert "no TMA store, the tile may begin before C" in files.source
    result = run(files.source, files.manifest, [a, b, c], schedule="random", asynchronous="lazy", seed=1)
    product, expected = a.astype(np.float64) @ b.astype(np.float64), c.astype(np.float64)
    if place == "by a number":
        expected[:56] = product[8:]
    elif place == "by a parameter, along rows":
        expected[:, :56], expected[:, 56:120] = product[:, 8:64], product[:, 64:]
    else:
        expected = product
    assert relative_error(result, expected) < 1e-3


def test_the_emulator_reports_a_store_before_the_tensor(require_tool: Any) -> None:
    require_tool("host_compiler")
    a, b = _inputs()
    files = generated(product(), "sm_90a", [a, b])
    store = next(line for line in files.source.splitlines() if line.strip().startswith("tma_store_2d(C"))
    text = files.source.replace(store, store.replace("y * kBlock)", "y * kBlock - 1)"))
    assert text != files.source
    with pytest.raises(
        EmulationError, match=r"a box of C is stored at index -1 of dimension 1.*before the tensor"
    ):
        run(text, files.manifest, [a, b])
