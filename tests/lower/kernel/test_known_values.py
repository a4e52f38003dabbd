"""What a value at the kernel's top has a name for is not computed again."""

# mypy: ignore-errors

from __future__ import annotations

import pytest
from emulation import kernel_text

import tilegen
import tilegen.language as T
from tilegen.lower.kernel.known_values import with_known_values
from tilegen.model import build as c
from tilegen.model.expressions import Lambda, Name
from tilegen.model.statements import AssignC, Declare, ForC, IfC

TARGETS = ("sm_80", "sm_90a", "gfx90a", "gfx942", "gfx950")


@tilegen.jit
def shares_of_k(A, B, splits: int = 4, block: int = 64, block_K: int = 32):
    """Each block along bz multiplies neighbouring tiles of k: where they begin depends on how many there are."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((splits, M, N), T.float32)
    steps = T.ceildiv(T.ceildiv(K, block_K), splits)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), splits, threads=128) as (bx, by, bz):
        A_shared = T.alloc_shared((block, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block), T.float16)
        C_local = T.alloc_fragment((block, block), T.float32)
        T.clear(C_local)
        for step in T.Pipelined(steps, num_stages=2):
            k = (bz * steps + step) * block_K
            T.copy(A[by * block, k], A_shared)
            T.copy(B[k, bx * block], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[bz, by * block, bx * block])
    return C


@pytest.mark.parametrize("target", TARGETS)
def test_the_number_of_iterations_is_computed_once(target):
    text = kernel_text(shares_of_k.emit(target=target))
    assert text.count("/ kSplits") == 1
    assert "(bz * step_tiles + step) * kBlockK" in text


def test_known_values_stand_in_nested_code_and_in_one_another():
    tiles = c.div(c.add("K", 63), 64)
    share = c.div(c.add(tiles, 3), 4)
    prologue = [
        Declare("int", "tiles", tiles, const=True),
        Declare("int", "share", share, const=True),
    ]
    use = AssignC(Name("k"), c.operation("*", "bz", share))
    body = [
        ForC("i", c.expr(0), tiles, (use,)),
        IfC(c.operation("<", "bz", share), (use,)),
        Declare("auto", "load", Lambda((("int", "k"),), (use,)), const=True),
    ]
    named = with_known_values(prologue, body)
    called = AssignC(Name("k"), c.operation("*", "bz", "share"))
    assert named == [
        prologue[0],
        Declare("int", "share", c.div(c.add("tiles", 3), 4), const=True),
        ForC("i", c.expr(0), Name("tiles"), (called,)),
        IfC(c.operation("<", "bz", "share"), (called,)),
        Declare("auto", "load", Lambda((("int", "k"),), (called,)), const=True),
    ]


@pytest.mark.parametrize(
    "declared",
    [
        Declare("int", "count", c.add("K", 1)),  # may change
        Declare("i64", "count", c.add("K", 1), const=True),  # the sum itself is an int
        Declare("int", "count", Name("K"), const=True),
    ],
)
def test_others_are_not_called_so(declared):
    body = [AssignC(Name("x"), c.add("K", 1)), AssignC(Name("y"), Name("K"))]
    assert with_known_values([declared], body) == [declared, *body]
