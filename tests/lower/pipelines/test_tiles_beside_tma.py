"""Small tiles in rings that TMA fills, and tiles that it cannot load outside of the pipelined loop: neither costs the
kernel its producer."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import emulated, generated, relative_error

import tilegen.language as T

SCHEDULES = (
    {},
    {"schedule": "reverse", "asynchronous": "lazy"},
    {"schedule": "random", "asynchronous": "random"},
)
WAYS = ["an operand", "a branch", "a serial loop", "odd rows", "behind the loop", "a small tile in the ring"]


def program(way: str, persistent: bool):
    def kernel(A, B, W, V, F):
        M, N, K, G = T.const("M, N, K, G")
        A: T.Tensor((M, K), T.float16)
        B: T.Tensor((K, N), T.float16)
        W: T.Tensor((M, 64), T.float32)
        V: T.Tensor((M, G), T.float16)
        F: T.Tensor((3, K), T.float16)
        C = T.empty((M, N), T.float16)
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128, persistent=persistent) as (bx, by):
            a = T.alloc_shared((64, 32), T.float16)
            b = T.alloc_shared((32, 64), T.float16)
            w = T.alloc_shared((64, 64), T.float16)
            v = T.alloc_shared((64, 48), T.float16)
            f = T.alloc_shared((3, 32), T.float16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.clear(c)
            if way == "an operand":
                T.copy(W[by * 64, 0], w)
            if way == "a branch":
                if bx % 2 == 0:
                    T.copy(W[by * 64, 0], w)
                else:
                    T.fill(w, 1)
            if way == "a serial loop":
                for g in T.serial(T.ceildiv(G, 48)):
                    T.copy(V[by * 64, g * 48], v)
                    for i, j in T.Parallel(64, 64):
                        c[i, j] += v[i, j % 48]
            if way == "odd rows":
                T.copy(V[by * 64, 0], v)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
                T.copy(A[by * 64, k * 32], a)
                T.copy(B[k * 32, bx * 64], b)
                if way == "a small tile in the ring":
                    T.copy(F[0, k * 32], f)
                    for i, j in T.Parallel(64, 64):
                        c[i, j] += f[2, j % 32]
                T.gemm(a, b, c)
                if way == "an operand":
                    T.gemm(w[:, :32], b, c)
            if way == "behind the loop":
                T.copy(W[by * 64, 0], w)
            for i, j in T.Parallel(64, 64):
                if way == "odd rows":
                    c[i, j] *= v[i, j % 48]
                if way in ("a branch", "behind the loop"):
                    c[i, j] *= w[i, j]
            T.copy(c, C[by * 64, bx * 64])
        return C

    return kernel


def expected(way: str, a, b, w, v, f):
    a, b, w, v, f = (x.astype(np.float64) for x in (a, b, w, v, f))
    c, column = a @ b, np.arange(b.shape[1])
    if way == "an operand":
        c += sum(w[:, :32] @ b[k : k + 32] for k in range(0, len(b), 32))
    if way == "a serial loop":
        v = np.pad(v, ((0, 0), (0, 96 - v.shape[1])))
        c += v[:, column % 64 % 48] + v[:, 48 + column % 64 % 48]
    if way == "odd rows":
        c *= v[:, column % 64 % 48]
    if way in ("a branch", "behind the loop"):
        c *= np.where((column // 64 % 2 == 0) | (way == "behind the loop"), w[:, column % 64], 1)
    if way == "a small tile in the ring":
        c += sum(f[2, k + column % 32] for k in range(0, len(b), 32))
    return c


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_the_producer_stays(way: str, persistent: bool, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(8)
    shapes = ((192, 128), (128, 320), (192, 64), (192, 53), (3, 128))
    arrays = [
        rng.integers(-3, 4, shape).astype(np.float32 if i == 2 else np.float16)
        for i, shape in enumerate(shapes)
    ]
    made = generated(program(way, persistent), "sm_90a", arrays)
    assert made.plan.kind == "warp_specialised"
    if way == "a small tile in the ring":
        assert "half f[kStages][4][32];" in made.source
    else:
        assert "the consumers load it" in " ".join(made.source.replace("//", " ").split())
    for options in SCHEDULES:
        (found,) = emulated(program(way, persistent), "sm_90a", arrays, options)
        assert relative_error(found, expected(way, *arrays)) < 1e-3
