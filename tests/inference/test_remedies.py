"""A gemm that no matrix instruction computes: the remedy is one that helps."""

# mypy: ignore-errors

import pytest

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError


def product(X, Y, policy="Square", k=64, block=64, threads=128):
    X: T.Tensor((64, 64), T.float16)
    Y: T.Tensor((64, 64), T.float16)
    Z = T.empty((64, 64), T.float32)
    with T.Kernel(1, threads=threads):
        x = T.alloc_shared((k, block), T.float16)
        y = T.alloc_shared((k, block), T.float16)
        z = T.alloc_fragment((block, block), T.float32)
        T.copy(X[0, 0], x)
        T.copy(Y[0, 0], y)
        T.clear(z)
        if policy == "SlicedK":
            T.gemm(x, y, z, transpose_A=True, policy=T.GemmWarpPolicy.SlicedK)
        else:
            T.gemm(x, y, z, transpose_A=True)
        T.copy(z, Z[0, 0])
    return Z


POLICY = (
    {"policy": "SlicedK", "k": 16, "threads": 512},
    "leave out the policy",
    {"k": 16, "threads": 512},
)
SHAPE = ({"block": 48, "threads": 512}, "change the block shape", {})


@pytest.mark.parametrize(
    ("target", "case"),
    [
        *((target, SHAPE) for target in ("sm_80", "sm_90a", "gfx942")),
        *((target, POLICY) for target in ("sm_80", "sm_90a")),
    ],
)
def test_the_remedy_helps(target, case):
    wrong, remedy, right = case
    kernel = tilegen.jit(product)
    with pytest.raises(ProgramError) as caught:
        kernel.emit(target=target, **wrong)
    assert caught.value.remedy.startswith(remedy)
    assert kernel.emit(target=target, **right).source
