"""Element-wise statements under a condition of their rows: a warp votes, and the result is what each row asks for."""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulation import Array, emulated, generated, kernel_text

import tilegen.language as T

EVERY_TARGET = ("sm_80", "sm_89", "sm_90a", "gfx90a", "gfx942", "gfx950")


def scaled(X, A, rows=16, threads=128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    A: T.Tensor((M,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=threads) as b:
        x = T.alloc_fragment((rows, N), T.float32)
        a = T.alloc_fragment((rows,), T.float32)
        T.copy(X[b * rows, 0], x)
        T.copy(A[b * rows], a)
        for i, j in T.Parallel(rows, N):
            if a[i] != 1:
                x[i, j] *= a[i]
        T.copy(x, Y[b * rows, 0])
    return Y


def shifted(X, A, rows=16, threads=128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    A: T.Tensor((M,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=threads) as b:
        x = T.alloc_fragment((rows, N), T.float32)
        a = T.alloc_fragment((rows,), T.float32)
        T.copy(X[b * rows, 0], x)
        T.copy(A[b * rows], a)
        for i, j in T.Parallel(rows, N):
            if a[i] > 1 and a[i] < 4:
                x[i, j] = x[i, j] + a[i]
        T.copy(x, Y[b * rows, 0])
    return Y


def half(X, A, rows=16, threads=128):
    """The condition speaks of columns too."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    A: T.Tensor((M,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=threads) as b:
        x = T.alloc_fragment((rows, N), T.float32)
        a = T.alloc_fragment((rows,), T.float32)
        T.copy(X[b * rows, 0], x)
        T.copy(A[b * rows], a)
        for i, j in T.Parallel(rows, N):
            if a[i] + j < 100:
                x[i, j] *= a[i]
        T.copy(x, Y[b * rows, 0])
    return Y


def crossed(X, A, B, threads=128):
    """The condition speaks of two axes, of as many registers each, and not of the third."""
    L, M, N = T.const("L, M, N")
    X: T.Tensor((L, M, N), T.float32)
    A: T.Tensor((L,), T.float32)
    B: T.Tensor((M,), T.float32)
    Y = T.empty((L, M, N), T.float32)
    with T.Kernel(1, threads=threads):
        x = T.alloc_fragment((L, M, N), T.float32)
        a = T.alloc_fragment((L,), T.float32)
        b = T.alloc_fragment((M,), T.float32)
        T.copy(X, x)
        T.copy(A, a)
        T.copy(B, b)
        for i, j, k in T.Parallel(L, M, N):
            if a[i] > b[j]:
                x[i, j, k] *= 3
        T.copy(x, Y)
    return Y


@pytest.mark.parametrize("target", EVERY_TARGET)
@pytest.mark.parametrize("shape", [(2, 2, 1024), (2, 4, 512), (2, 8, 256), (1, 4, 1024)])
def test_registers_of_two_axes_are_not_paired(
    shape: tuple[int, int, int], target: str, require_tool: Any
) -> None:
    require_tool("host_compiler")
    rows, columns, _ = shape
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    for a, b in (([0, 1], [1, 0]), ([1, 0], [1, 0]), ([0, 0], [1, -1])):
        left = np.resize(np.float32(a), rows)
        right = np.resize(np.float32(b), columns)
        threads = 64 if target.startswith("gfx") else 32  # one warp, which holds all rows
        (found,) = emulated(crossed, target, [x, left, right], {"schedule": "reverse"}, threads=threads)
        expected = np.where(left[:, None, None] > right[None, :, None], x * 3, x)
        np.testing.assert_array_equal(found, expected)


def _inputs(rows: int = 70, columns: int = 512) -> list[Array]:
    rng = np.random.default_rng(3)
    a = rng.integers(0, 6, rows).astype(np.float32)
    a[16:48] = 1  # whole warps with nothing to do
    x = rng.standard_normal((rows, columns)).astype(np.float32)
    x[20, :4] = np.inf, -np.inf, np.nan, -0.0
    return [x, a]


def _columns(x: Array) -> Array:
    return np.arange(x.shape[1])[None]


CASES = {
    "scaled": (scaled, lambda x, a: x * a),
    "shifted": (shifted, lambda x, a: np.where((a > 1) & (a < 4), x + a, x)),
    "half": (half, lambda x, a: np.where(a + _columns(x) < 100, x * a, x)),
}


@pytest.mark.parametrize("target", EVERY_TARGET)
@pytest.mark.parametrize("name", CASES)
def test_it_is_right(name: str, target: str, require_tool: Any) -> None:
    require_tool("host_compiler")
    program, expected = CASES[name]
    x, a = _inputs()
    with np.errstate(invalid="ignore"):
        wanted = expected(x, a[:, None])
    for threads in (128, 256):
        (found,) = emulated(program, target, [x, a], {"schedule": "reverse"}, threads=threads)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("target", "threads", "vote"), [("sm_90a", 128, "__any_sync(~0u, "), ("gfx942", 256, "__any(")]
)
def test_a_warp_votes(target: str, threads: int, vote: str) -> None:
    """Sixteen rows among four warps, or four waves."""
    for program in (scaled, shifted):
        text = kernel_text(generated(program, target, _inputs(64), threads=threads))
        assert text.count(f"if ({vote}") == 1
    one, other = (kernel_text(generated(p, target, _inputs(64), threads=threads)) for p in (scaled, shifted))
    assert "a[mi] != 1.0f" not in one, "times 1 changes nothing"
    assert "if (a[mi] > 1.0f && a[mi] < 4.0f)" in other


@pytest.mark.parametrize(
    ("program", "parameters"),
    [(half, {}), (scaled, {"rows": 64}), (scaled, {"threads": 1024})],
    ids=["of columns too", "many rows a thread", "few elements a row"],
)
def test_each_element_asks(program: Any, parameters: dict[str, int]) -> None:
    text = kernel_text(generated(program, "sm_90a", _inputs(64, 256), **parameters))
    assert "__any_sync" not in text and "if (a[" in text
