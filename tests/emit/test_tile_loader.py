"""The helper that loads whole tiles is a fixed point of clang-format for tensors of every rank."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable

import pytest
from clang_format_tool import clang_format

import tilegen
import tilegen.language as T


@tilegen.jit
def two_products(Q, K, V, rank: int = 2, shifted: bool = False):
    """(Q K^T) V of tensors with axes of extent 1 in front; `shifted` tiles begin behind the first column."""
    ones = (1,) * (rank - 2)
    columns = 256 if shifted else 128
    Q: T.Tensor((*ones, 256, columns), T.float16)
    K: T.Tensor((*ones, 512, columns), T.float16)
    V: T.Tensor((*ones, 512, columns), T.float16)
    O = T.empty((256, 128), T.float16)
    with T.Kernel(2, threads=256) as bx:
        q = T.alloc_shared((128, 128), T.float16)
        k = T.alloc_shared((128, 128), T.float16)
        v = T.alloc_shared((128, 128), T.float16)
        s = T.alloc_fragment((128, 128), T.float32)
        p = T.alloc_fragment((128, 128), T.float16)
        o = T.alloc_fragment((128, 128), T.float32)
        at = 128 * (bx % 2) if shifted else 0
        T.copy(Q[..., bx * 128 : bx * 128 + 128, at : at + 128], q)
        T.clear(o)
        for j in T.Pipelined(4, num_stages=2):
            T.copy(K[..., j * 128 : j * 128 + 128, at : at + 128], k)
            T.gemm(q, k, s, transpose_B=True, clear_accum=True)
            T.copy(s, p)
            T.copy(V[..., j * 128 : j * 128 + 128, at : at + 128], v)
            T.gemm(p, v, o)
        T.copy(o, O[bx * 128, 0])
    return O


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_its_loop_is_as_the_formatter_wants_it(
    rank: int, shifted: bool, require_tool: Callable[[str], None]
) -> None:
    text = two_products.emit(target="sm_90a", rank=rank, shifted=shifted).source
    assert "void load_tile(" in text
    assert clang_format(require_tool, text) == text
