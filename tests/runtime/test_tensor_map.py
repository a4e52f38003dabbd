"""Tensor maps: the driver gets what the recipe says, once an address; broken rules are named before it is asked."""

import ctypes

import pytest

from tilegen.errors import ArgumentError, DeviceError
from tilegen.runtime.tensor_map import TensorMapCache, TensorMapRecipe, check_recipe, encode
from tilegen.target import load_target

TMA = load_target("sm_90a").tma
RECIPE = TensorMapRecipe("A", "float16", (520, 1000), (1040,), (64, 128), 128, TMA)


class Driver:
    def __init__(self, status=0):
        self.status = status
        self.calls = []

    def encode_tensor_map(self, address, *rest):
        self.calls.append((address, rest))
        ctypes.memset(address, len(self.calls), 128)
        return self.status

    def check(self, status, what):
        if status:
            raise DeviceError(f"{what} failed")


def test_arguments_follow_the_driver_manual():
    driver = Driver()
    address, memory = encode(RECIPE, 0x7F0000000100, driver)
    assert address % 64 == 0
    assert ctypes.addressof(memory) <= address <= ctypes.addressof(memory) + len(memory) - 128
    (_, (dtype, rank, pointer, extents, strides, box, steps, interleave, swizzle, promotion, fill)) = (
        driver.calls[0]
    )
    assert (dtype, rank, pointer) == (6, 2, 0x7F0000000100)
    assert list(extents) == [520, 1000] and list(strides) == [1040]
    assert list(box) == [64, 128] and list(steps) == [1, 1]
    assert (interleave, swizzle, promotion, fill) == (0, 3, 2, 0)


def test_one_dimension_has_no_strides():
    driver = Driver()
    encode(TensorMapRecipe("v", "float32", (77,), (), (32,), 0, TMA), 4096, driver)
    assert driver.calls[0][1][1] == 1 and driver.calls[0][1][8] == 0


def test_each_address_is_encoded_once():
    driver = Driver()
    cache = TensorMapCache(RECIPE, driver)
    first = cache.address_of(0x1000)
    other = cache.address_of(0x2000)
    assert cache.address_of(0x1000) == first and cache.address_of(0x2000) == other
    assert len(driver.calls) == 2
    assert ctypes.string_at(first, 128) == b"\x01" * 128 and ctypes.string_at(other, 128) == b"\x02" * 128


def test_the_cache_is_bounded():
    driver = Driver()
    cache = TensorMapCache(RECIPE, driver)
    for page in range(3000):
        cache.address_of(4096 * (page + 1))
    assert len(cache._maps) <= 1024


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"strides": (1042,)}, "multiple of 16 bytes"),
        ({"extents": (520, 1 << 33)}, "extents up to"),
        ({"box": (64, 512)}, "boxes of 1 to 256"),
    ],
)
def test_broken_rules_are_named(change, sentence):
    fields = {"tensor": "A", "dtype": "float16", "extents": (520, 1000), "strides": (1040,), "box": (64, 128)}
    recipe = TensorMapRecipe(**{**fields, **change}, swizzle=128, limits=TMA)
    with pytest.raises(ArgumentError, match=sentence):
        check_recipe(recipe)


def test_misaligned_addresses_and_driver_errors():
    with pytest.raises(ArgumentError, match="0x1008"):
        encode(RECIPE, 0x1008, Driver())
    with pytest.raises(DeviceError, match="tensor map of A"):
        encode(RECIPE, 0x1000, Driver(status=1))


def test_empty_tensors_have_an_empty_map():
    driver = Driver()
    cache = TensorMapCache(TensorMapRecipe("A", "float16", (0, 1000), (0,), (64, 128), 128, TMA), driver)
    assert ctypes.string_at(cache.address_of(0x1008), 128) == bytes(128)
    assert driver.calls == []
