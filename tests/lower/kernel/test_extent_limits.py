"""Axes that are walked in tiles are so short that the coordinates of the last tiles fit an int."""

# mypy: ignore-errors

import pytest

import tilegen
import tilegen.language as T
from tilegen.calls.arrays import ArrayFacts
from tilegen.calls.binding import ContractError, bind_shapes
from tilegen.diagnostics import ProgramError

LIMIT = 2**31 - 2**16


@tilegen.jit(target="sm_80")
def scaled(A, block: int = 256):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), M, threads=128) as (bx, by):
        for i in T.Parallel(block):
            B[by, bx * block + i] = A[by, bx * block + i] * 2
    return B


@tilegen.jit(target="gfx942")
def product(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=256) as (bx, by):
        A_shared = T.alloc_shared((128, 32), T.float16)
        B_shared = T.alloc_shared((32, 128), T.float16)
        C_local = T.alloc_fragment((128, 128), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
            T.copy(A[by * 128 : (by + 1) * 128, k * 32 : (k + 1) * 32], A_shared)
            T.copy(B[k * 32 : (k + 1) * 32, bx * 128 : (bx + 1) * 128], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * 128 : (by + 1) * 128, bx * 128 : (bx + 1) * 128])
    return C


def requirements(emission):
    return {r.text: r.condition for r in emission.manifest.requirements}


def test_header_manifest_and_launcher_say_it_of_axes_in_tiles_alone():
    emission = scaled.emit()
    assert [r for r in requirements(emission) if "<=" in r] == ["N <= 2,147,418,112"]  # M is not tiled
    assert "//            Requires N <= 2,147,418,112.\n" in emission.source
    assert "if (N > 0x7FFF0000) return cudaErrorInvalidValue;" in emission.source


def test_all_axes_of_a_product_share_a_check():
    found = requirements(product.for_target("sm_90a").emit())
    assert found["M, N and K <= 2,147,418,112"] == " and ".join(f"{name} <= {LIMIT}" for name in "MNK")


def test_a_stricter_limit_is_enough():
    """Buffer windows already keep rows short; rows themselves may be many."""
    assert requirements(product.emit())["M <= 2,147,418,112"] == f"M <= {LIMIT}"
    assert not any(text.startswith("M, N") for text in requirements(product.emit()))


def test_wide_tiles_leave_more_room():
    assert requirements(scaled.emit(block=65536))["N <= 2,147,221,504"] == f"N <= {2**31 - 2**18}"


def test_fixed_shapes_have_no_such_line():
    emission = scaled.emit(T.Tensor((4, 2**31 - 2**16), T.float32))
    assert not emission.manifest.requirements and "Requires" not in emission.source


def test_fixed_shapes_beyond_it_are_refused_at_the_tensor():
    with pytest.raises(ProgramError, match=r"axis of 2,147,483,647 .*2,147,418,112 are safe"):
        scaled.emit(T.Tensor((4, 2**31 - 1), T.float32))


def test_a_call_is_refused():
    manifest = scaled.emit().manifest
    within, beyond = (
        {0: ArrayFacts("numpy", "cpu", "float32", (1, extent), (extent, 1), 16)}
        for extent in (LIMIT, LIMIT + 4)
    )
    assert bind_shapes(manifest, within, {}).extents["N"] == LIMIT
    with pytest.raises(ContractError, match="expected N <= 2,147,418,112, got N = 2147418116"):
        bind_shapes(manifest, beyond, {})
