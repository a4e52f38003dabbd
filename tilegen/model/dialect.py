"""What CUDA and HIP spell differently, as tables: types, headers, shuffles, functions, names of the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilegen.errors import TilegenError
from tilegen.ir.types import DType
from tilegen.model.expressions import CallC, CExpr, Name


class DialectError(TilegenError):
    """A type or function that a language has no spelling for; `dtype` is the type."""

    def __init__(self, message: str, dtype: DType | None = None) -> None:
        self.dtype = dtype
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One language. `types` maps dtype names to C++ types, `headers` C++ types to the header that defines them,
    `native_functions` the functions of float32 to what the language calls them where that is not C's name."""

    language: str
    title: str
    types: Mapping[str, str]
    headers: Mapping[str, str]
    error_type: str
    stream_type: str
    prefix: str  # of the runtime's functions and constants
    suffix: str  # of the file
    shuffle: str  # the lane's partner is lane ^ mask
    any_lane: str  # whether a lane of the warp has something other than 0
    lane_mask: bool  # both take a mask of the lanes that take part
    native_functions: Mapping[str, str]
    half_functions: Mapping[str, str]  # of 16-bit floats, without a detour through float32

    def type_name(self, dtype: DType) -> str:
        """The C++ type of an element.

        Raises:
            DialectError: for an element that the language has no type for.
        """
        found = self.types.get(dtype.name)
        if found is None:
            raise DialectError(
                f"{self.title} has no C++ type for {dtype.name}; convert it, or use another target", dtype
            )
        return found

    def shuffle_xor(self, value: CExpr, mask: CExpr) -> CExpr:
        """`value` of the lane whose number differs by `mask`."""
        return CallC(Name(self.shuffle), (*self._lanes, value, mask))

    def any_of_warp(self, condition: CExpr) -> CExpr:
        """Whether the condition holds for a lane of the warp."""
        return CallC(Name(self.any_lane), (*self._lanes, condition))

    @property
    def _lanes(self) -> tuple[CExpr, ...]:
        return (Name("~0u"),) if self.lane_mask else ()


SHORT_NAMES = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
    "float8_e4m3fn": "fp8e4m3fn", "float8_e5m2": "fp8e5m2",
    "float8_e4m3fnuz": "fp8e4m3fnuz", "float8_e5m2fnuz": "fp8e5m2fnuz",
}  # fmt: skip
"""dtype names as the header comment writes them; integers keep theirs."""

_INTEGERS = {
    "int8": "i8", "int16": "i16", "int32": "int", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool",
}  # fmt: skip

CUDA = Dialect(
    language="cuda",
    title="CUDA",
    types=_INTEGERS
    | {
        "float16": "half",
        "bfloat16": "__nv_bfloat16",
        "float32": "float",
        "float64": "double",
        "float8_e4m3fn": "__nv_fp8_e4m3",
        "float8_e5m2": "__nv_fp8_e5m2",
    },
    headers={
        "half": "cuda_fp16.h",
        "half2": "cuda_fp16.h",
        "__nv_bfloat16": "cuda_bf16.h",
        "__nv_bfloat162": "cuda_bf16.h",
        "__nv_fp8_e4m3": "cuda_fp8.h",
        "__nv_fp8_e5m2": "cuda_fp8.h",
    },
    error_type="cudaError_t",
    stream_type="cudaStream_t",
    prefix="cuda",
    suffix="cu",
    shuffle="__shfl_xor_sync",
    any_lane="__any_sync",
    lane_mask=True,
    native_functions={"exp2": "exp2_approx"},
    half_functions={"max": "__hmax", "min": "__hmin"},
)

HIP = Dialect(
    language="hip",
    title="HIP",
    types=_INTEGERS | {"float16": "fp16", "bfloat16": "bf16", "float32": "float", "float64": "double"},
    headers={},
    error_type="hipError_t",
    stream_type="hipStream_t",
    prefix="hip",
    suffix="hip",
    shuffle="__shfl_xor",
    any_lane="__any",
    lane_mask=False,
    native_functions={"exp2": "exp2_approx"},
    half_functions={},
)

_DIALECTS = {"cuda": CUDA, "hip": HIP}


def dialect_of(language: str) -> Dialect:
    """The tables of a language, "cuda" or "hip".

    Raises:
        DialectError: for another name.
    """
    found = _DIALECTS.get(language)
    if found is None:
        raise DialectError(f"there is no language '{language}'; there are {', '.join(_DIALECTS)}")
    return found
