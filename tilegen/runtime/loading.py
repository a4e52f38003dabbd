"""Loads a compiled image onto a device through CuPy's RawModule, and sets what a launch relies on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tilegen.errors import DeviceError
from tilegen.runtime.compilation import Image
from tilegen.runtime.device_api import DeviceApi, FunctionAttributes, cuda_api, hip_api


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A kernel on one device; `kernel`, CuPy's, keeps it loaded."""

    function: int
    attributes: FunctionAttributes
    multiprocessors: int
    driver: DeviceApi
    kernel: Any


def import_cupy() -> Any:
    """CuPy, which loads kernels.

    Raises:
        DeviceError: when it is not installed.
    """
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            f"CuPy is not installed ({error})\n"
            "  remedy: pip install 'tilegen[cuda13]' (or [cuda12], [rocm]), or pass NumPy arrays to run in the emulator"
        ) from error
    return cupy


def require_gpu(cupy: Any) -> None:
    """Raises DeviceError where CuPy finds no GPU that it can use."""
    try:
        count, reason = cupy.cuda.runtime.getDeviceCount(), "none is found"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        count, reason = 0, str(error)
    if count == 0:
        raise DeviceError(f"a GPU is needed here: {reason}\n  remedy: emulate(…) runs kernels without one")


def driver_of(cupy: Any) -> DeviceApi:
    """The driver that this CuPy is built for."""
    return hip_api() if cupy.cuda.runtime.is_hip else cuda_api()


def compute_capability(device: int) -> str:
    """A GPU's identifier as `devices.target_of_device` takes it: "9.0" or "gfx942:sramecc+"."""
    cupy = import_cupy()
    if cupy.cuda.runtime.is_hip:
        name = cupy.cuda.runtime.getDeviceProperties(device)["gcnArchName"]
        return name.decode() if isinstance(name, bytes) else str(name)
    major, minor = cuda_api().compute_capability(device)
    return f"{major}.{minor}"


def load(
    image: Image, kernel: str, dynamic_shared_bytes: int, device: int, unasked_shared_bytes: int
) -> LoadedKernel:
    """Loads the image on GPU `device` and raises the kernel's shared-memory limit where it wants more than the
    `unasked_shared_bytes` that every kernel may have.

    Raises:
        DeviceError: no CuPy, no driver, or an image that the device refuses.
    """
    cupy = import_cupy()
    driver = driver_of(cupy)
    path = image.file()
    try:
        with cupy.cuda.Device(device):
            raw = cupy.RawModule(path=str(path)).get_function(kernel)
            function = int(raw.kernel.ptr)
            attributes = driver.function_attributes(function)
            if dynamic_shared_bytes + attributes.static_shared_bytes > unasked_shared_bytes:
                driver.set_dynamic_shared_limit(function, dynamic_shared_bytes)
    except cupy.cuda.driver.CUDADriverError as error:
        raise DeviceError(f"loading {kernel} on device {device} failed: {error}") from error
    finally:
        if path != image.path:
            path.unlink(missing_ok=True)
    return LoadedKernel(function, attributes, driver.multiprocessors(device), driver, raw)


class CurrentDevice(threading.local):
    """Which device is current in a thread, and whether its context was ever made current there."""

    def __init__(self) -> None:
        self._entered = False
        self._query: Callable[[], int] = lambda: -1

    def elsewhere(self, device: int) -> bool:
        """Whether a launch on `device` needs `on(device)` around it."""
        if not self._entered:
            cupy = import_cupy()
            self._query = cupy.cuda.runtime.getDevice
            cupy.cuda.Device(self._query()).use()  # a thread begins without a context
            self._entered = True
        return self._query() != device

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Makes `device` current for a while."""
        with import_cupy().cuda.Device(device):
            yield
