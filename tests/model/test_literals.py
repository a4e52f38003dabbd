"""Constants read back as the values that they stand for."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilegen.model.literals import LiteralError, literal


@pytest.mark.parametrize(
    ("value", "type_name", "text"),
    [
        (7, "int", "7"),
        (-7, "int", "-7"),
        (-(2**31), "int", "(-2147483647 - 1)"),
        (2**31, "int", "2147483648ll"),
        (2**63, "int", "0x8000000000000000ull"),
        (7, "u32", "7u"),
        (2**31, "u32", "0x80000000u"),
        (3, "long long", "3ll"),
        (-(2**63), "long long", "(-9223372036854775807ll - 1)"),
        (5, "u64", "5ull"),
        (5, "i8", "i8(5)"),
        (5, "signed char", "static_cast<signed char>(5)"),
        (True, "bool", "true"),
        (0, "bool", "false"),
        (0.0, "float", "0.0f"),
        (-0.0, "float", "-0.0f"),
        (1, "float", "1.0f"),
        (1.44269504, "float", "1.442695f"),
        (1e20, "float", "1e20f"),
        (1e-20, "float", "1e-20f"),
        (0.1, "double", "0.1"),
        (0.5, "half", "half(0.5f)"),
        (1, "__nv_bfloat16", "__nv_bfloat16(1.0f)"),
        (float("inf"), "float", "infinity()"),
        (float("-inf"), "float", "-infinity()"),
        (float("nan"), "float", "not_a_number()"),
        (float("-inf"), "half", "half(-infinity())"),
    ],
)
def test_spelling(value: int | float | bool, type_name: str, text: str) -> None:
    assert literal(value, type_name) == text


def test_more_than_64_bits_is_an_error() -> None:
    with pytest.raises(LiteralError, match="64 bits"):
        literal(2**64, "int")


def test_a_float_that_overflows_is_an_error() -> None:
    with pytest.raises(LiteralError, match="1e\\+39"):
        literal(1e39, "float")


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_round_trip(value: float) -> None:
    text = literal(value, "float")
    assert text.endswith("f") and ("." in text or "e" in text)
    assert numpy.float32(text[:-1]) == numpy.float32(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_round_trip(value: float) -> None:
    assert float(literal(value, "double")) == value
