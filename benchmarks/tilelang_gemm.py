"""The quick start in TileLang, where it is installed: the same program, word for word where the two languages allow."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tilelang
import tilelang.language as T


@tilelang.jit
def _program(M, N, K, block_M, block_N, block_K, num_stages, threads, dtype, relu, panel):
    @T.prim_func
    def matmul(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float")
            T.use_swizzle(panel_size=panel, enable=panel > 0)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            if relu:
                for i, j in T.Parallel(block_M, block_N):
                    C_local[i, j] = T.max(C_local[i, j], 0)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return matmul


_TILES = ((128, 256, 64, 3, 256), (128, 128, 64, 4, 128), (256, 128, 64, 3, 256), (128, 128, 32, 3, 128))


def quick_start(a: Any, b: Any, c: Any) -> dict[str, Callable[[], Callable[[], Any]]]:
    """What makes a launch of the quick start as written."""
    return {"as written": _making(a, b, c, (128, 128, 32, 3, 128), True, 0)}


def candidates(a: Any, b: Any, c: Any) -> dict[str, Callable[[], Callable[[], Any]]]:
    """What makes a launch of C = A · B, for a few schedules."""
    return {
        f"{tile[0]}x{tile[1]}x{tile[2]} s{tile[3]} t{tile[4]}": _making(a, b, c, tile, False, 8)
        for tile in _TILES
    }


def _making(
    a: Any, b: Any, c: Any, tile: tuple[int, int, int, int, int], relu: bool, panel: int
) -> Callable[[], Callable[[], Any]]:
    def make() -> Callable[[], Any]:
        dtype = str(a.dtype).removeprefix("torch.")
        kernel = _program(a.shape[0], b.shape[1], a.shape[1], *tile, dtype, relu, panel)
        return lambda: kernel(a, b, c)

    return make
