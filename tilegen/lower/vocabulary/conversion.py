"""Pairs of 16-bit elements: the type that holds two, and how two values become one."""

from __future__ import annotations

from tilegen.errors import TilegenError
from tilegen.ir.expressions import Cast, Expr, Load
from tilegen.ir.nodes import AtomicTile, Copy
from tilegen.ir.types import DType, float32
from tilegen.lower.vocabulary.context import Context
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Reinterpret

PAIRS = {"float16": ("half2", "__floats2half2_rn"), "bfloat16": ("__nv_bfloat162", "__floats2bfloat162_rn")}


def pair_type(dtype: DType) -> str:
    """The CUDA type of two elements.

    Raises:
        TilegenError: for a dtype without one.
    """
    if dtype.name not in PAIRS:
        raise TilegenError(f"CUDA has no pair of {dtype}")
    return PAIRS[dtype.name][0]


def packed_pair(context: Context, copy: Copy | AtomicTile, low: CExpr, high: CExpr) -> CExpr:
    """Two neighbouring elements of the copy's source, converted to a pair of its target's type."""
    source, target = copy.source.buffer.dtype, copy.target.buffer.dtype
    if source == target:
        return Reinterpret(pair_type(target), low, const=True)
    return c.call(PAIRS[target.name][1], low, high)


def stored_element(value: Expr) -> Load | None:
    """The 16-bit element that a store writes as it is or rounds from fp32; None for any other value."""
    match value:
        case Load():
            return value if value.dtype.bits == 16 else None
        case Cast(Load() as load) if load.dtype == float32:
            return load
        case _:
            return None
