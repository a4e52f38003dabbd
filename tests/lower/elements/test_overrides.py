"""What a program asks of layouts and loops is followed, refused, or said not to be followed."""

# mypy: ignore-errors

from collections.abc import Callable

import numpy as np
import pytest
from emulation import emulated, generated, relative_error

import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.operations import row_major, swizzled

A, B = (np.random.default_rng(0).standard_normal((128, 128)).astype(np.float16) for _ in "AB")


def product(A, B, order=None, stage=None, which="", layout=None):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(N // 64, M // 64, threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 64), T.float16)
        B_shared = T.alloc_shared((64, 64), T.float16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        if which:
            tile = A if which == "A" else A_shared if which == "A_shared" else C_local
            T.annotate_layout({tile: layout})
        T.clear(C_local)
        for k in T.Pipelined(K // 64, num_stages=2, order=order, stage=stage):
            T.copy(A[by * 64, k * 64], A_shared)
            T.copy(B[k * 64, bx * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * 64, bx * 64])
    return C


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_the_header_says_what_becomes_of_order_and_stage(
    require_tool: Callable[[str], None], target: str
) -> None:
    require_tool("host_compiler")
    assert "given, so that" not in generated(product, target, [A, B]).source
    plain = " ".join(generated(product, target, [A, B], stage=[0, 0, 0]).source.split())
    assert "loop k: stage given, so that its statements run as they stand" in plain.replace("// ", "")
    options = {"order": [1, 0, 2], "stage": [0, 0, 1]}
    asked = " ".join(generated(product, target, [A, B], **options).source.split()).replace("// ", "")
    assert (
        "order and stage given, so that its statements run as they stand; iterations overlap in loads"
        in asked
    )
    (found,) = emulated(product, target, [A, B], {"schedule": "random"}, **options)
    assert relative_error(found, A.astype(float) @ B.astype(float)) < 1e-3


REFUSED = [
    ("C_local", row_major((64, 64), T.float32), "C_local lies in fragment memory", "follows from"),
    ("A", row_major((128, 128), T.float16), "A lies in global memory", "T.StridedTensor"),
    ("A_shared", row_major((64, 32), T.float16), r"A_shared is \[64, 64\] of float16, but", "for the tile's"),
    ("A_shared", swizzled((64, 64), T.float32), r"its layout is for \[64, 64\] of float32", "for the tile's"),
    ("A_shared", "swizzled", "A_shared cannot have the layout swizzled", "row_major or swizzled"),
]


@pytest.mark.parametrize(("which", "layout", "message", "remedy"), REFUSED)
def test_layouts_that_cannot_be_followed_are_refused(which, layout, message, remedy):
    with pytest.raises(ProgramError, match=message) as refused:
        generated(product, "sm_80", [A, B], which=which, layout=layout)
    assert remedy in refused.value.remedy
    assert refused.value.location.text.startswith("T.annotate_layout(")
