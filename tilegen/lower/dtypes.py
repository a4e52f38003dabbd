"""C++ names of element types by language."""

from __future__ import annotations

from tilegen.ir.types import DType

_COMMON = {
    "float32": "float", "float64": "double", "int8": "signed char", "uint8": "unsigned char",
    "int16": "short", "uint16": "unsigned short", "int32": "int", "uint32": "u32",
    "int64": "long long", "uint64": "u64", "bool": "bool",
}  # fmt: skip
_NAMES = {
    "cuda": {**_COMMON, "float16": "half", "bfloat16": "__nv_bfloat16"},
    "hip": {**_COMMON, "float16": "fp16", "bfloat16": "bf16"},
}


def type_name(dtype: DType, language: str) -> str:
    """The C++ type of an element.

    Raises:
        KeyError: for a type that the language has no name for.
    """
    return _NAMES[language][dtype.name]
