"""A call with everything decided but the addresses: packed once, launched with few instructions of Python."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from tilegen.calls.arrays import numpy_dtype
from tilegen.runtime.device_api import DeviceApi
from tilegen.runtime.tensor_map import TensorMapCache, TensorMapRecipe


@dataclass(frozen=True, slots=True)
class PointerSlot:
    """A kernel parameter that takes the address of the call's `tensor`-th array."""

    tensor: int


@dataclass(frozen=True, slots=True)
class TensorMapSlot:
    """A kernel parameter that takes a tensor map of the call's `tensor`-th array, by value."""

    tensor: int
    recipe: TensorMapRecipe


@dataclass(frozen=True, slots=True)
class ScalarSlot:
    """A kernel parameter whose bytes are known: an extent or a user's scalar."""

    data: bytes


@dataclass(frozen=True, slots=True)
class LiveScalarSlot:
    """A kernel parameter that takes the call's `scalar`-th number, as this NumPy dtype."""

    scalar: int
    dtype: str


Slot = PointerSlot | TensorMapSlot | ScalarSlot | LiveScalarSlot


@dataclass(frozen=True, slots=True)
class BoundCall:
    """One launch of one kernel for one set of shapes.

    `slots` are the kernel's parameters in order; `zeroed` names arrays (by position) and the bytes that are set to 0
    on the same stream first.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    slots: tuple[Slot, ...]
    zeroed: tuple[tuple[int, int], ...] = ()


class Launcher:
    """Launches a bound call of a loaded kernel; `launch` allocates nothing on the device and waits for nothing, so it
    can be captured into a CUDA graph.

    The driver copies the parameters during the call, so that one buffer serves all calls; a lock keeps threads apart.
    """

    __slots__ = (
        "_arguments",
        "_driver",
        "_empty",
        "_entry",
        "_lock",
        "_maps",
        "_pointers",
        "_scalars",
        "_storage",
        "_values",
        "_zeroed",
        "name",
    )

    def __init__(self, name: str, function: int, call: BoundCall, driver: DeviceApi) -> None:
        self.name = name
        self._driver = driver
        self._entry = driver.launch_entry()
        self._lock = threading.Lock()
        self._zeroed = call.zeroed
        self._empty = 0 in call.grid
        count = len(call.slots)
        self._arguments = (ctypes.c_void_p * max(count, 1))()
        self._values = (ctypes.c_uint64 * max(count, 1))()
        self._pointers: list[tuple[int, int]] = []
        self._maps: list[tuple[int, int, TensorMapCache]] = []
        self._scalars: list[tuple[int, numpy.ndarray[Any, Any]]] = []
        self._storage: list[ctypes.Array[ctypes.c_char]] = []
        for position, slot in enumerate(call.slots):
            self._place(position, slot, driver)
        self._prepare(function, call)

    def _place(self, position: int, slot: Slot, driver: DeviceApi) -> None:
        match slot:
            case PointerSlot(tensor):
                self._pointers.append((position, tensor))
                self._arguments[position] = ctypes.addressof(self._values) + 8 * position
            case TensorMapSlot(tensor, recipe):
                encoder: Any = driver  # only CUDA kernels have tensor maps
                self._maps.append((position, tensor, TensorMapCache(recipe, encoder)))
            case ScalarSlot(data):
                memory = ctypes.create_string_buffer(data, len(data))
                self._storage.append(memory)
                self._arguments[position] = ctypes.addressof(memory)
            case LiveScalarSlot(scalar, name):
                cell = numpy.zeros(1, numpy_dtype(name))
                self._scalars.append((scalar, cell))
                self._arguments[position] = cell.ctypes.data

    def _prepare(self, function: int, call: BoundCall) -> None:
        """Binds the constant arguments of the launch function as ctypes values, converted once."""
        entry = self._entry
        grid_x, grid_y, grid_z = (ctypes.c_uint(extent) for extent in call.grid)
        block_x, block_y, block_z = (ctypes.c_uint(extent) for extent in call.block)
        shared = ctypes.c_uint(call.shared_bytes)
        handle = ctypes.c_void_p(function)
        arguments = ctypes.cast(self._arguments, ctypes.c_void_p)

        def enqueue(stream: int) -> int:
            status: int = entry(
                handle, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments, None
            )
            return status

        self._entry = enqueue

    def again(self, stream: int) -> int:
        """Enqueues the kernel with the parameters of the launch before and returns the driver's status: a launch
        without its Python, for who measures that."""
        status: int = self._entry(stream)
        return status

    def captures(self, stream: int) -> bool:
        """Whether a launch on the stream goes into a graph."""
        return self._driver.is_capturing(stream)

    def clear(self, pointer: int, count: int, stream: int) -> None:
        """Sets `count` bytes to 0 on the stream."""
        if count:
            self._driver.memset_async(pointer, 0, count, stream)

    def launch(
        self, pointers: Sequence[int], stream: int, scalars: Sequence[int | float | bool] = ()
    ) -> None:
        """Enqueues the kernel on `stream` for arrays at these addresses (in the order of the kernel's tensors).

        Raises:
            ArgumentError: an address that is not aligned for the TMA unit.
            DeviceError: what the driver reports.
        """
        for tensor, count in self._zeroed:
            self._driver.memset_async(pointers[tensor], 0, count, stream)
        if self._empty:
            return
        with self._lock:
            values = self._values
            for position, tensor in self._pointers:
                values[position] = pointers[tensor]
            arguments = self._arguments
            for position, tensor, maps in self._maps:
                arguments[position] = maps.address_of(pointers[tensor])
            for scalar, cell in self._scalars:
                cell[0] = scalars[scalar]
            status = self._entry(stream)
        if status:
            self._driver.check(status, f"launching {self.name}")
