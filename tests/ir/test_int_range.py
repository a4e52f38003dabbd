"""Arithmetic of 32-bit integers that provably leaves their type is refused at its line."""

# mypy: ignore-errors

import pytest

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError


def emitted(blocks, factor, guarded=False):
    @tilegen.jit(target="sm_80")
    def scaled(A):
        A: T.Tensor((128,), T.int32)
        B = T.empty((128,), T.int32)
        with T.Kernel(blocks, threads=128) as bx:
            for i in T.Parallel(128):
                if guarded:
                    if bx < 2:
                        B[i] = A[i] + bx * factor
                else:
                    B[i] = A[i] + bx * factor
        return B

    return scaled.emit()


@pytest.mark.parametrize("factor", [2**30, -(2**30)])
def test_sums_and_products_that_leave_their_type(factor):
    with pytest.raises(ProgramError, match=r"which no T\.int32 holds") as error:
        emitted(4, factor)
    assert "B[i] = A[i] + bx * factor" in str(error.value) and "T.int64" in str(error.value)


@pytest.mark.parametrize("factor", [2**30, -(2**30)])
def test_what_fits_and_what_a_condition_may_keep_short_is_no_error(factor):
    emitted(2, factor)
    emitted(4, factor, guarded=True)
