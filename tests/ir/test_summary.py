"""The formula in the header tells the truth, or there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilegen.language as T
from tilegen.frontend import parse
from tilegen.ir.summary import summary

BLOCK = 32


def matmul(A, B, bias, C, epilogue="none", transpose=False, twice=False, initial=0.0):  # type: ignore[no-untyped-def]
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M) if transpose else (M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    bias: T.Tensor((N,), T.float16)
    C: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, BLOCK), T.ceildiv(M, BLOCK), threads=128) as (bx, by):
        a = T.alloc_shared((BLOCK, BLOCK), T.float16)
        b = T.alloc_shared((BLOCK, BLOCK), T.float16)
        c = T.alloc_fragment((BLOCK, BLOCK), T.float32)
        T.fill(c, initial)
        for k in T.Pipelined(T.ceildiv(K, BLOCK), num_stages=2):
            if transpose:
                T.copy(A[k * BLOCK, by * BLOCK], a)
            else:
                T.copy(A[by * BLOCK, k * BLOCK], a)
            T.copy(B[k * BLOCK, bx * BLOCK], b)
            T.gemm(a, b, c, transpose_A=transpose)
            if twice:
                T.gemm(a, b, c, transpose_A=transpose)
        if epilogue == "relu":
            for i, j in T.Parallel(BLOCK, BLOCK):
                c[i, j] = T.max(c[i, j], 0)
        if epilogue == "bias":
            for i, j in T.Parallel(BLOCK, BLOCK):
                c[i, j] = 2 * (c[i, j] + bias[bx * BLOCK + j])
        if epilogue == "index":
            for i, j in T.Parallel(BLOCK, BLOCK):
                c[i, j] = c[i, j] * j
        if epilogue == "atomic":
            T.atomic_add(C[by * BLOCK, bx * BLOCK], c)
        else:
            T.copy(c, C[by * BLOCK, bx * BLOCK])


SHAPES = {"A": ("M", "K"), "B": ("K", "N"), "bias": ("N",), "C": ("M", "N")}


def matmul_formula(**parameters: Any) -> str:
    shapes = dict(SHAPES, A=("K", "M")) if parameters.get("transpose") else SHAPES
    specs = {name: T.Tensor(shape, T.float32 if name == "C" else T.float16) for name, shape in shapes.items()}
    return summary(parse(matmul, specs, parameters))


@pytest.mark.parametrize(
    ("parameters", "formula"),
    [
        ({}, "C = A @ B"),
        ({"epilogue": "relu"}, "C = max(A @ B, 0)"),
        ({"epilogue": "bias"}, "C = 2 * (A @ B + bias)"),
        ({"epilogue": "atomic"}, "C += A @ B"),
        ({"transpose": True}, "C = A.T @ B"),
        ({"initial": 1.0}, "C = 1 + A @ B"),
    ],
)
def test_matrix_products(parameters: dict[str, Any], formula: str) -> None:
    assert matmul_formula(**parameters) == formula


@pytest.mark.parametrize("parameters", [{"twice": True}, {"epilogue": "index"}])
def test_what_a_formula_would_not_tell_is_left_out(parameters: dict[str, Any]) -> None:
    assert "=" not in matmul_formula(**parameters)


def rows(X, Y, work="softmax"):  # type: ignore[no-untyped-def]
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, BLOCK), threads=128) as bx:
        x = T.alloc_fragment((BLOCK, N), T.float32)
        top = T.alloc_fragment((BLOCK,), T.float32)
        T.copy(X[bx * BLOCK, 0], x)
        if work == "softmax":
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(BLOCK, N):
                x[i, j] = T.exp(x[i, j] - top[i])
        if work == "carried":
            for _ in T.serial(3):
                for i, j in T.Parallel(BLOCK, N):
                    x[i, j] = x[i, j] * 2
        if work == "masked":
            for i, j in T.Parallel(BLOCK, N):
                x[i, j] = T.if_then_else(j < 7, x[i, j], 0)
        if work == "shifted":
            for i, j in T.Parallel(BLOCK, N):
                x[i, j] = X[bx * BLOCK + i, j + 1]
        if work == "windows":
            for i, j in T.Parallel(BLOCK, N):
                x[i, j] = x[i, j] - X[i, j]
        if work == "part":
            for i in T.Parallel(BLOCK):
                x[i, 0] = 0
        T.copy(x, Y[bx * BLOCK, 0])


def rows_formula(program: Callable[..., Any], **parameters: Any) -> str:
    specs = {name: T.Tensor((64, 96), T.float32) for name in "XY"}
    return summary(parse(program, specs, parameters))


def test_reductions() -> None:
    assert rows_formula(rows) == "Y = exp(X - max(X))"
    assert rows_formula(rows, work="copy") == "Y = X"


@pytest.mark.parametrize("work", ["carried", "masked", "shifted", "windows", "part"])
def test_no_formula_for(work: str) -> None:
    assert "=" not in rows_formula(rows, work=work)


def transposed(X, Y):  # type: ignore[no-untyped-def]
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((N, M), T.float32)
    with T.Kernel(T.ceildiv(N, BLOCK), T.ceildiv(M, BLOCK), threads=128) as (bx, by):
        tile = T.alloc_shared((BLOCK, BLOCK), T.float32)
        T.copy(X[by * BLOCK, bx * BLOCK], tile)
        for i, j in T.Parallel(BLOCK, BLOCK):
            Y[bx * BLOCK + i, by * BLOCK + j] = tile[j, i]


def test_a_transposition() -> None:
    specs = {"X": T.Tensor((64, 96), T.float32), "Y": T.Tensor((96, 64), T.float32)}
    assert summary(parse(transposed, specs, {})) == "Y = X.T"
