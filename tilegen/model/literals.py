"""C++ spellings of constants: integers with the suffix of their type, floats as short as they round-trip."""

from __future__ import annotations

import math

import numpy

from tilegen.errors import TilegenError

_SUFFIXES = {
    "unsigned int": "u",
    "unsigned": "u",
    "u32": "u",
    "long long": "ll",
    "i64": "ll",
    "unsigned long long": "ull",
    "u64": "ull",
    "size_t": "ull",
}
_NARROW_INTEGERS = (
    "signed char",
    "unsigned char",
    "short",
    "unsigned short",
    "i8",
    "u8",
    "i16",
    "u16",
    "char",
)
_HEXADECIMAL_FROM = 1 << 16
_FLOAT_OVERFLOW = float.fromhex("0x1.ffffffp127")  # rounds to infinity


class LiteralError(TilegenError):
    """A constant that its C++ type cannot hold."""


def literal(value: int | float | bool, type_name: str) -> str:
    """The constant as C++ source text; integers of unsigned types from 65,536 on are hexadecimal, and an int that is
    to be read so ("hex").

    Infinities and NaN are calls of the helpers `infinity()` and `not_a_number()`.

    Raises:
        LiteralError: for an integer that needs more than 64 bits, or a float beyond float32's range.
    """
    if isinstance(value, bool) or type_name == "bool":
        return "true" if value else "false"
    if type_name == "hex":
        return f"0x{value:X}"
    if type_name == "double":
        return _float_text(float(value), "double")
    if type_name == "float":
        return _float_text(float(value), "float")
    if isinstance(value, float):
        return f"{type_name}({_float_text(value, 'float')})"
    if type_name in ("int", "") or type_name in _SUFFIXES:
        return _integer_text(value, _SUFFIXES.get(type_name, ""))
    if type_name in _NARROW_INTEGERS:
        return f"{type_name}({value})" if " " not in type_name else f"static_cast<{type_name}>({value})"
    return f"{type_name}({_float_text(float(value), 'float')})"


def _integer_text(value: int, suffix: str) -> str:
    if not -(2**63) <= value < 2**64:
        raise LiteralError(f"{value} does not fit in 64 bits")
    if value == -(2**31) and not suffix:
        return "(-2147483647 - 1)"
    if value == -(2**63):
        return "(-9223372036854775807ll - 1)"
    if not suffix and not -(2**31) < value < 2**31:
        suffix = "ll" if value < 2**63 else "ull"
    if suffix in ("u", "ull") and value >= _HEXADECIMAL_FROM:
        return f"0x{value:X}{suffix}"
    return f"{value}{suffix}"


def _float_text(value: float, type_name: str) -> str:
    suffix = "f" if type_name == "float" else ""
    if math.isnan(value):
        return "not_a_number()" if suffix else "double(not_a_number())"
    if math.isinf(value):
        text = "infinity()" if suffix else "double(infinity())"
        return text if value > 0 else f"-{text}"
    if suffix and abs(value) >= _FLOAT_OVERFLOW:
        raise LiteralError(f"{value!r} is too large for a float of 32 bits; write T.inf for infinity")
    digits = str(numpy.float32(value)) if suffix else repr(value)
    mantissa, _, exponent = digits.partition("e")
    if exponent:
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}{suffix}"
    return f"{mantissa}{suffix}"
