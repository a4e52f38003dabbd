"""Arrays of NumPy, CuPy and torch, seen alike: pointer, dtype, shape, strides, device.

No framework is imported here until one of its arrays comes in, so `import tilegen` stays light and nothing but
NumPy is needed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy

from tilegen.errors import ArgumentError
from tilegen.ir.types import BY_NAME

Key = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """What a kernel's contract can ask of an array. Strides are in elements, `alignment` in bytes (16 at most)."""

    framework: str
    device: str  # "cpu" or "gpu:<index>"
    dtype: str  # ml_dtypes' name
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    alignment: int

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    @property
    def device_index(self) -> int:
        """The GPU's number.

        Raises:
            ValueError: for an array in host memory.
        """
        if not self.on_gpu:
            raise ValueError("an array in host memory has no device index")
        return int(self.device.partition(":")[2])

    @property
    def row_major(self) -> bool:
        return is_row_major(self.shape, self.strides)


class Framework(Protocol):
    """What the runtime asks of an array library. `probe` is on the hot path."""

    name: str

    def probe(self, array: Any) -> tuple[int, Key]:
        """The address of the first element, and a key that decides which kernel fits."""

    def facts(self, array: Any) -> ArrayFacts: ...

    def address(self, array: Any) -> int:
        """The address of the first element alone."""

    def maker(self, shape: Sequence[int], dtype: str, like: Any) -> Callable[[], Any]:
        """What makes row-major arrays on the device of `like`, not initialised; does not keep `like`."""

    def stream(self, device: int) -> int:
        """The handle of the stream that the framework currently enqueues on."""

    def to_numpy(self, array: Any) -> numpy.ndarray[Any, Any]:
        """The same values in host memory; shares memory where the array lives there already."""

    def from_numpy(self, array: numpy.ndarray[Any, Any]) -> Any: ...


def alignment_class(pointer: int) -> int:
    """The largest power of two up to 16 that divides an address; what vector and TMA accesses depend on."""
    return 16 if pointer & 15 == 0 else pointer & -pointer


def is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements follow each other without gaps, last axis fastest; strides of extents of 1 do not matter, nor do
    those of arrays without elements."""
    if 0 in shape:
        return True
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of an array without gaps; extents of 0 count as 1, as torch has it."""
    return tuple(math.prod(max(extent, 1) for extent in shape[axis + 1 :]) for axis in range(len(shape)))


def numpy_dtype(name: str) -> numpy.dtype[Any]:
    """NumPy's dtype for a name of ml_dtypes or NumPy.

    Raises:
        ArgumentError: if neither knows the name.
    """
    try:
        return numpy.dtype(name)
    except TypeError:
        pass
    import ml_dtypes

    scalar = getattr(ml_dtypes, name, None)
    if scalar is None:
        raise ArgumentError(
            "dtype", "an element type of NumPy or ml_dtypes", name, "use one of tilegen's dtypes"
        )
    dtype: numpy.dtype[Any] = numpy.dtype(scalar)
    return dtype


def element_strides(array: numpy.ndarray[Any, Any]) -> tuple[int, ...]:
    """Strides in elements.

    Raises:
        ArgumentError: if a stride is no whole number of elements (a view into a structured array), or runs backwards.
    """
    size = array.dtype.itemsize
    if any(stride < 0 for stride, extent in zip(array.strides, array.shape, strict=True) if extent > 1):
        raise ArgumentError(
            "array",
            "strides of 0 or more",
            f"strides of {array.strides} bytes",
            "pass a contiguous copy of the array, which runs backwards",
        )
    if any(stride % size for stride in array.strides):
        raise ArgumentError(
            "array",
            f"strides that are multiples of the element's {size} bytes",
            f"strides of {array.strides} bytes",
            "pass a contiguous copy of the array",
        )
    return tuple(abs(stride) // size for stride in array.strides)  # one element does not run backwards


class NumpyFramework:
    """Host arrays; kernels on them run in the emulator."""

    name = "numpy"

    def probe(self, array: numpy.ndarray[Any, Any]) -> tuple[int, Key]:
        pointer = array.ctypes.data
        return pointer, ("numpy", array.dtype, array.shape, array.strides, alignment_class(pointer))

    def facts(self, array: numpy.ndarray[Any, Any]) -> ArrayFacts:
        if not array.dtype.isnative:
            raise ArgumentError(
                "array",
                "elements in the machine's own byte order",
                f"dtype {array.dtype.str}",
                "convert it: array.astype(array.dtype.newbyteorder('='))",
            )
        return ArrayFacts(
            "numpy",
            "cpu",
            array.dtype.name,
            array.shape,
            element_strides(array),
            alignment_class(array.ctypes.data),
        )

    def address(self, array: numpy.ndarray[Any, Any]) -> int:
        pointer: int = array.ctypes.data
        return pointer

    def maker(self, shape: Sequence[int], dtype: str, like: Any) -> Callable[[], numpy.ndarray[Any, Any]]:
        return partial(numpy.empty, tuple(shape), numpy_dtype(dtype))

    def stream(self, device: int) -> int:
        return 0

    def to_numpy(self, array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
        return array

    def from_numpy(self, array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
        return array


class CupyFramework:
    """CuPy arrays, on CUDA or ROCm."""

    name = "cupy"

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy
        self._current_stream = cupy.cuda.get_current_stream

    def probe(self, array: Any) -> tuple[int, Key]:
        data = array.data
        pointer: int = data.ptr
        key = ("cupy", data.device_id, array.dtype, array.shape, array.strides, alignment_class(pointer))
        return pointer, key

    def facts(self, array: Any) -> ArrayFacts:
        return ArrayFacts(
            "cupy",
            f"gpu:{array.data.device_id}",
            array.dtype.name,
            tuple(array.shape),
            element_strides(array),
            alignment_class(array.data.ptr),
        )

    def address(self, array: Any) -> int:
        pointer: int = array.data.ptr
        return pointer

    def maker(self, shape: Sequence[int], dtype: str, like: Any) -> Callable[[], Any]:
        cupy, device = self._cupy, like.data.device_id
        extents, kind = tuple(shape), numpy_dtype(dtype)

        def make() -> Any:
            with cupy.cuda.Device(device):
                return cupy.empty(extents, kind)

        return make

    def stream(self, device: int) -> int:
        handle: int = self._current_stream(device).ptr
        return handle

    def to_numpy(self, array: Any) -> numpy.ndarray[Any, Any]:
        host: numpy.ndarray[Any, Any] = self._cupy.asnumpy(array)
        return host

    def from_numpy(self, array: numpy.ndarray[Any, Any]) -> Any:
        return self._cupy.asarray(array)


class TorchFramework:
    """torch tensors: on a GPU (CUDA or ROCm) they are launched on, in host memory they are emulated."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        # The raw handle of the current stream without building a Stream object (about 1 µs less a call).
        self._raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

    def probe(self, array: Any) -> tuple[int, Key]:
        try:
            pointer: int = array.data_ptr()
        except RuntimeError:  # a sparse tensor, say
            raise ArgumentError(
                "array", "a dense tensor", f"one of layout {array.layout}", "pass tensor.to_dense()"
            ) from None
        key = (array.dtype, array.device, array.shape, array.stride(), alignment_class(pointer))
        return pointer, key

    def facts(self, array: Any) -> ArrayFacts:
        device = array.device
        if device.type not in ("cpu", "cuda"):
            raise ArgumentError(
                "array",
                "a CUDA or ROCm tensor, or one in host memory",
                f"one on {device}",
                "move it with .cuda() or .cpu()",
            )
        return ArrayFacts(
            "torch",
            "cpu" if device.type == "cpu" else f"gpu:{device.index}",
            torch_dtype_name(array.dtype),
            tuple(array.shape),
            tuple(array.stride()),
            alignment_class(array.data_ptr()),
        )

    def address(self, array: Any) -> int:
        pointer: int = array.data_ptr()
        return pointer

    def maker(self, shape: Sequence[int], dtype: str, like: Any) -> Callable[[], Any]:
        # With its strides named, torch makes a tensor in half the time of torch.empty.
        strides = row_major_strides(shape)
        made = self._torch.empty_strided
        return partial(made, tuple(shape), strides, dtype=getattr(self._torch, dtype), device=like.device)

    def stream(self, device: int) -> int:
        if self._raw_stream is not None:
            handle: int = self._raw_stream(device)
            return handle
        slow: int = self._torch.cuda.current_stream(device).cuda_stream
        return slow

    def to_numpy(self, array: Any) -> numpy.ndarray[Any, Any]:
        host = array.detach().cpu()
        dtype = numpy_dtype(torch_dtype_name(array.dtype))
        bits = {1: self._torch.uint8, 2: self._torch.int16}.get(host.element_size())
        if bits is None or dtype.isbuiltin != 2:
            values: numpy.ndarray[Any, Any] = host.numpy()
            return values
        # NumPy has no such type of its own (bfloat16, fp8): the bits go over as integers.
        raw: numpy.ndarray[Any, Any] = host.view(bits).numpy()
        return raw.view(dtype)

    def from_numpy(self, array: numpy.ndarray[Any, Any]) -> Any:
        if array.dtype.isbuiltin != 2:
            return self._torch.from_numpy(array)
        bits = numpy.dtype({1: "uint8", 2: "int16"}[array.dtype.itemsize])
        return self._torch.from_numpy(array.view(bits)).view(getattr(self._torch, array.dtype.name))


def torch_dtype_name(dtype: Any) -> str:
    """`torch.bfloat16` is "bfloat16"."""
    return str(dtype).removeprefix("torch.")


_MAKERS: dict[str, type[NumpyFramework] | type[CupyFramework] | type[TorchFramework]] = {
    "numpy": NumpyFramework,
    "cupy": CupyFramework,
    "torch": TorchFramework,
}
_BY_NAME: dict[str, Framework] = {}
_BY_TYPE: dict[type, Framework] = {}


def framework_named(name: str) -> Framework:
    """The adapter of "numpy", "cupy" or "torch"; imports the library."""
    if name not in _BY_NAME:
        _BY_NAME[name] = _MAKERS[name]()
    return _BY_NAME[name]


def framework_of(array: Any, argument: str = "array") -> Framework:
    """The adapter for an array's type.

    Raises:
        ArgumentError: if it is no NumPy, CuPy or torch array.
    """
    kind = type(array)
    found = _BY_TYPE.get(kind)
    if found is not None:
        return found
    for base in kind.__mro__:
        root = base.__module__.partition(".")[0]
        if root in _MAKERS and root in sys.modules and is_array(array):
            return _BY_TYPE.setdefault(kind, framework_named(root))
    raise ArgumentError(
        argument,
        "a NumPy array, a CuPy array or a torch tensor",
        f"{kind.__module__}.{kind.__qualname__}",
        "convert it first, e.g. with numpy.asarray or torch.as_tensor",
    )


def facts_of(array: Any, argument: str) -> ArrayFacts:
    """What a kernel's contract can ask of the array that is given for an argument.

    Raises:
        ArgumentError: naming the argument, if it is no array, or one that no kernel takes.
    """
    framework = framework_of(array, argument)
    try:
        facts = framework.facts(array)
    except ArgumentError as error:
        raise ArgumentError(argument, error.expected, error.got, error.remedy) from None
    if facts.dtype not in BY_NAME:
        raise ArgumentError(
            argument, "an element type of the tile language", facts.dtype, "convert it, to float32, say"
        )
    return facts


def is_array(value: Any) -> bool:
    """Whether a value is an array of some framework; NumPy's scalars are numbers, and their types are none."""
    return (
        not isinstance(value, (int, float, bool, str, type, numpy.generic))
        and hasattr(value, "shape")
        and hasattr(value, "dtype")
    )


def all_known(values: Iterable[Any]) -> bool:
    """Whether every value is of a type that `framework_of` has seen: a quick test for the hot path."""
    return all(map(_BY_TYPE.__contains__, map(type, values)))


def row_major_bytes(shape: Sequence[int], dtype: str) -> int:
    """The bytes of an array without gaps."""
    return math.prod(shape) * numpy_dtype(dtype).itemsize
