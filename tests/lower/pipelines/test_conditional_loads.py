"""Pipelined loops that load or compute only in some iterations, or as often as memory says."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import Array, generated, relative_error

import tilegen.language as T
from tilegen.emulate import run

BLOCK = 64


def product(kind):
    """Y[h, i] = sum over k of X[h, i, k] @ W[h, k], of blocks that `kind` says."""

    def program(X, W, Chosen, block=BLOCK):
        H, N, D, n = T.const("H, N, D, n")
        X: T.Tensor((H, N, N), T.float16)
        W: T.Tensor((H, N, D), T.float16)
        Chosen: T.Tensor((H, n, n), T.int32)
        Y = T.empty((H, N, D), T.float16)
        with T.Kernel(T.ceildiv(N, block), H, threads=128) as (i, h):
            X_shared = T.alloc_shared((block, block), T.float16)
            turned = T.alloc_shared((block, block), T.float16)
            W_shared = T.alloc_shared((block, D), T.float16)
            chosen = T.alloc_shared((n,), T.int32)
            total = T.alloc_fragment((block, D), T.float32)
            T.clear(total)
            for j in T.Parallel(n):
                chosen[j] = Chosen[h, i, j]
            trips = T.alloc_var(T.int32, n)
            if kind == "as many as memory says":
                trips = Chosen[h, i, 1] * 3
            if kind == "as many as a variable says":
                trips = trips - i + i
            bound = n
            if kind == "as many as a shared tile says":
                bound = chosen[1] * 3
            if kind in ("as many as memory says", "as many as a variable says"):
                bound = trips
            for k in T.Pipelined(bound, num_stages=3):
                if kind == "both in an if":
                    if k <= i:
                        T.copy(X[h, i * block, k * block], X_shared)
                        T.copy(W[h, k * block, 0], W_shared)
                        T.gemm(X_shared, W_shared, total)
                elif kind == "this or that":
                    T.copy(W[h, k * block, 0], W_shared)
                    if k <= i:
                        T.copy(X[h, i * block, k * block], X_shared)
                        T.gemm(X_shared, W_shared, total)
                    else:
                        T.copy(X[h, k * block, i * block], turned)
                        T.gemm(turned, W_shared, total, transpose_A=True)
                elif kind == "only the gemm in an if":
                    T.copy(X[h, i * block, k * block], X_shared)
                    T.copy(W[h, k * block, 0], W_shared)
                    if k <= i:
                        T.gemm(X_shared, W_shared, total)
                elif kind == "the load in an if":
                    T.copy(W[h, k * block, 0], W_shared)
                    if k % 2 == 0:
                        T.copy(X[h, i * block, k * block], X_shared)
                    T.gemm(X_shared, W_shared, total)
                elif kind in ("where memory says", "where a shared tile says"):
                    if (Chosen[h, i, k] if kind == "where memory says" else chosen[k]) > 0:
                        T.copy(X[h, i * block, k * block], X_shared)
                        T.copy(W[h, k * block, 0], W_shared)
                        T.gemm(X_shared, W_shared, total)
                else:
                    T.copy(X[h, i * block, k * block], X_shared)
                    T.copy(W[h, k * block, 0], W_shared)
                    T.gemm(X_shared, W_shared, total)
            T.copy(total, Y[h, i * block, 0])
        return Y

    return program


def _factors(kind: str, chosen: Array, h: int, i: int, k: int) -> tuple[int, int]:
    """How often the block counts, and which block of X stands in its place."""
    match kind:
        case "both in an if" | "only the gemm in an if":
            return int(k <= i), k
        case "the load in an if":
            return 1, k - k % 2
        case "where memory says" | "where a shared tile says":
            return int(chosen[h, i, k]), k
        case "as many as memory says" | "as many as a shared tile says":
            return int(k < 3 * chosen[h, i, 1]), k
        case _:
            return 1, k


KINDS = {
    "both in an if": True,
    "this or that": True,
    "only the gemm in an if": True,
    "the load in an if": False,
    "where memory says": True,
    "where a shared tile says": False,
    "as many as memory says": False,
    "as many as a shared tile says": False,
    "as many as a variable says": False,
}


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_computed(kind: str, target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(len(kind))
    x = rng.standard_normal((2, 256, 256)).astype(np.float16)
    w = rng.standard_normal((2, 256, 64)).astype(np.float16)
    chosen = rng.integers(0, 2, (2, 4, 4)).astype(np.int32)
    expected = np.zeros(w.shape)
    blocks = [slice(BLOCK * k, BLOCK * (k + 1)) for k in range(4)]
    for h, i, k in np.ndindex(2, 4, 4):
        count, at = _factors(kind, chosen, h, i, k)
        tile = x[h, blocks[i], blocks[at]]
        if kind == "this or that" and k > i:
            tile = x[h, blocks[k], blocks[i]].T
        expected[h, blocks[i]] += count * (tile.astype(np.float64) @ w[h, blocks[k]])
    files = generated(product(kind), target, [x, w, chosen])
    if target == "sm_90a":
        assert (files.plan.kind == "warp_specialised") == KINDS[kind]
    for schedule, asynchronous in (("fifo", "eager"), ("reverse", "lazy"), ("random", "random")):
        options = {"schedule": schedule, "asynchronous": asynchronous, "seed": 3}
        found = run(files.source, files.manifest, [x, w, chosen], **options)
        assert relative_error(found, expected) < 1e-3
