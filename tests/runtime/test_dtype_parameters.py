"""Parameters annotated `T.dtype` take the element type of the tensors that are declared with them."""

import ml_dtypes
import numpy as np
import pytest

import tilegen
import tilegen.language as T
from tilegen.diagnostics import ProgramError
from tilegen.errors import TilegenError


@tilegen.jit
def doubled(A, B, dtype: T.dtype = T.float16, other: T.dtype = T.float32, block: int = 64):
    M = T.const("M")
    A: T.Tensor((M,), dtype)
    B: T.Tensor((M,), dtype=other)
    C = T.empty((M,), dtype)
    with T.Kernel(T.ceildiv(M, block), threads=64) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + T.cast(B[bx * block + i], dtype)
    return C


def specs(first, second):
    return T.Tensor((100,), first), T.Tensor((100,), second)


@pytest.mark.parametrize("first", ["float16", "bfloat16", "float32", "int32"])
@pytest.mark.parametrize("second", ["float32", "int8"])
def test_each_follows_the_tensor_declared_with_it(first, second):
    emission = doubled.emit(*specs(first, second), target="sm_80")
    assert [str(tensor.dtype) for tensor in emission.manifest.tensors] == [first, second, first]


def test_the_quoted_command_says_the_types():
    lines = doubled.emit(*specs("bfloat16", "int8"), target="sm_80").source.splitlines()
    quoted = " ".join(line.removeprefix("//").strip() for line in lines[:8])
    assert "--set dtype=bfloat16 --set other=int8" in quoted


def test_without_specs_the_defaults_hold_and_names_are_taken():
    assert [str(t.dtype) for t in doubled.emit(target="sm_80").manifest.tensors][:2] == ["float16", "float32"]
    named = doubled.emit(target="sm_80", dtype="bfloat16")
    assert [str(t.dtype) for t in named.manifest.tensors] == ["bfloat16", "float32", "bfloat16"]


def test_a_given_value_must_be_a_type_and_agree():
    with pytest.raises(TilegenError, match="unknown element type 'single'"):
        doubled.emit(target="sm_80", dtype="single")
    with pytest.raises(TilegenError, match="declared as bfloat16, but is given as float16"):
        doubled.emit(*specs("float16", "float32"), target="sm_80", dtype="bfloat16")


def test_a_call_follows_its_arrays(require_tool):
    require_tool("host_compiler")
    a = np.arange(100).astype(ml_dtypes.bfloat16)
    b = np.ones(100, np.int8)
    result = doubled(a, b)
    assert result.dtype == a.dtype
    assert np.array_equal(result.astype(np.float32), (a + b.astype(a.dtype)).astype(np.float32))


def test_a_dtype_by_its_name_in_a_program():
    """TVM's `T.dtype(name)`, with its width."""

    @tilegen.jit(target="sm_80")
    def packed(A, dtype="float16", threads: int = 32):
        kind = T.dtype(dtype)
        vector = 16 // kind.bytes
        A: T.Tensor((1024,), kind)
        with T.Kernel(1024 // (threads * vector), threads=threads) as bx:
            for i in T.Parallel(threads * vector):
                A[bx * threads * vector + i] = kind.bits

    assert packed.emit().manifest.grid[0] == "4"
    assert packed.emit(dtype="float32").manifest.grid[0] == "8"
    with pytest.raises(ProgramError, match="unknown element type 'float17'") as caught:
        packed.emit(dtype="float17")
    assert "kind = T.dtype(dtype)" in str(caught.value)


def test_dtypes_of_numpy_and_torch_in_a_program():
    @tilegen.jit(target="sm_80")
    def filled(A, dtype=np.float16):
        A: T.Tensor((64,), dtype)
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((64,), dtype)
            T.clear(tile)
            T.copy(tile, A)

    assert filled.emit().manifest.tensors[0].dtype == "float16"
    assert filled.emit(dtype=np.dtype("float32")).manifest.tensors[0].dtype == "float32"
    assert filled.emit(dtype=ml_dtypes.bfloat16).manifest.tensors[0].dtype == "bfloat16"
    torch = pytest.importorskip("torch")
    assert filled.emit(dtype=torch.bfloat16).manifest.tensors[0].dtype == "bfloat16"
    with pytest.raises(ProgramError, match="a dtype is needed here, not <class 'float'>"):
        filled.emit(dtype=float)
