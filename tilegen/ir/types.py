"""Element types. Names are ml_dtypes'; fn and fnuz variants of fp8 are distinct types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tilegen.diagnostics import closest
from tilegen.errors import TilegenError

Kind = Literal["float", "int", "uint", "bool"]


class _Named(type):
    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        """`DType(name)` is the known type of that name; more arguments make one."""
        if len(arguments) == 1 and not keywords:
            return as_dtype(arguments[0])
        return super().__call__(*arguments, **keywords)


@dataclass(frozen=True, slots=True)
class DType(metaclass=_Named):
    """An element type: `bits` is its storage width. `DType("float16")` is the type of that name."""

    name: str
    bits: int
    kind: Kind

    @property
    def bytes(self) -> int:
        """Storage bytes; sub-byte types have none of their own.

        Raises:
            ValueError: for a type narrower than a byte.
        """
        if self.bits % 8:
            raise ValueError(f"{self.name} has no whole number of bytes")
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    def __str__(self) -> str:
        return self.name


float16 = DType("float16", 16, "float")
bfloat16 = DType("bfloat16", 16, "float")
float32 = DType("float32", 32, "float")
float64 = DType("float64", 64, "float")
float8_e4m3fn = DType("float8_e4m3fn", 8, "float")
float8_e5m2 = DType("float8_e5m2", 8, "float")
float8_e4m3fnuz = DType("float8_e4m3fnuz", 8, "float")
float8_e5m2fnuz = DType("float8_e5m2fnuz", 8, "float")
int4 = DType("int4", 4, "int")
uint4 = DType("uint4", 4, "uint")
int8 = DType("int8", 8, "int")
int16 = DType("int16", 16, "int")
int32 = DType("int32", 32, "int")
int64 = DType("int64", 64, "int")
uint8 = DType("uint8", 8, "uint")
uint16 = DType("uint16", 16, "uint")
uint32 = DType("uint32", 32, "uint")
uint64 = DType("uint64", 64, "uint")
bool_ = DType("bool", 8, "bool")

ALL = (
    float16, bfloat16, float32, float64, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz,
    int4, uint4, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool_,
)  # fmt: skip
BY_NAME = {dtype.name: dtype for dtype in ALL} | {
    "half": float16, "float": float32, "double": float64, "int": int32, "bf16": bfloat16, "fp16": float16,
}  # fmt: skip


def as_dtype(dtype: object) -> DType:
    """The DType that a user's spelling means: a DType, a name, or a dtype of NumPy's or PyTorch's.

    Raises:
        TilegenError: for an unknown name.
    """
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str):
        name = dtype
    elif isinstance(dtype, type):  # numpy.float16
        name = dtype.__name__.rstrip("_")
    else:
        name = getattr(dtype, "name", None) or str(dtype).removeprefix("torch.")
    if name in BY_NAME:
        return BY_NAME[name]
    close = closest(name, BY_NAME, 3)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    raise TilegenError(f"unknown element type {name!r}{hint}")


def spells_dtype(value: object) -> bool:
    """Whether a value is an element type, or NumPy's, ml_dtypes' or PyTorch's spelling of one. Python's own types,
    which name no width, are none."""
    if isinstance(value, type):
        return value.__module__ in ("numpy", "ml_dtypes")
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__}
    return isinstance(value, DType) or bool(kinds & {"numpy.dtype", "torch.dtype"})
