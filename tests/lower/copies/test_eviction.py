"""T.copy's eviction_policy: what a copy tells L2 of the lines that it touches, by whatever way it moves them."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.errors import TilegenError
from tilegen.target import load_target, target_names
from tilegen.toolchain.cuda import build_cuda

CUDA = [name for name in target_names() if load_target(name).language == "cuda"]
OTHERS = [name for name in target_names() if name not in CUDA]


@tilegen.jit
def rows(X, load=None, store=None, dtype="float16", out="float16", width=512):
    """Y = 2 X, a row of `width` elements a block, through registers."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), out)
    with T.Kernel(T.ceildiv(N, width), M, threads=64) as (bx, by):
        x = T.alloc_fragment((1, width), dtype)
        y = T.alloc_fragment((1, width), out)
        T.copy(X[by, bx * width], x, eviction_policy=load)
        for i, j in T.Parallel(1, width):
            y[i, j] = x[i, j] * 2
        T.copy(y, Y[by, bx * width], eviction_policy=store)
    return Y


@pytest.mark.parametrize(
    ("width", "columns", "dtype", "out", "read", "written"),
    [
        (512, 1024, "float16", "float16", "uint4", "uint4"),  # 16 bytes
        (512, 516, "float16", "float16", "uint2", "uint2"),  # rows that begin at multiples of 8 bytes
        (512, 514, "float16", "float16", "u32", "u32"),
        (512, 513, "float16", "float16", None, None),  # element by element: 2 bytes
        (256, 256, "float32", "float32", "float4", "float4"),
        (512, 600, "float16", "float32", "uint4", "float4"),
    ],
)
@pytest.mark.parametrize("target", CUDA)
def test_vectors_of_threads(target, width, columns, dtype, out, read, written, require_tool):
    require_tool("host_compiler")
    x = np.random.default_rng(1).integers(-9, 9, (3, columns)).astype(dtype)
    spec = T.Tensor(x.shape, dtype)
    emission = rows.emit(
        spec, target=target, load="evict_last", store="evict_first", dtype=dtype, out=out, width=width
    )
    for seen, vector, word in ((read, "const ", "load_evict_last"), (written, "", "store_evict_first")):
        used = f"{word}(reinterpret_cast<{vector}{seen}*>(&" in emission.source
        assert used == (seen is not None) and (f" {word}(" in emission.source) == used
    np.testing.assert_array_equal(emission.emulate(x, schedule="random"), (2 * x).astype(out))


@pytest.mark.parametrize("target", CUDA)
def test_the_texts_compile(target, require_tool):
    require_tool("nvcc")
    for columns in (512, 516, 514):
        spec = T.Tensor((3, columns), T.float16)
        source = rows.emit(spec, target=target, load="evict_first", store="evict_last").source
        assert build_cuda(source, load_target(target)).spills == 0


@pytest.mark.parametrize("target", OTHERS)
def test_other_vendors_take_no_hint(target):
    spec = T.Tensor((3, 512), T.float16)
    hinted = rows.emit(spec, target=target, load="evict_last", store="evict_first").source
    plain = rows.emit(spec, target=target).source
    assert hinted.partition("- kernel")[2] == plain.partition("- kernel")[2]


def test_normal_is_no_hint():
    spec = T.Tensor((3, 512), T.float16)
    normal = rows.emit(spec, target="sm_90a", load="evict_normal", store="evict_normal").source
    assert normal.partition("- kernel")[2] == rows.emit(spec, target="sm_90a").source.partition("- kernel")[2]


def test_other_words_are_refused():
    with pytest.raises(TilegenError, match="no eviction policy 'evict_soon'") as caught:
        rows.emit(T.Tensor((3, 512), T.float16), target="sm_90a", load="evict_soon")
    assert 'write one of "evict_first", "evict_normal", "evict_last"' in str(caught.value)


@tilegen.jit
def product(A, B, a=None, b=None, c=None, cluster=(1, 1)):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=256, cluster_dims=cluster) as (bx, by):
        A_shared = T.alloc_shared((128, 64), T.float16)
        B_shared = T.alloc_shared((64, 128), T.float16)
        C_local = T.alloc_fragment((128, 128), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * 128, k * 64], A_shared, eviction_policy=a)
            T.copy(B[k * 64, bx * 128], B_shared, eviction_policy=b)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * 128, bx * 128], eviction_policy=c)
    return C


@pytest.mark.parametrize(
    ("target", "cluster", "shape", "words"),
    [
        ("sm_90a", (1, 1), (128, 136, 200), ("tma_load_2d_evict_last(shared.A", "tma_load_2d_evict_first(shared.B")),
        ("sm_90a", (2, 1), (128, 256, 200), ("tma_load_2d_evict_last_multicast(shared.A",)),
        ("sm_80", (1, 1), (128, 136, 200), ("CACHEGLOBAL_ZFILL_EVICT_LAST::copy", "ZFILL_EVICT_FIRST::copy")),
        ("sm_80", (1, 1), (128, 130, 200), ("CACHEALWAYS_ZFILL_EVICT_FIRST<4>::copy",)),
        ("sm_89", (1, 1), (128, 128, 128), ("CACHEGLOBAL_EVICT_LAST::copy", "CACHEGLOBAL_EVICT_FIRST::copy")),
    ],
)  # fmt: skip
def test_tiles(target, cluster, shape, words, require_tool):
    require_tool("host_compiler")
    require_tool("nvcc")
    rng = np.random.default_rng(2)
    m, n, k = shape
    a, b = (rng.integers(-2, 3, size).astype(np.float16) for size in ((m, k), (k, n)))
    specs = [T.Tensor(array.shape, T.float16) for array in (a, b)]
    policies = {"a": "evict_last", "b": "evict_first", "c": "evict_first"}
    emission = product.emit(*specs, target=target, cluster=cluster, **policies)
    for word in words:
        assert word in emission.source
    if target == "sm_90a":
        assert "tma_store_2d_evict_first(C" in emission.source
    result = emission.emulate(a, b, schedule="random", asynchronous="lazy", seed=4)
    np.testing.assert_array_equal(result, a.astype(np.float64) @ b)
    assert build_cuda(emission.source, load_target(target)).spills == 0


@tilegen.jit
def two_rings(X, Y, x=None, block_K: int = 128):
    """Sums of the rows' products; tiles of two column groups in rings of their own."""
    M, K = T.const("M, K")
    X: T.Tensor((M, K), T.float16)
    Y: T.Tensor((M, K), T.float16)
    C = T.empty((M, M), T.float32)
    with T.Kernel(1, threads=128) as _:
        a = T.alloc_shared((64, block_K), T.float16)
        b = T.alloc_shared((64, block_K), T.float16)
        p = T.alloc_fragment((64, 64), T.float32)
        q = T.alloc_fragment((64, 64), T.float32)
        T.clear(q)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(X[0, k * block_K], a, eviction_policy=x)
            T.gemm(a, a, p, transpose_B=True, clear_accum=True)
            T.copy(Y[0, k * block_K], b)
            T.gemm(b, b, q, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                q[i, j] += p[i, j]
        T.copy(q, C)
    return C


def test_one_hinted_tile_among_two(require_tool):
    """The helper that loads whole tiles is for tiles that are loaded alike."""
    require_tool("host_compiler")
    specs = [T.Tensor((64, 256), T.float16)] * 2
    assert "load_tile(" in two_rings.emit(*specs, target="sm_90a").source
    emission = two_rings.emit(*specs, target="sm_90a", x="evict_last")
    assert "tma_load_2d_evict_last(" in emission.source and "load_tile(" not in emission.source
    x, y = (np.random.default_rng(5).integers(-2, 3, (2, 64, 256)).astype(np.float16),)[0]
    expected = sum(z.astype(np.float64) @ z.T.astype(np.float64) for z in (x, y))
    np.testing.assert_array_equal(emission.emulate(x, y, schedule="random", seed=1), expected)
