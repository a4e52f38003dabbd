"""What the comment at a register array says of its indices, against the fragment that inference chose."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from emulation import generated, kernel_text

import tilegen.language as T

SAID = re.compile(r"// ((?:\[\w+\])+) is ((?:[^\n]*,\n *// )?[^\n]*)")


def attention_like(A, B, rows: int = 64, columns: int = 64, K: int = 64):  # type: ignore[no-untyped-def]
    """A product whose rows have maxima."""
    M, N = T.const("M, N")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    Y = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
        a = T.alloc_shared((rows, K), T.float16)
        b = T.alloc_shared((columns, K), T.float16)
        s = T.alloc_fragment((rows, columns), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        T.copy(A[bx * rows, 0], a)
        T.copy(B[0, 0], b)
        T.gemm(a, b, s, transpose_B=True, clear_accum=True)
        T.reduce_max(s, top, dim=1)
        T.copy(top, Y[bx * rows])
    return Y


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize("rows", [32, 64, 128])
def test_an_index_that_is_always_0_is_written_so(target: str, rows: int) -> None:
    arrays: list[Any] = [np.zeros((256, 64), np.float16), np.zeros((64, 64), np.float16)]
    files = generated(attention_like, target, arrays, rows=rows)
    fragments = files.decisions.fragments
    found = SAID.findall(kernel_text(files))
    assert len(found) == 2
    for name, (indices, said) in zip(("s", "top"), found, strict=True):
        assert set(re.findall(r"\b(?:mi|ni|r)\b", said)) <= set(re.findall(r"\w+", indices))
        for index, extent in zip(re.findall(r"\w+", indices), fragments[name].register_shape, strict=True):
            assert (index == "0") == (extent == 1)
            assert index == "0" or re.search(rf"\b{index}\b", said)
