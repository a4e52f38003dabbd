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


def shifted(X, scope="fragment"):
    X: T.Tensor((16, 64), T.float32)
    Y = T.empty((16, 64), T.float32)
    with T.Kernel(1, threads=128):
        tile = (
            T.alloc_fragment((16, 64), T.float32)
            if scope == "fragment"
            else T.alloc_shared((16, 64), T.float32)
        )
        T.clear(tile)
        for i, j in T.Parallel(16, 64):
            if j >= 4:
                tile[i, j - 4] = X[i, j]
        T.copy(tile, Y[0, 0])
    return Y


def test_a_loop_that_writes_elsewhere_says_where():
    """Not that one layout differs from the same."""
    kernel = tilegen.jit(shifted)
    with pytest.raises(ProgramError) as caught:
        kernel.emit(target="sm_80")
    assert "but it writes tile[i, j - 4]: threads would write elements of tile" in caught.value.message
    assert caught.value.remedy == "make tile a shared tile"
    assert kernel.emit(target="sm_80", scope="shared").source
