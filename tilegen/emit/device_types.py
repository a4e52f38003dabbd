"""The device types that a file defines for itself: short integer names, and on HIP floats and vectors."""

from __future__ import annotations

import re

_INTEGERS = {
    "i8": "signed char",
    "u8": "unsigned char",
    "i16": "short",
    "u16": "unsigned short",
    "u32": "unsigned int",
    "i32": "int",
    "i64": "long long",
    "u64": "unsigned long long",
}
_HIP_FLOATS = {"fp16": "_Float16", "bf16": "__bf16", "fp32": "float", "fp64": "double"}
_VECTOR = re.compile(r"\b((?:fp16|bf16|fp32|fp64|[iu](?:8|16|32|64))x(\d+))\b")


def device_types(text: str, language: str) -> list[str]:
    """`using` lines for the type names that occur in `text` (comments left out), each after those that it needs."""
    code = re.sub(r"//.*", "", text)
    words = set(re.findall(r"\b[A-Za-z]\w*\b", code))
    scalars = dict(_INTEGERS) | (_HIP_FLOATS if language == "hip" else {})
    vectors: dict[str, int] = {}
    if language == "hip":
        vectors = {name: int(count) for name, count in _VECTOR.findall(code)}
        words |= {
            _element(name) for name in vectors if _element(name) in ("fp16", "bf16", "u32", "u64", "i8", "u8")
        }
    lines = [f"using {name} = {meaning};" for name, meaning in scalars.items() if name in words]
    order = sorted(vectors, key=lambda name: (list(scalars).index(_element(name)), vectors[name]))
    for name in order:
        element = _element(name)
        spelled = element if element in words else scalars[element]
        lines.append(f"using {name} = {spelled} __attribute__((ext_vector_type({vectors[name]})));")
    return lines


def _element(vector: str) -> str:
    return vector.rpartition("x")[0]
