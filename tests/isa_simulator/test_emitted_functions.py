"""Functions of emitted text on CDNA: the instructions that they are, and the twins that the emulator has of them."""

# mypy: ignore-errors

import numpy as np
import pytest
from emission_runner import simulate_emission

import tilegen
import tilegen.language as T


@tilegen.jit
def powers_of_two(X):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=64) as bx:
        for i in T.Parallel(128):
            Y[bx * 128 + i] = T.exp2(X[bx * 128 + i])
    return Y


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_exp2_is_one_instruction_and_its_twin_agrees(require_tool, tmp_path, target):
    for tool in ("hip", "llvm_objdump", "host_compiler"):
        require_tool(tool)
    ends = [-np.inf, np.inf, np.nan, -150, -126.5, -126, -1, -0.0, 0, 1, 127.5, 128]
    x = np.concatenate([np.random.default_rng(0).uniform(-130, 130, 244), ends]).astype(np.float32)
    emission = powers_of_two.emit(T.Tensor(x.shape, T.float32), target=target)
    (y,), report = simulate_emission(emission, tmp_path, x)
    assert report.counts["v_exp_f32_e32"] * 64 == len(x)
    assert not any(name.startswith(("v_ldexp", "v_cmp", "v_cndmask")) for name in report.counts)
    with np.errstate(over="ignore"):
        expected = np.exp2(x.astype(np.float64)).astype(np.float32)
    expected[expected < 2.0**-126] = 0
    for result in (y, emission.emulate(x)):
        np.testing.assert_allclose(result, expected, rtol=2.0**-22)


@tilegen.jit
def turned(X):
    M = T.const("M")
    X: T.Tensor((M, 64), T.int8)
    Y = T.empty((M, 64), T.int32)
    with T.Kernel(T.ceildiv(M, 16), threads=128) as by:
        x = T.alloc_shared((16, 64), T.int8)
        y = T.alloc_fragment((16, 64), T.float32)
        T.copy(X[by * 16, 0], x)
        for i, j in T.Parallel(16, 64):
            y[i, j] = T.cast(x[i, 63 - j], T.float32)
        for i, j in T.Parallel(16, 64):
            y[i, j] += T.cast(x[i, j], T.float32)
        T.copy(y, Y[by * 16, 0])
    return Y


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_addresses_below_the_first_with_an_offset_back(require_tool, tmp_path, target):
    """Rows that are read backwards: compilers give the instruction what is added to a base below 0."""
    for tool in ("hip", "llvm_objdump"):
        require_tool(tool)
    x = np.random.default_rng(1).integers(-99, 99, (32, 64)).astype(np.int8)
    (y,), _ = simulate_emission(turned.emit(T.Tensor(x.shape, T.int8), target=target), tmp_path, x)
    np.testing.assert_array_equal(y, x.astype(int) + x[:, ::-1])
