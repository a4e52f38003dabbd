"""C++ functions behind the scalar functions of the tile language, by type."""

from __future__ import annotations

FLOAT_FUNCTIONS = {
    name: f"{name}f"
    for name in (
        "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "cbrt", "sin", "cos", "tan",
        "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "erf", "pow", "fma", "fmod", "hypot", "copysign",
        "floor", "ceil", "trunc",
    )
} | {"round": "rintf", "abs": "fabsf", "max": "fmaxf", "min": "fminf"}  # fmt: skip
"""float32; a double's name lacks the last letter. `round` takes halves to even."""

CLASSIFICATIONS = ("isnan", "isinf", "isfinite")

INTEGER_FUNCTIONS = {"abs": "abs", "max": "max", "min": "min"}


def float_function(name: str, double: bool) -> str | None:
    """The C++ name of a function of float32 or float64; None where there is none."""
    found = FLOAT_FUNCTIONS.get(name)
    if found is None:
        return None
    return found[:-1] if double else found
