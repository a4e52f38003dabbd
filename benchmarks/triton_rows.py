"""Row kernels in plain Triton: a program a row, the whole row in registers."""

# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl


@triton.jit
def _softmax(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(y + row * columns + at, (powers / tl.sum(powers, 0)).to(y.dtype.element_ty), mask=inside)


@triton.jit
def _rms_norm(x, w, y, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, 0) / columns + epsilon)
    weight = tl.load(w + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * columns + at, (values * scale * weight).to(y.dtype.element_ty), mask=inside)


@triton.jit
def _layer_norm(x, w, b, y, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, values - tl.sum(values, 0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + epsilon)
    weight = tl.load(w + at, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(b + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * columns + at, (centred * scale * weight + bias).to(y.dtype.element_ty), mask=inside)


_KERNELS = {"softmax": _softmax, "rms_norm": _rms_norm, "layer_norm": _layer_norm}


def candidates(
    operation: str, inputs: tuple[Any, ...], output: Any, epsilon: float
) -> dict[str, Callable[[], Callable[[], Any]]]:
    """What makes the launch of a row kernel, for several numbers of warps."""
    rows, columns = inputs[0].shape
    kernel = _KERNELS[operation]
    scalars = (columns,) if operation == "softmax" else (columns, epsilon)

    def making(warps: int) -> Callable[[], Callable[[], Any]]:
        def run() -> None:
            kernel[(rows,)](*inputs, output, *scalars, BLOCK=triton.next_power_of_2(columns), num_warps=warps)

        return lambda: run

    return {f"{warps} warps": making(warps) for warps in (4, 8, 16, 32)}
