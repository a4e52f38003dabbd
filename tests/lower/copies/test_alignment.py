"""The alignment that a file demands of a tensor is that of its widest access; the emulator grants no more."""

# mypy: ignore-errors

import json

import numpy as np
import pytest
from emulation import emulated, generated

import tilegen
import tilegen.language as T
from tilegen.emulate import EmulationError, run


def widths(X, block=512):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((M, N), T.float16)
    sums = T.empty((M,), T.float32)
    with T.Kernel(M, threads=64) as by:
        x = T.alloc_fragment((block,), T.float16)
        total = T.alloc_fragment((1,), T.float32)
        wide = T.alloc_fragment((block,), T.float32)
        T.copy(X[by, 0], x)
        T.copy(x, wide)
        T.reduce_sum(wide, total)
        T.copy(x, Y[by, 0])
        for i in T.Parallel(1):
            sums[by + i] = total[0]
    return Y, sums


def turned(X, block=64):
    """Through shared memory, and as a product."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        left = T.alloc_shared((block, block), T.float16)
        right = T.alloc_shared((block, block), T.float16)
        total = T.alloc_fragment((block, block), T.float32)
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(N, block), num_stages=2):
            T.copy(X[by * block, k * block], left)
            T.copy(X[k * block, bx * block], right)
            T.gemm(left, right, total)
        T.copy(total, Y[by * block, bx * block])
    return Y


@pytest.mark.parametrize(("size", "expected"), [(128, 16), (132, 8), (130, 4), (131, 2)])
@pytest.mark.parametrize("target", ["sm_80", "gfx90a", "gfx942", "gfx950"])
def test_tiles_ask_for_no_more_than_their_rows_allow(require_tool, target, size, expected):
    require_tool("host_compiler")
    x = np.random.default_rng(1).integers(-2, 3, (size, size)).astype(np.float16)
    files = generated(turned, target, [x])
    found = {tensor.name: tensor.alignment for tensor in files.manifest.tensors}
    assert found["X"] == expected >= found["Y"]
    (found,) = emulated(turned, target, [x])
    np.testing.assert_array_equal(found, (x.astype(np.float64) @ x).astype(np.float16))


def test_copies_that_stay_behind_for_one_reason_share_a_line():
    files = generated(turned, "sm_90a", [np.zeros((131, 131), np.float16)])
    header = files.source.partition("#include")[0].replace("\n//            ", " ")
    assert header.count("not even 4 bytes are aligned in both places") == 1
    assert " and test_alignment.py:" in header and "load no tile ahead: not even" in header


CASES = [(512, {"X": 16, "Y": 16}), (506, {"X": 4, "Y": 4}), (508, {"X": 8, "Y": 8}), (511, {"X": 2, "Y": 2})]


@pytest.mark.parametrize(("columns", "expected"), CASES)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_it_is_that_of_the_widest_access(require_tool, target, columns, expected):
    require_tool("host_compiler")
    x = np.random.default_rng(0).standard_normal((5, columns)).astype(np.float16)
    files = generated(widths, target, [x])
    found = {tensor.name: tensor.alignment for tensor in files.manifest.tensors}
    assert found["sums"] == 4
    assert {name: found[name] for name in expected} == expected
    assert "sums  fp32 [5] contiguous\n" in files.source
    y, sums = emulated(widths, target, [x])
    np.testing.assert_array_equal(y, x)
    np.testing.assert_allclose(sums, x.astype(np.float32).sum(1), rtol=1e-3, atol=1e-2)


def test_the_emulator_finds_an_alignment_that_is_stated_too_small(require_tool):
    require_tool("host_compiler")
    x = np.ones((5, 512), np.float16)
    files = generated(widths, "sm_80", [x])
    manifest = files.manifest.to_json().replace('"alignment": 16', '"alignment": 8')
    with pytest.raises(EmulationError, match=r"misaligned|not a multiple"):
        run(files.source, json.loads(manifest), [x])


def test_a_view_is_accepted_where_accesses_are_narrow(require_tool):
    require_tool("host_compiler")
    base = (np.arange(5 * 511 + 1) % 7).astype(np.float16)
    view = base[1:].reshape(5, 511)
    y, _ = tilegen.jit(target="sm_80")(widths)(view)
    np.testing.assert_array_equal(y, view)
