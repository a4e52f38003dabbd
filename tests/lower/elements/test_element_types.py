"""Every element type on every target: a file that compiles, or an error at the line that speaks of the type."""

# mypy: ignore-errors

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.model.dialect import dialect_of
from tilegen.target import load_target, target_names
from tilegen.toolchain import build_cuda, build_hip, compile_cuda, compile_hip


@tilegen.jit
def widened(X, dtype=T.float16):
    N = T.const("N")
    X: T.Tensor((N,), dtype)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 256), threads=128) as bx:
        for i in T.Parallel(256):
            Y[bx * 256 + i] = X[bx * 256 + i]
    return Y


@tilegen.jit
def narrowed(X, dtype=T.float16):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), dtype)
    with T.Kernel(T.ceildiv(N, 256), threads=128) as bx:
        for i in T.Parallel(256):
            Y[bx * 256 + i] = X[bx * 256 + i]
    return Y


@tilegen.jit
def rounded(X, dtype=T.float16):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 256), threads=128) as bx:
        for i in T.Parallel(256):
            Y[bx * 256 + i] = T.cast(T.cast(X[bx * 256 + i], dtype), T.float32)
    return Y


@tilegen.jit
def staged(X, dtype=T.float16):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 256), threads=128) as bx:
        tile = T.alloc_shared((256,), dtype)
        held = T.alloc_fragment((256,), dtype)
        T.copy(X[bx * 256], tile)
        T.copy(tile, held)
        T.copy(held, Y[bx * 256])
    return Y


@tilegen.jit
def product(A, B, dtype=T.float16, sum_type=T.float32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), dtype)
    B: T.Tensor((K, N), dtype)
    C = T.empty((M, N), sum_type)
    with T.Kernel(N // 64, M // 64, threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 64), dtype)
        B_shared = T.alloc_shared((64, 64), dtype)
        C_local = T.alloc_fragment((64, 64), sum_type)
        T.clear(C_local)
        for k in T.Pipelined(K // 64, num_stages=2):
            T.copy(A[by * 64, k * 64], A_shared)
            T.copy(B[k * 64, bx * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * 64, bx * 64])
    return C


# Where each program first speaks of the type
PROGRAMS = {
    widened: "X: T.Tensor((N,), dtype)",
    narrowed: "Y = T.empty((N,), dtype)",
    rounded: "Y[bx * 256 + i] = T.cast(",
    staged: "tile = T.alloc_shared((256,), dtype)",
}
NATIVE = {"float8_e4m3fn": "cuda", "float8_e5m2": "cuda"}  # of cuda_fp8.h; in software before sm_89


@pytest.mark.parametrize("target", target_names())
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("dtype", T.ALL, ids=str)
def test_a_type_is_there_or_refused_at_its_line(program, dtype, target):
    language = load_target(target).language
    spec = T.Tensor((1000,), dtype if program is widened else T.float32)
    if dtype.name in dialect_of(language).types:
        assert program.emit(spec, target=target, dtype=dtype).source
        return
    with pytest.raises(ProgramError) as refused:
        program.emit(spec, target=target, dtype=dtype)
    assert refused.value.message == f"{dtype} has no C++ type on {target}"
    assert refused.value.location.text.startswith(PROGRAMS[program])
    assert ("int32 words" if dtype.bits < 8 else "convert the values") in refused.value.remedy
    if NATIVE.get(dtype.name):
        assert "sm_80, sm_89, sm_90a have it" in refused.value.remedy


def test_eight_bit_floats_are_those_of_cuda_alone():
    """fn types are in cuda_fp8.h; neither language's headers that files include have fnuz types."""
    for target in target_names():
        language = load_target(target).language
        found = [name for name in dialect_of(language).types if name.startswith("float8")]
        assert found == (["float8_e4m3fn", "float8_e5m2"] if language == "cuda" else [])


def known(targets, dtypes):
    """The pairs of a target and a type that it has."""
    return [(t, d) for t in targets for d in dtypes if d.name in dialect_of(load_target(t).language).types]


@pytest.mark.parametrize(("target", "dtype"), known(["sm_80", "sm_90a", "gfx942"], T.ALL), ids=str)
def test_files_compile(require_tool: Callable[[str], None], target, dtype):
    machine = load_target(target)
    require_tool("nvrtc" if machine.language == "cuda" else "hip")
    for program in (widened, narrowed):
        source = program.emit(
            T.Tensor((1000,), dtype if program is widened else T.float32), target=target, dtype=dtype
        ).source
        if machine.language == "cuda":
            compile_cuda(source, machine, "nvrtc")
        else:
            compile_hip(source, machine)


SUMS = {T.int8: T.int32, T.float8_e4m3fn: T.float32, T.float64: T.float64}


@pytest.mark.parametrize(("target", "dtype"), known(target_names(), SUMS), ids=str)
def test_products_of_other_types_say_which_there_are(target, dtype):
    spec, sums = T.Tensor((128, 128), dtype), SUMS[dtype]
    with pytest.raises(ProgramError) as refused:
        product.emit(spec, spec, target=target, dtype=dtype, sum_type=sums)
    assert refused.value.location.text == "T.gemm(A_shared, B_shared, C_local)"
    assert refused.value.message.startswith(
        f"there is no matrix product {dtype} * {dtype} -> {sums} on {target}"
    )
    assert "float16 * float16 -> float32" in refused.value.message
    assert "A_shared and B_shared" in refused.value.remedy


@tilegen.jit
def unread(X, factor: T.float32):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 256), threads=128) as bx:
        for i in T.Parallel(256):
            Y[bx * 256 + i] = 1
    return Y


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_arguments_that_the_kernel_does_not_use_give_no_warning(require_tool: Callable[[str], None], target):
    emission = unread.emit(T.Tensor((1000,), T.float32), target=target)
    assert "static_cast<void>(X);" in emission.source
    if target == "sm_80":
        require_tool("nvcc")
        build_cuda(emission.source, emission.target)
    else:
        require_tool("hip")
        build_hip(emission.source, emission.target)


@tilegen.jit
def truths(X, dtype=T.float16):
    """Whether elements differ from 0, alone and along a row."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), T.bool_)
    Z = T.empty((M,), T.int32)
    with T.Kernel(T.ceildiv(M, 16), threads=128) as b:
        x = T.alloc_fragment((16, N), dtype)
        z = T.alloc_fragment((16,), T.int32)
        T.copy(X[b * 16, 0], x)
        T.reduce_any(x, z, dim=1)
        T.copy(z, Z[b * 16])
        for i, j in T.Parallel(16, N):
            Y[b * 16 + i, j] = T.cast(x[i, j], T.bool_)
    return Y, Z


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a", "gfx942"])
@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float64", "int8", "uint16"]
)
def test_truth_of_every_type(name: str, target: str, require_tool: Callable[[str], None]) -> None:
    require_tool("host_compiler")
    if target.startswith("gfx") and name.startswith("float8"):
        pytest.skip("no C++ type")
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2, (20, 64)) * (rng.random((20, 64)) < 0.02)
    x = x.astype(getattr(ml_dtypes, name, name))
    y, z = truths.emit(T.Tensor(x.shape, name), target=target, dtype=getattr(T, name)).emulate(x)
    np.testing.assert_array_equal(y, x.astype(np.float64) != 0)
    np.testing.assert_array_equal(z, (x.astype(np.float64) != 0).any(1))
