"""The handful of driver calls that a launch needs, through ctypes: nothing to install but the driver itself.

CUDA: libcuda's cuLaunchKernel, cuMemsetD8Async, cuFuncGetAttribute, cuFuncSetAttribute, cuDeviceGetAttribute,
cuTensorMapEncodeTiled ("CUDA Driver API" reference manual). HIP: the calls of libamdhip64 with the same meaning.
"""

from __future__ import annotations

import ctypes
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol

from tilegen.errors import DeviceError

Platform = Literal["cuda", "hip"]

_WINDOWS = sys.platform == "win32"
_CUDA_LIBRARIES = ("nvcuda.dll",) if _WINDOWS else ("libcuda.so.1", "libcuda.so")
_HIP_NAMES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6")
_HIP_LIBRARIES = ("amdhip64.dll",) if _WINDOWS else _HIP_NAMES


@dataclass(frozen=True, slots=True)
class FunctionAttributes:
    """What the driver says of a loaded kernel; bytes of local memory are a thread's."""

    registers: int
    local_bytes: int
    static_shared_bytes: int
    max_threads: int


class DeviceApi(Protocol):
    """One platform's driver. Handles (functions, streams) are plain integers."""

    platform: Platform

    def launch_entry(self) -> Any:
        """The bare launch function, prepared for ctypes: function, grid x y z, block x y z, shared bytes, stream,
        parameter addresses, extra; returns a status."""

    def check(self, status: int, what: str) -> None:
        """Raises DeviceError with the driver's name of the error unless the status is success."""

    def memset_async(self, pointer: int, value: int, count: int, stream: int) -> None: ...

    def is_capturing(self, stream: int) -> bool:
        """Whether what is enqueued on the stream goes into a graph."""
        ...

    def function_attributes(self, function: int) -> FunctionAttributes: ...

    def set_dynamic_shared_limit(self, function: int, limit: int) -> None: ...

    def multiprocessors(self, device: int) -> int: ...

    def resident_clusters(self, function: int, blocks: int, threads: int, shared_bytes: int) -> int:
        """How many clusters of so many blocks the current device runs at once."""
        ...


class _Library:
    """A driver library with calls bound by name."""

    def __init__(self, names: tuple[str, ...], product: str) -> None:
        for name in names:
            try:
                # PyDLL keeps the interpreter lock: these calls only enqueue, and releasing it would cost more.
                self.handle = ctypes.PyDLL(name)
                return
            except OSError:
                continue
        raise DeviceError(
            f"{product} is not there (tried {', '.join(names)})\n"
            "  remedy: install the GPU's driver, or pass NumPy arrays to run the kernel in the emulator"
        )

    def bind(self, name: str, *types: Any) -> Any:
        try:
            function = getattr(self.handle, name)
        except AttributeError:
            raise DeviceError(
                f"the installed driver has no {name}\n  remedy: install a newer driver"
            ) from None
        function.argtypes = types
        function.restype = ctypes.c_int
        return function


_INT, _UINT, _SIZE, _POINTER = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p
_INT_POINTER = ctypes.POINTER(ctypes.c_int)
_LAUNCH_TYPES = (_POINTER, *(_UINT,) * 7, _POINTER, _POINTER, _POINTER)


class _ClusterShape(ctypes.Structure):
    """CUlaunchAttribute with CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION."""

    _fields_ = (
        ("id", _INT),
        ("pad", ctypes.c_char * 4),
        ("x", _UINT),
        ("y", _UINT),
        ("z", _UINT),
        ("rest", ctypes.c_char * 52),
    )


class _LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", _UINT * 3),
        ("block", _UINT * 3),
        ("shared_bytes", _UINT),
        ("stream", _POINTER),
        ("attributes", ctypes.POINTER(_ClusterShape)),
        ("count", _UINT),
    )


_CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION


class _Driver(ABC):
    """What both vendors' calls have in common once they are bound; the numbers of HIP's function attributes are
    CUDA's."""

    _launch: Any
    _memset: Any
    _capturing: Any
    _get_attribute: Any
    _device_attribute: Any

    def launch_entry(self) -> Any:
        return self._launch

    @abstractmethod
    def check(self, status: int, what: str) -> None: ...

    def memset_async(self, pointer: int, value: int, count: int, stream: int) -> None:
        self.check(self._memset(pointer, value, count, stream), "zeroing an output")

    def is_capturing(self, stream: int) -> bool:
        state = ctypes.c_int()
        return self._capturing(stream, ctypes.byref(state)) == 0 and state.value != 0

    def function_attributes(self, function: int) -> FunctionAttributes:
        # CU_FUNC_ATTRIBUTE_NUM_REGS, _LOCAL_SIZE_BYTES, _SHARED_SIZE_BYTES, _MAX_THREADS_PER_BLOCK
        return FunctionAttributes(*(self._attribute(function, number) for number in (4, 3, 1, 0)))

    def _attribute(self, function: int, number: int) -> int:
        value = ctypes.c_int()
        self.check(
            self._get_attribute(ctypes.byref(value), number, function), "reading a kernel's attributes"
        )
        return value.value

    def device_attribute(self, number: int, device: int) -> int:
        value = ctypes.c_int()
        status = self._device_attribute(ctypes.byref(value), number, device)
        self.check(status, "reading a device's attributes")
        return value.value


class CudaApi(_Driver):
    """libcuda. Assumes that a context is current, as CuPy and torch leave it."""

    platform: Platform = "cuda"

    def __init__(self) -> None:
        library = _Library(_CUDA_LIBRARIES, "NVIDIA's driver library")
        self._library = library
        self._launch = library.bind("cuLaunchKernel", *_LAUNCH_TYPES)
        self._memset = library.bind("cuMemsetD8Async", ctypes.c_uint64, ctypes.c_ubyte, _SIZE, _POINTER)
        self._capturing = library.bind("cuStreamIsCapturing", _POINTER, _INT_POINTER)
        self._get_attribute = library.bind("cuFuncGetAttribute", _INT_POINTER, _INT, _POINTER)
        self._set_attribute = library.bind("cuFuncSetAttribute", _POINTER, _INT, _INT)
        self._device_attribute = library.bind("cuDeviceGetAttribute", _INT_POINTER, _INT, _INT)
        self._error_name = library.bind("cuGetErrorName", _INT, ctypes.POINTER(ctypes.c_char_p))
        self._encode: Any = None
        self.check(library.bind("cuInit", _UINT)(0), "initialising the driver")

    def check(self, status: int, what: str) -> None:
        if status == 0:
            return
        name = ctypes.c_char_p()
        self._error_name(status, ctypes.byref(name))
        text = name.value.decode() if name.value else "unknown error"
        raise DeviceError(f"{what} failed: {text} ({status})")

    def set_dynamic_shared_limit(self, function: int, limit: int) -> None:
        # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.check(
            self._set_attribute(function, 8, limit), f"raising the shared-memory limit to {limit} bytes"
        )

    def multiprocessors(self, device: int) -> int:
        return self.device_attribute(16, device)  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

    def resident_clusters(self, function: int, blocks: int, threads: int, shared_bytes: int) -> int:
        shape = _ClusterShape(id=_CLUSTER_DIMENSION, x=blocks, y=1, z=1)
        config = _LaunchConfig(
            grid=(blocks, 1, 1),
            block=(threads, 1, 1),
            shared_bytes=shared_bytes,
            attributes=ctypes.pointer(shape),
            count=1,
        )
        count = ctypes.c_int()
        query = self._library.bind(
            "cuOccupancyMaxActiveClusters", _INT_POINTER, _POINTER, ctypes.POINTER(_LaunchConfig)
        )
        self.check(query(ctypes.byref(count), function, ctypes.byref(config)), "counting clusters")
        if count.value == 0:
            raise DeviceError(
                f"the device runs no cluster of {blocks} such blocks\n  remedy: smaller clusters, tiles or stages"
            )
        return count.value

    def compute_capability(self, device: int) -> tuple[int, int]:
        """(major, minor): CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""
        return self.device_attribute(75, device), self.device_attribute(76, device)

    def device_count(self) -> int:
        count = ctypes.c_int()
        self.check(
            self._library.bind("cuDeviceGetCount", _INT_POINTER)(ctypes.byref(count)), "counting devices"
        )
        return count.value

    def encode_tensor_map(self, *arguments: Any) -> int:
        """cuTensorMapEncodeTiled with its own arguments; returns the status."""
        if self._encode is None:
            self._encode = self._library.bind(
                "cuTensorMapEncodeTiled",
                _POINTER, _INT, ctypes.c_uint32, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER,
                _INT, _INT, _INT, _INT,
            )  # fmt: skip
        status: int = self._encode(*arguments)
        return status


class HipApi(_Driver):
    """libamdhip64."""

    platform: Platform = "hip"

    def __init__(self) -> None:
        library = _Library(_HIP_LIBRARIES, "AMD's HIP runtime library")
        self._launch = library.bind("hipModuleLaunchKernel", *_LAUNCH_TYPES)
        self._memset = library.bind("hipMemsetD8Async", _POINTER, ctypes.c_ubyte, _SIZE, _POINTER)
        self._capturing = library.bind("hipStreamIsCapturing", _POINTER, _INT_POINTER)
        self._get_attribute = library.bind("hipFuncGetAttribute", _INT_POINTER, _INT, _POINTER)
        self._device_attribute = library.bind("hipDeviceGetAttribute", _INT_POINTER, _INT, _INT)
        self._error_name = library.handle.hipGetErrorName
        self._error_name.argtypes = (_INT,)
        self._error_name.restype = ctypes.c_char_p
        self.check(library.bind("hipInit", _UINT)(0), "initialising the driver")

    def check(self, status: int, what: str) -> None:
        if status != 0:
            raise DeviceError(f"{what} failed: {self._error_name(status).decode()} ({status})")

    def set_dynamic_shared_limit(self, function: int, limit: int) -> None:
        """Nothing to do: all of a compute unit's LDS is available to every kernel."""

    def multiprocessors(self, device: int) -> int:
        return self.device_attribute(63, device)  # hipDeviceAttributeMultiprocessorCount

    def resident_clusters(self, function: int, blocks: int, threads: int, shared_bytes: int) -> int:
        raise DeviceError("AMD's devices run no clusters of blocks")


@cache
def cuda_api() -> CudaApi:
    """NVIDIA's driver.

    Raises:
        DeviceError: if it is not installed or finds no device.
    """
    return CudaApi()


@cache
def hip_api() -> HipApi:
    """AMD's runtime.

    Raises:
        DeviceError: if it is not installed or finds no device.
    """
    return HipApi()
