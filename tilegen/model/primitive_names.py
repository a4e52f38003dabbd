"""Names of device primitives that depend on their parameters."""

from __future__ import annotations


def int4_function(pair: str, apart: str | int | bool) -> str:
    """The function that makes two floats of two 4-bit integers `apart` bits apart."""
    return f"int4_{'neighbours_' if apart == 4 else ''}to_{pair.removeprefix('__nv_')}"
