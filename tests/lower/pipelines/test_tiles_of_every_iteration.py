"""Pipelined loops in which some tile is the same in every iteration: what loads it does not ask which one."""

# mypy: ignore-errors

import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.target import load_target, target_names
from tilegen.toolchain import compile_cuda, compile_hip


@tilegen.jit
def product(A, B, threads=128, num_stages=2):
    """C = the sum over tiles of A, each times the same B."""
    M, K = T.const("M, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((64, 64), T.float16)
    C = T.empty((M, 64), T.float32)
    with T.Kernel(T.ceildiv(M, 64), threads=threads) as by:
        a = T.alloc_shared((64, 64), T.float16)
        b = T.alloc_shared((64, 64), T.float16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=num_stages):
            T.copy(A[by * 64, k * 64], a)
            T.copy(B, b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 64, 0])
    return C


CASES = [(target, stages) for target in target_names() for stages in (1, 2, 3)]


@pytest.mark.parametrize(("target", "stages"), CASES)
def test_it_is_right(target, stages, require_tool):
    require_tool("host_compiler")
    rng = np.random.default_rng(stages)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((72, 320), (64, 64)))
    emission = product.emit(*(T.Tensor(x.shape, T.float16) for x in (a, b)), target=target, num_stages=stages)
    expected = a.astype(np.float64).reshape(72, 5, 64).sum(1) @ b
    found = emission.emulate(a, b, schedule="random", asynchronous="lazy", seed=1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("target", "stages"), CASES)
def test_nothing_in_the_text_is_unused(target, stages, require_tool):
    language = load_target(target).language
    require_tool("nvcc" if language == "cuda" else "hip_gfx950" if target == "gfx950" else "hip")
    specs = T.Tensor((72, 320), T.float16), T.Tensor((64, 64), T.float16)
    emission = product.emit(*specs, target=target, num_stages=stages)
    compiled = (compile_cuda if language == "cuda" else compile_hip)(emission.source, emission.target)
    assert compiled.spills == 0
