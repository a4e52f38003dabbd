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


@tilegen.jit(target="sm_80")
def flat(A, wide: bool = False, block: int = 1024):
    """Blocks share out all elements, whatever rows they lie in."""
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float16)
    B = T.empty((M, N), T.float16)
    elements = T.cast(M, T.int64) * N if wide else M * N
    with T.Kernel(T.ceildiv(elements, block), threads=128) as bx:
        for i in T.Parallel(block):
            p = (T.cast(bx, T.int64) if wide else bx) * block + i
            if p < elements:
                B[p // N, p % N] = A[p // N, p % N] * 2
    return B


def walked(M, N):
    return flat.emit(T.Tensor((M, N), T.float16))


def test_a_product_of_extents_that_blocks_count_is_kept_in_int():
    emission = flat.emit()
    assert requirements(emission) == {"M * N <= 2,147,418,112": f"M * N <= {LIMIT}"}
    assert "if (u64(M) * u64(N) > 0x7FFF0000) return cudaErrorInvalidValue;" in emission.source
    assert list(requirements(walked("M", 50000))) == ["M * 50000 <= 2,147,221,504"]


def test_a_product_that_a_loop_counts_is_kept_in_int():
    @tilegen.jit(target="sm_80")
    def row_sums(A):
        M, H, W = T.const("M, H, W")
        A: T.Tensor((M, H, W), T.float32)
        B = T.empty((M,), T.float32)
        with T.Kernel(M, threads=128) as row:
            x = T.alloc_fragment((128,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.clear(total)
            pixels = H * W
            for k in T.serial(T.ceildiv(pixels, 128)):
                for i in T.Parallel(128):
                    p = k * 128 + i
                    x[i] = A[row, p // W, p % W] if p < pixels else 0
                T.reduce_sum(x, total, clear=False)
            B[row] = total[0]
        return B

    assert "H * W <= 2,147,418,112" in requirements(row_sums.emit())


def test_a_fixed_product_beyond_int_is_refused_where_it_is_counted():
    assert not walked(40000, 50000).manifest.requirements
    with pytest.raises(
        ProgramError, match=r"bx \* 1024 \+ i reaches 2,500,000,767, which no T\.int32 holds"
    ) as error:
        walked(50000, 50000)
    assert "p = (T.cast(bx, T.int64) if wide else bx) * block + i" in str(error.value)


def test_the_remedy_gives_such_a_kernel():
    emission = flat.emit(T.Tensor((50000, 50000), T.float16), wide=True)
    assert "i64 p = i64(bx) * 1024ll + i64(i)" in emission.source
    assert not flat.emit(wide=True).manifest.requirements
