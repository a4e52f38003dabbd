"""TMA descriptors: what the manifest says of a tensor map, encoded by the driver and cached by address.

cuTensorMapEncodeTiled ("CUDA Driver API", Tensor Map Object Management) packs 128 opaque bytes, which the kernel
takes by value as `const __grid_constant__ CUtensorMap`.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Protocol

from tilegen.errors import ArgumentError
from tilegen.target import TmaLimits

_CACHE_LIMIT = 1024

# CUtensorMapDataType
DATA_TYPES = {
    "uint8": 0, "int8": 0, "bool": 0, "float8_e4m3fn": 0, "float8_e5m2": 0,
    "uint16": 1, "int16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5,
    "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle, by the span in bytes
_L2_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}  # CUtensorMapL2promotion, by the bytes that L2 reads at once


class Encoder(Protocol):
    """The driver call; see device_api.CudaApi."""

    def encode_tensor_map(self, *arguments: Any) -> int: ...

    def check(self, status: int, what: str) -> None: ...


@dataclass(frozen=True, slots=True)
class TensorMapRecipe:
    """A tensor map without its address. Fastest dimension first; `strides` are bytes of dimensions 1 and up, `limits`
    the target's."""

    tensor: str
    dtype: str
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int  # bytes: 0, 32, 64 or 128
    limits: TmaLimits


class TensorMapCache:
    """Encoded maps of one recipe by address. `address_of` is on the hot path: a dictionary look-up when warm."""

    def __init__(self, recipe: TensorMapRecipe, driver: Encoder) -> None:
        check_recipe(recipe)
        self._recipe = recipe
        self._driver = driver
        self._maps: dict[int, tuple[int, ctypes.Array[ctypes.c_char]]] = {}

    def address_of(self, pointer: int) -> int:
        """The address of the 128 encoded bytes for a tensor at `pointer`; valid until the next call."""
        found = self._maps.get(pointer)
        if found is not None:
            return found[0]
        if len(self._maps) >= _CACHE_LIMIT:
            self._maps.clear()
        encoded = encode(self._recipe, pointer, self._driver)
        self._maps[pointer] = encoded
        return encoded[0]


def check_recipe(recipe: TensorMapRecipe) -> None:
    """The rules of cuTensorMapEncodeTiled, checked here so that the error can say which one is broken.

    Raises:
        ArgumentError: a stride that is no multiple of 16 bytes, an extent over 2³², a box outside 1…256.
    """
    limits = recipe.limits
    if 0 in recipe.extents:
        return
    multiple, below = limits.global_stride_multiple, limits.global_stride_limit
    for stride in recipe.strides:
        if stride % multiple != 0 or not 0 < stride < below:
            raise ArgumentError(
                recipe.tensor,
                f"strides of a multiple of {multiple} bytes, below {_power(below)} (the TMA unit's rule)",
                f"a stride of {stride} bytes",
                "pad the tensor's rows, or emit for a target without TMA",
            )
    for extent in recipe.extents:
        if not 0 <= extent <= limits.global_extent_limit:
            raise ArgumentError(
                recipe.tensor,
                f"extents up to {_power(limits.global_extent_limit)} (the TMA unit's rule)",
                str(extent),
                "pass a smaller tensor",
            )
    for extent in recipe.box:
        if not 1 <= extent <= limits.box_extent:
            raise ArgumentError(
                recipe.tensor,
                f"boxes of 1 to {limits.box_extent} elements an axis (the TMA unit's rule)",
                str(extent),
                "use smaller tiles",
            )


def _power(limit: int) -> str:
    """A power of two as people write it."""
    return f"2**{limit.bit_length() - 1}" if limit & (limit - 1) == 0 else str(limit)


def encode(recipe: TensorMapRecipe, pointer: int, driver: Encoder) -> tuple[int, ctypes.Array[ctypes.c_char]]:
    """The address of the encoded map (aligned as the driver wants it) and the memory that holds it.

    Raises:
        ArgumentError: if the tensor's address is not aligned to 16 bytes.
        DeviceError: if the driver refuses.
    """
    limits = recipe.limits
    alignment = limits.descriptor_alignment
    memory = ctypes.create_string_buffer(limits.descriptor_bytes + alignment)
    address = -(-ctypes.addressof(memory) // alignment) * alignment
    if 0 in recipe.extents:  # nothing of the tensor will be moved
        return address, memory
    if pointer % limits.global_alignment != 0:
        raise ArgumentError(
            recipe.tensor,
            f"an address that is a multiple of {limits.global_alignment} bytes (the TMA unit's rule)",
            hex(pointer),
            "pass a contiguous copy instead of a view that starts inside another tensor",
        )
    rank = len(recipe.extents)
    status = driver.encode_tensor_map(
        address,
        DATA_TYPES[recipe.dtype],
        rank,
        pointer,
        (ctypes.c_uint64 * rank)(*recipe.extents),
        (ctypes.c_uint64 * max(rank - 1, 1))(*recipe.strides),
        (ctypes.c_uint32 * rank)(*recipe.box),
        (ctypes.c_uint32 * rank)(*(1,) * rank),
        0,  # CU_TENSOR_MAP_INTERLEAVE_NONE
        _SWIZZLES[recipe.swizzle],
        _L2_PROMOTIONS[limits.l2_promotion_bytes],
        0,  # CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE: zeros
    )
    driver.check(status, f"encoding the tensor map of {recipe.tensor}")
    return address, memory
