"""A stand-in for a GPU: arrays that say they live on one, and a driver that records what it is asked to launch."""

import ctypes
import struct
from contextlib import nullcontext

import numpy as np

from tilegen.calls import arrays
from tilegen.calls.arrays import ArrayFacts, alignment_class, element_strides
from tilegen.errors import DeviceError
from tilegen.runtime.device_api import FunctionAttributes
from tilegen.runtime.loading import LoadedKernel


class GpuArray:
    """Host memory that claims to be on GPU `device`."""

    def __init__(self, values, device=0):
        self.values = values
        self.device = device

    @property
    def shape(self):
        return self.values.shape

    @property
    def dtype(self):
        return self.values.dtype

    @property
    def T(self):
        return GpuArray(self.values.T, self.device)


class GpuFramework:
    name = "stand-in"
    current_stream = 7

    def __init__(self):
        self.allocations = 0

    def probe(self, array):
        pointer = array.values.ctypes.data
        values = array.values
        return pointer, (array.device, values.dtype, values.shape, values.strides, alignment_class(pointer))

    def facts(self, array):
        values = array.values
        return ArrayFacts(
            "stand-in",
            f"gpu:{array.device}",
            values.dtype.name,
            values.shape,
            element_strides(values),
            alignment_class(values.ctypes.data),
        )

    def address(self, array):
        return self.probe(array)[0]

    def maker(self, shape, dtype, like):
        device = like.device

        def make():
            self.allocations += 1
            return GpuArray(aligned(shape, dtype), device)

        return make

    def stream(self, device):
        return self.current_stream

    def to_numpy(self, array):
        return array.values

    def from_numpy(self, array):
        return GpuArray(array)


def aligned(shape, dtype):
    """A NumPy array that starts at a multiple of 256 bytes, as GPU allocations do."""
    dtype = arrays.numpy_dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    memory = np.zeros(count * dtype.itemsize + 256, np.uint8)
    start = -memory.ctypes.data % 256
    return memory[start : start + count * dtype.itemsize].view(dtype).reshape(shape)


def gpu(shape, dtype="float16", device=0):
    return GpuArray(aligned(shape, dtype), device)


class RecordingDriver:
    """Reads each launch's parameters as the hardware would; `sizes` are their bytes."""

    platform = "cuda"

    def __init__(self, sizes):
        self.sizes = sizes
        self.launches = []
        self.memsets = []
        self.capturing = set()
        self.limits = {}

    def launch_entry(self):
        return self._launch

    def _launch(self, function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra):
        addresses = ctypes.cast(arguments, ctypes.POINTER(ctypes.c_void_p))
        parameters = [ctypes.string_at(addresses[i], size) for i, size in enumerate(self.sizes)]
        sizes = tuple(value.value for value in (gx, gy, gz, bx, by, bz, shared))
        self.launches.append((function.value, sizes, stream, parameters))
        return 0

    def check(self, status, what):
        if status:
            raise DeviceError(f"{what} failed")

    def is_capturing(self, stream):
        return stream in self.capturing

    def memset_async(self, pointer, value, count, stream):
        self.memsets.append((pointer, value, count, stream))

    def encode_tensor_map(self, address, dtype, rank, pointer, extents, strides, box, *rest):
        data = struct.pack("<QQ", pointer, rank) + struct.pack(f"<{rank}Q", *extents)
        ctypes.memmove(address, data.ljust(128, b"\0"), 128)
        return 0

    def loaded(self, image, kernel, shared, device, unasked):
        self.limits[device] = shared
        return LoadedKernel(0x1000 + device, FunctionAttributes(32, 0, 0, 1024), 132, self, object())


class CurrentDevice:
    """Device 0 is current."""

    def __init__(self):
        self.entered = []

    def elsewhere(self, device):
        return device != 0

    def on(self, device):
        self.entered.append(device)
        return nullcontext()
