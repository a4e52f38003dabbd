"""Allocations that nothing uses, copies for nobody, control flow around nothing."""

# mypy: ignore-errors

from typing import Any

import numpy as np
import pytest

import tilegen.language as T
from tilegen.driver import generate
from tilegen.emulate import run
from tilegen.frontend import parse
from tilegen.ir.drop_unused import drop_unused
from tilegen.toolchain import build_cuda


def copies(X, spare: bool = False):
    X: T.Tensor((64, 64), T.float32)
    Y = T.empty((64, 64), T.float32)
    with T.Kernel(1, threads=64):
        x = T.alloc_fragment((64, 64), T.float32)
        if spare:
            T.alloc_fragment((64, 64), T.float32)
            y = T.alloc_shared((64, 64), T.float32)
            T.annotate_layout({y: None})
        T.copy(X, x)
        T.copy(x, Y)
    return Y


def test_only_what_is_used_stays() -> None:
    plain = parse(copies, {}, {})
    assert drop_unused(plain) is plain
    kept = drop_unused(parse(copies, {}, {"spare": True})).kernel
    assert [buffer.name for buffer in kept.allocations] == ["x"]
    assert kept.annotations == ()


def product(A, B, spare: str = ""):
    """C = A · B with something beside it that nobody asks for."""
    A: T.Tensor((64, 256), T.float16)
    B: T.Tensor((256, 64), T.float16)
    C = T.empty((64, 64), T.float32)
    order = (1, 0, 2, 3, 4) if spare == "ordered" else None
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), T.float16)
        b = T.alloc_shared((32, 64), T.float16)
        d = T.alloc_shared((32, 64), T.float16)
        d_local = T.alloc_fragment((32, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        if spare == "chain":
            T.copy(B[0, 0], d)
            T.copy(d, d_local)
        for k in T.Pipelined(8, num_stages=2, order=order):
            if spare in ("load", "ordered"):
                T.copy(B[k * 32, 0], d)
            if spare == "branch":
                if k > 3:
                    T.fill(d_local, 0)
                else:
                    T.copy(B[k * 32, 0], d)
            T.copy(A[0, k * 32], a)
            T.copy(B[k * 32, 0], b)
            T.gemm(a, b, c)
            for i, j in T.Parallel(64, 64):
                if spare == "something":
                    c[i, j] += 1
        T.copy(c, C)
    return C


SPARE = ("load", "ordered", "chain", "branch", "nothing")


@pytest.mark.parametrize("spare", SPARE)
def test_what_nobody_reads_is_not_copied(spare: str) -> None:
    kernel = drop_unused(parse(product, {}, {"spare": spare})).kernel
    assert [buffer.name for buffer in kernel.allocations] == ["a", "b", "c"]
    (loop,) = (statement for statement in kernel.body if hasattr(statement, "kind"))
    assert len(loop.body) == 3 and loop.order == ((0, 2, 3) if spare == "ordered" else None)


def test_a_branch_with_nothing_to_do_is_turned_round() -> None:
    def one_side(X):
        X: T.Tensor((64, 64), T.float32)
        Y = T.empty((64, 64), T.float32)
        with T.Kernel(2, threads=64) as bx:
            x = T.alloc_fragment((64, 64), T.float32)
            T.copy(X, x)
            if bx > 0:
                T.copy(X, T.alloc_shared((64, 64), T.float32))
            else:
                T.copy(x, Y)
        return Y

    (_, branch) = drop_unused(parse(one_side, {}, {})).kernel.body
    assert len(branch.then) == 1 and branch.otherwise == ()


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("spare", ["load", "branch", "nothing"])
def test_nobody_waits_for_it(spare: str, target: str, require_tool: Any) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((64, 256), (256, 64)))
    files = generate(parse(product, {}, {"spare": spare}), target)
    said = [reason for reason in files.plan.reasons if "left out, nothing reads d" in reason]
    assert bool(said) == (spare != "nothing") and all(reason in files.source for reason in said)
    found = run(files.source, files.manifest, [a, b], schedule="reverse", asynchronous="lazy")
    np.testing.assert_allclose(found, a.astype(np.float64) @ b.astype(np.float64), atol=1e-3)


def heads(X, A, S):
    """Fragments that stand in conditions alone, and a shared tile that stands in a loop's bound."""
    X: T.Tensor((16, 256), T.float32)
    A: T.Tensor((16,), T.float32)
    S: T.Tensor((4,), T.int32)
    Y = T.empty((16, 256), T.float32)
    with T.Kernel(1, threads=128):
        x = T.alloc_fragment((16, 256), T.float32)
        a = T.alloc_fragment((16,), T.float32)
        s = T.alloc_shared((4,), T.int32)
        T.copy(X, x)
        T.copy(A, a)
        T.copy(S, s)
        for _ in T.serial(s[1]):
            for i, j in T.Parallel(16, 256):
                if a[i] > 0:
                    x[i, j] += 1
        T.copy(x, Y)
    return Y


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
def test_what_conditions_and_bounds_read_is_kept(target: str, require_tool: Any) -> None:
    require_tool("host_compiler")
    rng = np.random.default_rng(1)
    x, a = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 256), (16,)))
    files = generate(parse(heads, {}, {}), target)
    assert not any("left out" in reason for reason in files.plan.reasons)
    found = run(files.source, files.manifest, [x, a, np.array([0, 3, 0, 0], np.int32)])
    expected = x.copy()
    for _ in range(3):
        expected += np.float32(a > 0)[:, None]
    np.testing.assert_array_equal(found, expected)


def for_nobody(X):
    """Element-wise work and reductions whose results nothing reads, one of them by way of another."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, 16), threads=128) as b:
        x = T.alloc_fragment((16, N), T.float32)
        flags = T.alloc_fragment((16,), T.bool_)
        kept = T.alloc_fragment((16,), T.float32)
        total = T.alloc_fragment((16,), T.float32)
        largest = T.alloc_fragment((16,), T.float32)
        table = T.alloc_shared((16,), T.float32)
        spare = T.alloc_fragment((16, N), T.float32)
        T.copy(X[b * 16, 0], x)
        T.reduce_sum(x, total, dim=1)
        T.reduce_max(x, largest, dim=1)
        for i in T.Parallel(16):
            flags[i] = total[i] > b
        T.copy(flags, kept)
        if b > 1:
            for i in T.Parallel(16):
                twice = largest[i] * 2
                table[i] = twice
        for i, j in T.Parallel(16, N):
            half = x[i, j] / 2
            spare[i, j] = half * 3
            Y[b * 16 + i, j] = half
    return Y


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_what_nobody_reads_is_not_computed(target: str, require_tool: Any) -> None:
    require_tool("nvcc")
    program = parse(for_nobody, {"X": T.Tensor((40, 256), T.float32)}, {})
    kernel = drop_unused(program).kernel
    assert [buffer.name for buffer in kernel.allocations] == ["x"]
    files = generate(program, target)
    names = ("flags", "kept", "total", "largest", "table", "spare")
    assert all(any(f"nothing reads {name}" in reason for reason in files.plan.reasons) for name in names)
    build_cuda(files.source, files.target)  # warnings are errors


def sides(X, spare: str = ""):
    """One side of the branch works for nobody, or both do."""
    X: T.Tensor((4, 64), T.float32)
    Y = T.empty((4, 64), T.float32)
    with T.Kernel(4, threads=64) as b:
        x = T.alloc_fragment((64,), T.float32)
        spared = T.alloc_fragment((64,), T.float32)
        T.copy(X[b, 0], x)
        if b >= 2:
            if spare == "then":
                T.copy(x, spared)
            else:
                for i in T.Parallel(64):
                    x[i] += 1
        else:
            if spare == "otherwise":
                T.copy(x, spared)
            else:
                for i in T.Parallel(64):
                    x[i] += 2
        T.copy(x, Y[b, 0])
    return Y


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "gfx942"])
@pytest.mark.parametrize("spare", ["then", "otherwise", ""])
def test_the_other_side_of_a_branch_runs_when_it_did(spare: str, target: str, require_tool: Any) -> None:
    require_tool("host_compiler")
    x = np.arange(256, dtype=np.float32).reshape(4, 64)
    files = generate(parse(sides, {}, {"spare": spare}), target)
    added = np.array([2 * (spare != "otherwise")] * 2 + [1 * (spare != "then")] * 2, np.float32)
    np.testing.assert_array_equal(run(files.source, files.manifest, [x]), x + added[:, None])
