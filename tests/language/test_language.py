"""The language as Python sees it, outside a tile program."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from typing import Any

import pytest

import tilegen.language as T
from tilegen.errors import TilegenError
from tilegen.frontend.calls import _HANDLERS, CUSTOM
from tilegen.ir.expressions import Const
from tilegen.ir.printer import expression_text
from tilegen.ir.types import as_dtype
from tilegen.language.operation import operation_name
from tilegen.language.tensors import spec_of_array

WORDS = sorted({name for name in T.__all__ if operation_name(getattr(T, name)) is not None})


def test_every_word_is_documented_and_handled() -> None:
    assert len(WORDS) > 90
    for name in WORDS:
        word = getattr(T, name)
        assert inspect.getdoc(word), f"T.{name} has no docstring"
        assert operation_name(word) in _HANDLERS, f"the frontend does not know T.{name}"


def test_every_handler_has_its_word() -> None:
    elsewhere = {CUSTOM, "make_swizzled_layout"}  # the latter is tilegen.layout's
    assert {operation_name(getattr(T, name)) for name in WORDS} == set(_HANDLERS) - elsewhere


@pytest.mark.parametrize(
    "call",
    [
        lambda: T.copy(1, 2),
        lambda: T.gemm(1, 2, 3),
        lambda: T.alloc_shared((4,), T.float16),
        lambda: T.const("M"),
        lambda: T.exp("x"),
        lambda: T.max(None, 1),
        lambda: T.Parallel(3),
        lambda: T.cast(1, T.float16),
        lambda: T.ceildiv(1.5, 2),
    ],
)
def test_words_outside_a_kernel(call: Any) -> None:
    with pytest.raises(
        T.OutsideKernelError, match=r"T\.\w+ was called by Python itself.*@tilegen.jit or @T.prim_func"
    ):
        call()


def test_programs_and_macros_cannot_be_called() -> None:
    @T.prim_func
    def program(X: T.Tensor((8,), T.float32)) -> None:
        """Doc."""

    @T.macro
    def helper() -> None:
        """Doc."""

    with pytest.raises(T.OutsideKernelError, match="program is a tile program; compile it first"):
        program(1)
    with pytest.raises(T.OutsideKernelError, match="helper is a tile macro"):
        helper()
    assert (repr(program), repr(helper)) == ("<tile program program>", "<tile macro helper>")
    assert (program.__doc__, helper.__name__) == ("Doc.", "helper")


def test_tensor_specs() -> None:
    spec = T.Tensor(("M", 4096), T.float16)
    assert spec == T.TensorSpec(("M", 4096), T.float16, None)
    assert spec == T.Tensor[("M", 4096), "float16"]
    assert spec.rank == 2
    assert T.Tensor(7, "half").shape == (7,)
    assert T.StridedTensor((4, 5), (10, 2), T.int8).strides == (10, 2)
    assert T.Tensor((T.dynamic("m"), 3), "bf16").shape == ("m", 3)
    assert spec_of_array([2, 3], "float32", [3, 1]) == T.TensorSpec((2, 3), T.float32, (3, 1))
    assert T.Buffer is T.Tensor


def test_wrong_tensor_specs() -> None:
    with pytest.raises(TilegenError, match="unknown element type 'flaot16'; did you mean float16"):
        T.Tensor((4,), "flaot16")
    with pytest.raises(TilegenError, match="non-negative integers, not -1"):
        T.Tensor((-1,), T.float16)
    with pytest.raises(TilegenError, match="named by an identifier, not 'a b'"):
        T.Tensor(("a b",), T.float16)
    with pytest.raises(TilegenError, match=r"holds integers, names and T\.dynamic extents, not 1\.5"):
        T.Tensor((1.5,), T.float16)
    with pytest.raises(TilegenError, match="not booleans"):
        T.Tensor((True,), T.float16)
    with pytest.raises(TilegenError, match="1 strides are given for a tensor of rank 2"):
        T.Tensor((2, 2), T.float16, strides=(2,))
    with pytest.raises(TilegenError, match="named by an identifier"):
        T.dynamic("a-b")


def test_dtypes() -> None:
    import ml_dtypes
    import numpy as np

    assert as_dtype(np.dtype("float16")) == as_dtype(np.float16) == T.float16
    assert as_dtype(ml_dtypes.bfloat16) == T.bfloat16 and as_dtype(np.bool_) == T.bool_
    assert as_dtype(np.dtype(ml_dtypes.bfloat16)) == T.bfloat16
    assert as_dtype("double") == T.float64
    assert T.float8_e4m3fn != T.float8_e4m3fnuz
    assert (T.half, T.float, T.int, T.bool) == (T.float16, T.float32, T.int32, T.bool_)
    with pytest.raises(TilegenError, match="unknown element type 'float8_e4m3'; did you mean float8_e4m3fn"):
        as_dtype("float8_e4m3")


def test_dtypes_by_name() -> None:
    """TVM's spelling."""
    assert T.dtype("float16") is T.float16 and T.dtype(T.int8) is T.int8
    assert (T.dtype("half").bits, T.dtype("half").bytes) == (16, 2)
    with pytest.raises(TilegenError, match="unknown element type 'float17'"):
        T.dtype("float17")
    assert copy.deepcopy(T.float16) == T.float16 == pickle.loads(pickle.dumps(T.float16))


@pytest.mark.parametrize("dtype", [dtype for dtype in T.ALL if dtype.bits >= 8])
def test_limits(dtype: T.DType) -> None:
    import ml_dtypes
    import numpy as np

    if dtype.kind == "bool":
        assert (T.min_value(dtype), T.max_value(dtype)) == (0, 1)
        return
    numeric: Any = getattr(ml_dtypes, dtype.name, None) or getattr(np, dtype.name)
    limits = ml_dtypes.finfo(numeric) if dtype.is_float else ml_dtypes.iinfo(numeric)
    assert (
        T.max_value(dtype) == float(limits.max) if dtype.is_float else T.max_value(dtype) == int(limits.max)
    )
    assert (
        T.min_value(dtype) == float(limits.min) if dtype.is_float else T.min_value(dtype) == int(limits.min)
    )


def test_dynamic_extents_compute() -> None:
    m = T.dynamic("m")
    texts = [
        expression_text(extent.expr)
        for extent in (m + 1, 1 + m, m - 1, 7 - m, m * 2, 2 * m, m // 4, m % 4, m + m, T.ceildiv(m, 128))
    ]
    assert texts == [
        "m + 1", "1 + m", "m - 1", "7 - m", "m * 2", "2 * m", "m // 4", "m % 4", "m + m", "(m + 127) // 128",
    ]  # fmt: skip
    assert repr(m) == "m" and m == T.symbolic("m") and hash(m) == hash(T.dynamic("m"))
    assert isinstance((m - m).expr, Const)
    with pytest.raises(TypeError, match=r"combined with integers and extents, not 1\.5"):
        m * 1.5


def test_scalar_functions_on_numbers() -> None:
    assert T.exp(1000.0) == math.inf
    assert T.log2(8) == 3 and T.log(-1.0) != T.log(-1.0)
    assert T.rsqrt(4.0) == 0.5 and T.rsqrt(0.0) == math.inf and math.isnan(T.sqrt(-1.0))
    assert T.ceildiv(7, 2) == 4 and T.ceildiv(8, 2) == 4
    assert T.max(1, 3, 2) == 3 and T.min(2.0, 1) == 1 and T.clamp(5, 0, 3) == 3
    assert T.fma(2.0, 3.0, 1.0) == 7.0 and T.pow(2, 10) == 1024 and T.fabs(-2) == 2
    assert T.round(2.5) == 2 and T.floor(-0.5) == -1 and T.ceil(0.5) == 1 and T.trunc(-1.5) == -1
    assert T.shift_left(1, 3) == 8 and T.shift_right(8, 3) == 1 and T.bitwise_xor(5, 1) == 4
    with pytest.raises(TilegenError, match="int32 has no infinity"):
        T.infinity(T.int32)
