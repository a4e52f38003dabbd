"""Pipelined loops whose tiles go straight to registers: unrolled as often as the program asks for stages."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulation import generated, relative_error

import tilegen.language as T
from tilegen.emulate import run


def row_sums(X, stages=4, through="fragment", block: int = 256, threads: int = 64):
    """Y[i] = the sum of row i, a block of columns at a time."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((M,), T.float32)
    with T.Kernel(M, threads=threads) as bx:
        x = T.alloc_fragment((1, block), T.float16)
        y = T.alloc_shared((1, block), T.float16)
        wide = T.alloc_fragment((1, block), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.clear(wide)
        for k in T.Pipelined(T.ceildiv(N, block), num_stages=stages):
            T.copy(X[bx, k * block], x)
            if through == "a barrier":
                T.sync_threads()
            if through == "shared":
                T.copy(x, y)
                for i, j in T.Parallel(1, block):
                    x[i, j] = y[i, block - 1 - j]
            for i, j in T.Parallel(1, block):
                wide[i, j] += T.cast(x[i, j], T.float32)
        T.reduce_sum(wide, total, dim=1)
        T.copy(total, Y[bx])
    return Y


@pytest.mark.parametrize(
    ("columns", "parameters", "pragma", "said"),
    [
        (2048, {}, "#pragma unroll 4", "unrolled 4 times, so that the loads of 4 iterations start at once"),
        (1000, {}, "#pragma unroll", "unrolled, so that the loads of all iterations start first"),
        (2048, {"stages": 1}, "", ""),
        (2048, {"stages": None}, "", ""),
        (2048, {"through": "shared"}, "", ""),
        (2048, {"through": "a barrier"}, "", ""),
    ],
)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_as_often_as_there_are_stages(
    target: str, columns: int, parameters: dict, pragma: str, said: str, require_tool: Callable[[str], None]
) -> None:
    require_tool("host_compiler")
    x = np.random.default_rng(1).standard_normal((3, columns)).astype(np.float16)
    files = generated(row_sums, target, [x], **parameters)
    lines = files.source.splitlines()
    above = lines[next(at for at, line in enumerate(lines) if "for (int k = 0" in line) - 1]
    assert above == pragma or (not pragma and "pragma" not in above)
    assert (f"loop k: {said}" in files.source) if said else "loop k: unrolled" not in files.source
    found = run(files.source, files.manifest, [x], schedule="random", seed=1)
    assert relative_error(found, x.astype(np.float64).sum(1)) < 1e-5
