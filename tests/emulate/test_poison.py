"""Registers that nothing has written hold poison; calls that the launcher would refuse are refused."""

# mypy: ignore-errors

import re

import ml_dtypes
import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.emulate import EmulationError, run


@tilegen.jit
def doubled(X, dtype=T.float32):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(M, 16), threads=64) as bx:
        x = T.alloc_fragment((16, 128), dtype)
        T.copy(X[bx * 16, 0], x)
        for i, j in T.Parallel(16, 128):
            x[i, j] = x[i, j] * 2
        T.copy(x, Y[bx * 16, 0])
    return Y


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_registers_are_poison_until_they_are_written(require_tool, target, dtype):
    """A load that is lost leaves no plausible number behind."""
    require_tool("host_compiler")
    x = np.ones((16, 128), dtype)
    name = getattr(T, np.dtype(dtype).name)
    emission = doubled.emit(T.Tensor(x.shape, name), target=target, dtype=name)
    lost, count = re.subn(
        r"(?m)^(\s+)\*reinterpret_cast<[^>]+>\(&x\[[^;]*? =\s[^;]*;$", r"\1;", emission.source
    )
    assert count == 1
    found = run(lost, emission.manifest, [x]).astype(np.float64)
    assert np.all(np.isnan(found) | np.isinf(found) | (np.abs(found) > 1e30))


def test_a_call_that_the_launcher_refuses_is_refused(require_tool):
    require_tool("host_compiler")
    emission = doubled.emit(target="sm_80")
    assert emission.emulate(np.ones((16, 128), np.float32))[0, 0] == 2
    with pytest.raises(
        EmulationError, match=r"the launcher refuses the call: N % 4 == 0 is required, but N = 6"
    ):
        emission.emulate(np.ones((16, 6), np.float32))
