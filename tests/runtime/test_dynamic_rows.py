"""Rows of dynamic length that are no whole 16-byte units: calls fall back to a text for any length."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.calls.arrays import ArrayFacts
from tilegen.calls.binding import ContractError, bind_shapes
from tilegen.manifest import Manifest
from tilegen.runtime.profiler import ProfileError

m, n, lane = T.dynamic("m"), T.dynamic("n"), T.dynamic("lane")


@tilegen.jit(target="sm_90a")
def doubled(A, block: int = 16):
    A: T.Tensor((m, n), T.float16)
    B = T.empty((m, n), T.float16)
    with T.Kernel(T.ceildiv(m, block), threads=128) as bx:
        tile = T.alloc_shared((block, 64), T.float16)
        for k in T.Pipelined(T.ceildiv(n, 64), num_stages=2):
            T.copy(A[bx * block, k * 64], tile)
            for i, j in T.Parallel(block, 64):
                tile[i, j] = tile[i, j] * 2
            T.copy(tile, B[bx * block, k * 64])
    return B


@tilegen.jit(out_idx=-1, target="sm_90a")
def lazy_doubled(block=16):
    @T.prim_func
    def main(A: T.Tensor((m, n), T.float16), B: T.Tensor((m, n), T.float16)):
        with T.Kernel(T.ceildiv(m, block), threads=128) as bx:
            tile = T.alloc_shared((block, 64), T.float16)
            for k in T.Pipelined(T.ceildiv(n, 64), num_stages=2):
                T.copy(A[bx * block, k * 64], tile)
                for i, j in T.Parallel(block, 64):
                    tile[i, j] = tile[i, j] * 2
                T.copy(tile, B[bx * block, k * 64])

    return main


@tilegen.jit(target="sm_80")
def of_a_hidden_name(A, B):
    """The text wants `lane` for itself, and calls the extent otherwise."""
    A: T.Tensor((lane, 64), T.float16)
    B: T.Tensor((64, lane), T.float16)
    C = T.empty((lane, lane), T.float16)
    with T.Kernel(T.ceildiv(lane, 64), T.ceildiv(lane, 64), threads=128) as (bx, by):
        left = T.alloc_shared((64, 64), T.float16)
        right = T.alloc_shared((64, 64), T.float16)
        total = T.alloc_fragment((64, 64), T.float32)
        T.copy(A[by * 64, 0], left)
        T.copy(B[0, bx * 64], right)
        T.gemm(left, right, total, clear_accum=True)
        T.copy(total, C[by * 64, bx * 64])
    return C


def halves(*shape):
    return np.arange(np.prod(shape), dtype=np.float16).reshape(shape) % 16


@pytest.mark.parametrize(
    "kernel", [doubled, lazy_doubled(), doubled.compile()], ids=["eager", "lazy", "compiled"]
)
def test_rows_of_any_length_run(require_tool, kernel):
    require_tool("host_compiler")
    for columns in (64, 61, 7):
        a = halves(20, columns)
        np.testing.assert_array_equal(kernel(a), a * 2)
    if kernel is doubled:
        assert {key[-1] for key in kernel._texts.emissions} == {True, False}
    assert kernel is doubled or len(kernel._emissions) == 2


def test_the_fast_text_keeps_its_assumption():
    assumed = doubled.emit().manifest.requirements
    assert "n % 8 == 0" in [requirement.text for requirement in assumed]


def _facts(*shape):
    strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
    return ArrayFacts("numpy", "cpu", "float16", shape, strides, 16)


def test_messages_have_the_programs_own_names():
    manifest = of_a_hidden_name.emit().manifest
    (symbol,) = manifest.symbols
    assert symbol != "lane" and manifest.called == {symbol: "lane"}
    assert Manifest.from_json(manifest.to_json()) == manifest
    with pytest.raises(ContractError) as caught:
        bind_shapes(manifest, {0: _facts(61, 64), 1: _facts(64, 61)}, {})
    assert "expected lane % 8 == 0, got lane = 61" in str(caught.value)
    assert "emit(dims={'lane': 61})" in str(caught.value)
    of_a_hidden_name.emit(dims={"lane": 61})
    with pytest.raises(ProfileError, match="the extent lane is open: pass lane=…"):
        tilegen.runtime.profiler.Profiler(_Kernel(manifest)).do_bench()


class _Kernel:
    def __init__(self, manifest):
        self.manifest, self.name = manifest, manifest.kernel


def test_manifests_without_such_names_do_not_mention_them():
    assert '"called"' not in doubled.emit().manifest.to_json()
