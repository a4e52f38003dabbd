"""A launch hands the driver the right parameters, with a fake driver that reads them as the hardware would."""

import ctypes
import struct
import threading
import time

import pytest

from tilegen.errors import DeviceError
from tilegen.runtime.launch import BoundCall, Launcher, PointerSlot, ScalarSlot, TensorMapSlot
from tilegen.runtime.tensor_map import TensorMapRecipe
from tilegen.target import load_target

PARAMETER_BYTES = {"pointer": 8, "map": 128, "int": 4}


class FakeDriver:
    """Copies the parameters out of the addresses that a launch passes."""

    platform = "cuda"

    def __init__(self, layout, status=0):
        self.layout = layout
        self.status = status
        self.launches = []
        self.memsets = []

    def launch_entry(self):
        return self._launch

    def _launch(self, function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra):
        addresses = ctypes.cast(arguments, ctypes.POINTER(ctypes.c_void_p))
        parameters = [
            ctypes.string_at(addresses[position], PARAMETER_BYTES[kind])
            for position, kind in enumerate(self.layout)
        ]
        sizes = tuple(value.value for value in (gx, gy, gz, bx, by, bz, shared))
        self.launches.append((function.value, sizes, stream, parameters))
        assert extra is None
        return self.status

    def check(self, status, what):
        if status:
            raise DeviceError(f"{what} failed ({status})")

    def memset_async(self, pointer, value, count, stream):
        self.memsets.append((pointer, value, count, stream, len(self.launches)))

    def encode_tensor_map(self, address, dtype, rank, pointer, *rest):
        ctypes.memmove(address, struct.pack("<QQ", pointer, rank) + bytes(112), 128)
        return 0


def recipe(name):
    return TensorMapRecipe(name, "float16", (64, 64), (128,), (64, 64), 128, load_target("sm_90a").tma)


def test_parameters_reach_the_driver_in_order():
    driver = FakeDriver(["map", "pointer", "int", "int", "pointer"])
    slots = (
        TensorMapSlot(1, recipe("B")),
        PointerSlot(2),
        ScalarSlot(struct.pack("<i", -5)),
        ScalarSlot(struct.pack("<i", 4096)),
        PointerSlot(0),
    )
    launcher = Launcher("k", 0xABC, BoundCall((3, 2, 1), (128, 1, 1), 4096, slots), driver)
    for base in (0x1000, 0x9000, 0x1000):
        launcher.launch((base, base + 0x100, base + 0x200), 77)
        function, sizes, stream, parameters = driver.launches[-1]
        assert (function, sizes, stream) == (0xABC, (3, 2, 1, 128, 1, 1, 4096), 77)
        assert struct.unpack("<QQ", parameters[0][:16]) == (base + 0x100, 2)
        assert [struct.unpack("<Q", parameters[i])[0] for i in (1, 4)] == [base + 0x200, base]
        assert [struct.unpack("<i", parameters[i])[0] for i in (2, 3)] == [-5, 4096]


def test_outputs_are_zeroed_on_the_same_stream_before_the_launch():
    driver = FakeDriver(["pointer", "pointer"])
    call = BoundCall((1, 1, 1), (32, 1, 1), 0, (PointerSlot(0), PointerSlot(1)), zeroed=((1, 512),))
    Launcher("k", 1, call, driver).launch((0x10, 0x20), 5)
    assert driver.memsets == [(0x20, 0, 512, 5, 0)]


def test_a_driver_error_names_the_kernel():
    driver = FakeDriver(["pointer"], status=700)
    launcher = Launcher("matmul", 1, BoundCall((1, 1, 1), (32, 1, 1), 0, (PointerSlot(0),)), driver)
    with pytest.raises(DeviceError, match=r"launching matmul failed \(700\)"):
        launcher.launch((0x10,), 0)


def test_threads_do_not_mix_their_parameters():
    class SlowDriver(FakeDriver):
        def _launch(self, *arguments):
            time.sleep(0.0005)  # lets the other threads run between packing and launching
            return super()._launch(*arguments)

    driver = SlowDriver(["pointer", "pointer"])
    launcher = Launcher("k", 1, BoundCall((1, 1, 1), (1, 1, 1), 0, (PointerSlot(0), PointerSlot(1))), driver)

    def work(base):
        for _ in range(20):
            launcher.launch((base, base + 1), base)

    threads = [threading.Thread(target=work, args=(1000 * (n + 1),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(driver.launches) == 80
    for _, _, stream, parameters in driver.launches:
        assert [struct.unpack("<Q", data)[0] for data in parameters] == [stream, stream + 1]
