"""Generates a tile program for a target and runs the emitted text in the emulator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import tilegen.language as T
from tilegen.driver import Generated, generate
from tilegen.emulate import run
from tilegen.frontend import parse

Array = np.ndarray[Any, Any]
TARGETS = ("sm_80", "sm_90a", "gfx942")
_DTYPES = {
    np.dtype(np.float16): T.float16,
    np.dtype(np.float32): T.float32,
    np.dtype(np.int32): T.int32,
    np.dtype(np.uint8): T.uint8,
    np.dtype(np.bool_): T.bool_,
    np.dtype(ml_dtypes.bfloat16): T.bfloat16,
}


def generated(program: Callable[..., Any], target: str, arrays: list[Array], **parameters: Any) -> Generated:
    """The emitted files for arguments of these shapes and types."""
    names = list(inspect.signature(program).parameters)[: len(arrays)]
    specs = {
        name: T.Tensor(array.shape, _DTYPES[array.dtype]) for name, array in zip(names, arrays, strict=True)
    }
    return generate(parse(program, specs, parameters), target)


def emulated(
    program: Callable[..., Any],
    target: str,
    arrays: list[Array],
    options: dict[str, Any] | None = None,
    **parameters: Any,
) -> tuple[Array, ...]:
    """What the emitted text computes."""
    files = generated(program, target, arrays, **parameters)
    result = run(files.source, files.manifest, arrays, **(options or {}))
    return result if isinstance(result, tuple) else (result,)


def kernel_text(files: Generated) -> str:
    """The kernel section of an emitted file."""
    text = files.source
    return text[text.index("- kernel\n") : text.index("- host\n")]


def relative_error(found: Array, expected: Array) -> float:
    difference = found.astype(np.float64) - expected
    return float(np.linalg.norm(difference) / max(np.linalg.norm(expected), 1e-30))
