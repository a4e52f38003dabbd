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


def test_threads_that_are_no_whole_warps_are_named_before_layouts_fail():
    @tilegen.jit(target="gfx942")
    def sums(X):
        X: T.Tensor((8, 768), T.float32)
        Y = T.empty((8,), T.float32)
        with T.Kernel(8, threads=96) as row:
            x = T.alloc_fragment((768,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.copy(X[row, 0], x)
            T.reduce_sum(x, total)
            Y[row] = total[0]
        return Y

    with pytest.raises(ProgramError, match="96 threads are not whole warps of 64 on gfx942"):
        sums.emit()
    sums.for_target("sm_80").emit()


def test_an_open_extent_of_a_parallel_loop_is_named():
    @tilegen.jit(target="sm_80")
    def halves(X):
        M, N = T.const("M, N")
        X: T.Tensor((M, N), T.float32)
        Y = T.empty((M, N), T.float32)
        with T.Kernel(M, threads=128) as row:
            for j in T.Parallel(N // 2):
                Y[row, j] = X[row, j]
        return Y

    with pytest.raises(ProgramError, match="the extent of the parallel loop over j is not known") as error:
        halves.emit()
    assert "guard the body with an if; or fix N: --dim N=…" in str(error.value)
    halves.emit(dims={"N": 256})
