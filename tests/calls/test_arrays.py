"""Arrays of all frameworks look alike; a kernel's key changes with whatever its contract depends on."""

import pickle

import numpy as np
import pytest

from tilegen.calls.arrays import (
    NumpyFramework,
    alignment_class,
    framework_named,
    framework_of,
    is_row_major,
    numpy_dtype,
)
from tilegen.errors import ArgumentError


def test_facts_of_numpy_views():
    array = np.zeros((6, 8), np.float16)
    facts = framework_of(array).facts(array.T)
    assert (facts.framework, facts.device, facts.dtype) == ("numpy", "cpu", "float16")
    assert facts.shape == (8, 6) and facts.strides == (1, 8)
    assert not facts.row_major and framework_of(array).facts(array).row_major
    assert not facts.on_gpu
    with pytest.raises(ValueError, match="host memory"):
        _ = facts.device_index


@pytest.mark.parametrize(
    "offset, expected", [(0, 16), (2, 2), (4, 4), (6, 2), (8, 8), (1, 1), (24, 8), (48, 16)]
)
def test_alignment_class(offset, expected):
    assert alignment_class(4096 + offset) == expected


def test_row_major_agrees_with_numpy():
    rng = np.random.default_rng(0)
    base = np.zeros((4, 5, 6, 1))
    for _ in range(200):
        axes = tuple(rng.permutation(4))
        slices = tuple(slice(0, None, int(rng.integers(1, 3))) for _ in range(4))
        view = base[slices].transpose(axes)
        strides = tuple(stride // view.itemsize for stride in view.strides)
        assert is_row_major(view.shape, strides) == view.flags.c_contiguous


def test_key_depends_on_dtype_shape_strides_and_alignment():
    adapter = NumpyFramework()
    buffer = np.zeros(4096, np.int8)
    start = -buffer.ctypes.data % 16
    aligned = buffer[start : start + 512].view(np.float16).reshape(16, 16)
    shifted = buffer[start + 2 : start + 2 + 512].view(np.float16).reshape(16, 16)
    keys = {
        adapter.probe(view)[1]
        for view in (
            aligned,
            shifted,
            aligned.view(np.int16),
            aligned.T,
            aligned[:, :8],
            aligned.reshape(8, 32),
        )
    }
    assert len(keys) == 6
    assert adapter.probe(aligned)[0] == aligned.ctypes.data


def test_an_axis_of_one_element_runs_forwards():
    view = np.zeros((3, 8), np.float32)[:1][::-1]
    assert framework_of(view).facts(view).strides == (8, 1)


def test_structured_view_is_refused():
    record = np.zeros(4, np.dtype([("a", np.float32), ("b", np.int16)]))["a"]
    with pytest.raises(ArgumentError, match="contiguous copy"):
        framework_of(record).facts(record)


def test_unknown_array_types_and_dtypes_are_refused():
    with pytest.raises(ArgumentError, match="argument A: expected a NumPy array"):
        framework_of([1, 2, 3], "A")
    with pytest.raises(ArgumentError, match="float99"):
        numpy_dtype("float99")


def test_subclasses_use_the_adapter_of_their_base():
    class Mine(np.ndarray):
        pass

    assert framework_of(np.zeros(3).view(Mine)).name == "numpy"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "float8_e4m3fn", "float8_e5m2"])
def test_torch_values_pass_through_numpy_unchanged(dtype):
    torch = pytest.importorskip("torch")
    adapter = framework_named("torch")
    tensor = torch.randn(5, 7).to(getattr(torch, dtype))
    host = adapter.to_numpy(tensor)
    assert host.dtype == numpy_dtype(dtype)
    np.testing.assert_array_equal(host.astype(np.float32), tensor.float().numpy())
    back = adapter.from_numpy(host)
    assert back.dtype == tensor.dtype and torch.equal(back.float(), tensor.float())


@pytest.mark.parametrize("dtype", ["bool", "float16", "int32", "float64", "bfloat16"])
def test_arrays_that_were_pickled_are_arrays(dtype):
    """NumPy's own types come out of a pickle as types that it does not call its own."""
    torch = pytest.importorskip("torch")
    host = pickle.loads(pickle.dumps(np.ones((2, 3), numpy_dtype(dtype))))
    tensor = framework_named("torch").from_numpy(host)
    assert tensor.dtype == getattr(torch, dtype) and tensor.float().sum() == 6


def test_a_sparse_tensor_is_refused():
    torch = pytest.importorskip("torch")
    sparse = torch.zeros(4, 4).to_sparse()
    with pytest.raises(ArgumentError, match="expected a dense tensor, got one of layout"):
        framework_of(sparse).probe(sparse)


def test_torch_facts_and_allocation():
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(8, 4, dtype=torch.bfloat16).t()
    adapter = framework_of(tensor)
    facts = adapter.facts(tensor)
    assert (facts.framework, facts.device, facts.dtype) == ("torch", "cpu", "bfloat16")
    assert facts.shape == (4, 8) and facts.strides == (1, 4)
    assert adapter.address(tensor) == tensor.data_ptr()
    for shape in ((3, 2), (5,), (), (2, 1, 7), (0, 4), (4, 0)):
        make = adapter.maker(shape, "bfloat16", tensor)
        made, another = make(), make()
        assert made.shape == shape and made.dtype == torch.bfloat16 and made.is_contiguous()
        assert made.stride() == torch.empty(shape).stride()
        assert 0 in shape or made.data_ptr() != another.data_ptr()
