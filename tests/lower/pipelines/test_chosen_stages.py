"""Loops that leave `num_stages` open have two stages where they fit into shared memory, else one; T.target()."""

# mypy: ignore-errors

from collections.abc import Callable

import numpy as np
import pytest
from emulation import emulated, generated, relative_error

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.frontend import parse


def product(A, B, bm=64, bn=64, bk=64, num_stages=None):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
        A_shared = T.alloc_shared((bm, bk), T.float16)
        B_shared = T.alloc_shared((bk, bn), T.float16)
        C_local = T.alloc_fragment((bm, bn), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, bk), num_stages=num_stages):
            T.copy(A[by * bm, k * bk], A_shared)
            T.copy(B[k * bk, bx * bn], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * bm, bx * bn])
    return C


A, B = (
    np.random.default_rng(0).standard_normal(shape).astype(np.float16) for shape in ((70, 1104), (1104, 136))
)
KINDS = {"sm_80": "multistage", "sm_90a": "warp_specialised", "gfx942": "register_prefetch"}
FITTING = {
    "sm_80": 256,
    "sm_90a": 256,
    "gfx942": 128,
}  # bk of which two tiles fit, and twice of which one does


def depths(plan):
    return [h.stages for h in plan.hand_overs] or [stages for _, stages in plan.stages.items()]


@pytest.mark.parametrize("target", KINDS)
def test_two_stages_where_they_fit(target: str) -> None:
    plan = generated(product, target, [A, B], bk=FITTING[target]).plan
    assert (plan.kind, depths(plan)) == (KINDS[target], [2])


@pytest.mark.parametrize("target", KINDS)
def test_one_stage_where_two_do_not_fit(require_tool: Callable[[str], None], target: str) -> None:
    require_tool("host_compiler")
    bk = 2 * FITTING[target]
    plan = generated(product, target, [A, B], bk=bk).plan
    assert depths(plan) in ([1], [])
    if target != "gfx942":
        assert "loop k: one stage, two do not fit in shared memory" in plan.reasons
    (found,) = emulated(product, target, [A, B], {"schedule": "random", "seed": 1}, bk=bk)
    assert relative_error(found, A.astype(float) @ B.astype(float)) < 1e-3


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_number_that_is_asked_for_is_kept_or_refused(target: str) -> None:
    assert depths(generated(product, target, [A, B], num_stages=4).plan) == [4]
    with pytest.raises(ProgramError, match=r"num_stages=\d fits"):
        generated(product, target, [A, B], num_stages=9, bk=128)


def sized(X, block=None):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    facts = T.target()
    block = block or (facts.warp_size * 4 if facts.language == "cuda" else facts.shared_bytes // 64)
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        for i in T.Parallel(block):
            Y[bx * block + i] = X[bx * block + i]
    return Y


@pytest.mark.parametrize(
    ("target", "block"), [("sm_90a", 128), ("gfx90a", 1024), ("gfx942", 1024), ("gfx950", 2560)]
)
def test_python_chooses_by_the_target_and_the_text_has_the_name(target: str, block: int) -> None:
    source = tilegen.jit(sized).emit(T.Tensor((5000,), T.float32), target=target).source
    assert f"kBlock = {block};" in source


def test_open_extents_know_the_target_too(require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    x = np.arange(300, dtype=np.float32)
    np.testing.assert_array_equal(tilegen.jit(target="sm_80", dynamic="N")(sized)(x), x)


def test_a_program_that_is_read_for_no_target_says_so() -> None:
    with pytest.raises(ProgramError, match="no target is given"):
        parse(sized)
