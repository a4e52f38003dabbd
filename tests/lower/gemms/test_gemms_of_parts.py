"""T.gemm of parts of shared tiles: columns, rows, one matrix of several."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.cli.loading import load_kernel
from tilegen.diagnostics import ProgramError

TARGETS = ("sm_80", "sm_90a", "gfx942")
RNG = np.random.default_rng(5)


@tilegen.jit
def in_parts(A, B, columns, first, transpose_A=False, transpose_B=False):
    P, Q, R, S = T.const("P, Q, R, S")
    A: T.Tensor((P, Q), T.float16)
    B: T.Tensor((R, S), T.float16)
    N = R if transpose_B else S
    M, K = (Q, P) if transpose_A else (P, Q)
    C = T.empty((M, N), T.float32)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((P, Q), T.float16)
        b = T.alloc_shared((R, S), T.float16)
        c = T.alloc_fragment((M, N), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        for k in T.serial((K - first) // columns):
            at = first + k * columns
            if transpose_A and transpose_B:
                T.gemm(a[at : at + columns, :], b[:, at : at + columns], c, True, True)
            elif transpose_A:
                T.gemm(a[at : at + columns, :], b[at : at + columns, :], c, True, False)
            elif transpose_B:
                T.gemm(a[:, at : at + columns], b[:, at : at + columns], c, False, True)
            else:
                T.gemm(a[:, at : at + columns], b[at : at + columns, :], c)
        T.copy(c, C)
    return C


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transpose_A", [False, True])
@pytest.mark.parametrize("transpose_B", [False, True])
@pytest.mark.parametrize(("columns", "first"), [(16, 0), (32, 96)])
def test_parts_along_k(require_tool, target, transpose_A, transpose_B, columns, first):
    require_tool("host_compiler")
    a, b = (RNG.integers(-4, 5, shape).astype(np.float16) for shape in ((64, 128), (128, 64)))
    result = in_parts.for_target(target)(
        np.ascontiguousarray(a.T) if transpose_A else a,
        np.ascontiguousarray(b.T) if transpose_B else b,
        columns,
        first,
        transpose_A=transpose_A,
        transpose_B=transpose_B,
    )
    np.testing.assert_array_equal(result, a[:, first:].astype(np.float32) @ b[first:].astype(np.float32))


@tilegen.jit
def batched(A, B, block_K: int = 32):
    batch, M, N, K = T.const("batch, M, N, K")
    A: T.Tensor((batch, M, K), T.float16)
    B: T.Tensor((batch, K, N), T.float16)
    C = T.empty((batch, M, N), T.float32)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        a = T.alloc_shared((batch, 64, block_K), T.float16)
        b = T.alloc_shared((batch, block_K, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        for i in T.serial(batch):
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[i, by * 64, k * block_K], a[i, :, :])
                T.copy(B[i, k * block_K, bx * 64], b[i, :, :])
                T.gemm(a[i, :, :], b[i, :, :], c)
            T.copy(c, C[i, by * 64, bx * 64])
    return C


@pytest.mark.parametrize("target", TARGETS)
def test_one_matrix_of_several(require_tool, target):
    require_tool("host_compiler")
    a, b = (RNG.integers(-4, 5, shape).astype(np.float16) for shape in ((3, 70, 40), (3, 40, 72)))
    result = batched.for_target(target)(a, b)
    np.testing.assert_array_equal(result, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_columns_that_ldmatrix_cannot_begin_at_are_refused(target):
    with pytest.raises(ProgramError, match="this part of a may begin between two reads"):
        in_parts.emit(
            T.Tensor((64, 64), T.float16), T.Tensor((64, 64), T.float16), target=target, columns=16, first=4
        )


def test_columns_between_two_reads_are_gathered(require_tool):
    require_tool("host_compiler")
    a, b = (RNG.integers(-4, 5, (64, 64)).astype(np.float16) for _ in range(2))
    result = in_parts.for_target("gfx942")(a, b, 16, 2)
    np.testing.assert_array_equal(result, a[:, 2:50].astype(np.float32) @ b[2:50].astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("operands", "sentence"),
    [
        (("f[:, 0:32]", "b[0:32, :]", "c"), "T.gemm takes whole fragments, but this is a part of f"),
        (("a", "b", "w[:, 64:128]"), "T.gemm takes whole fragments, but this is a part of w"),
        (
            ("d[:, 1, :]", "b", "c"),
            "T.gemm takes matrices of a shared tile's last two axes, but this one of d has others",
        ),
    ],
)
def test_other_parts_are_refused_where_they_stand(target, operands, sentence, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(*operands))
    with pytest.raises(ProgramError) as refused:
        load_kernel(str(path)).emit(
            T.Tensor((64, 64), T.float16), T.Tensor((64, 64), T.float16), target=target
        )
    assert refused.value.message == sentence
    assert refused.value.location.text.startswith("T.gemm(")


PROGRAM = """import tilegen
import tilegen.language as T


@tilegen.jit
def product(A, B):
    A: T.Tensor((64, 64), T.float16)
    B: T.Tensor((64, 64), T.float16)
    C = T.empty((64, 64), T.float32)
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        d = T.alloc_shared((64, 2, 64), T.float16)
        f = T.alloc_fragment((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        w = T.alloc_fragment((64, 128), T.float32)
        T.copy(A, a)
        T.copy(A, f)
        T.copy(A, d[:, 1, :])
        T.copy(B, b)
        T.clear(c)
        T.clear(w)
        T.gemm({}, {}, {})
        T.copy(c, C)
    return C
"""
