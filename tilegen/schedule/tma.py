"""Which copies the TMA unit can do, and why not the others.

Source: CUDA Driver API, cuTensorMapEncodeTiled; PTX ISA, "cp.async.bulk.tensor".
"""

from __future__ import annotations

from math import gcd

from tilegen.inference.decisions import Decisions
from tilegen.inference.shared import SharedLayout
from tilegen.inference.vector_access import strides
from tilegen.ir.affine import Ranges, divisor_of
from tilegen.ir.expressions import Const, Expr
from tilegen.ir.nodes import Buffer, Region
from tilegen.schedule.analysis import loaded
from tilegen.schedule.ranges import may_begin_before
from tilegen.target import Target


def constant(expr: Expr) -> int | None:
    return int(expr.value) if isinstance(expr, Const) else None


def pitch_problem(buffer: Buffer, decisions: Decisions, target: Target) -> str | None:
    """Why a tensor's rows cannot be described to the TMA unit; None when they can."""
    assert target.tma is not None
    multiple = target.tma.global_stride_multiple
    if buffer.rank > target.tma.rank:
        return f"{buffer.name} has {buffer.rank} axes, a tensor map at most {target.tma.rank}"
    if buffer.dtype.bits < 8:
        return f"{buffer.dtype} elements have no tensor map"
    steps = strides(buffer)
    if constant(steps[-1]) != 1:
        return f"the last axis of {buffer.name} is not contiguous"
    for axis, step in enumerate(steps[:-1]):
        if divisor_of(step, decisions.divisors) * buffer.dtype.bytes % multiple:
            known = constant(step)
            distance = "an unknown distance" if known is None else f"{known * buffer.dtype.bytes} bytes"
            return f"axis {axis} of {buffer.name} steps by {distance}, not a multiple of {multiple} bytes"
    return None


def place_problem(region: Region, decisions: Decisions, target: Target) -> str | None:
    """Why boxes cannot begin where a region does; None when they can. Along the other axes they begin anywhere."""
    assert target.tma is not None
    multiple = target.tma.place_multiple_bytes
    first = divisor_of(region.offsets[-1], decisions.divisors) * region.buffer.dtype.bytes
    if first % multiple == 0:
        return None
    return f"the tile's rows need not begin at a multiple of {multiple} bytes in the rows of {region.buffer.name}"


def store_place_problem(region: Region, ranges: Ranges, target: Target) -> str | None:
    """Why boxes cannot be stored where a region begins; None when they can. Those that are loaded begin anywhere."""
    assert target.tma is not None
    if target.tma.stores_before or not any(may_begin_before(offset, ranges) for offset in region.offsets):
        return None
    return f"the tile may begin before {region.buffer.name}"


def tile_problem(region: Region, layout: SharedLayout, target: Target) -> str | None:
    """Why a region of global memory cannot move to or from a shared tile of this layout in TMA boxes."""
    assert target.tma is not None
    if not region.kept or region.kept[-1] != region.buffer.rank - 1:
        return f"the tile's rows do not run along the last axis of {region.buffer.name}"
    if layout.transposed or layout.hardware_swizzle is None:
        return f"the TMA unit cannot write the layout {layout}"
    if any(extent > target.tma.box_extent for extent in (*region.tile[:-1], layout.group)):
        return f"a box holds at most {target.tma.box_extent} elements along an axis"
    row = layout.group * layout.dtype.bytes
    if row % target.tma.box_row_multiple_bytes:
        return f"rows of {row} bytes are no multiple of {target.tma.box_row_multiple_bytes}"
    step = target.tma.swizzle(layout.hardware_swizzle).alignment
    whole = layout.rows * row
    if whole % step and layout.groups > 1:
        return f"boxes of {whole} bytes one behind the other do not begin at multiples of {step} in shared memory"
    if any(buffer.scope != "global" for buffer in loaded(region.offsets)):
        return "its position depends on what the kernel computes"
    return None


def rows_of_stage(layout: SharedLayout, target: Target) -> int:
    """How long the first axis of a tile must be in a ring that TMA fills: boxes begin at multiples of so many bytes."""
    assert target.tma is not None and layout.hardware_swizzle is not None
    step = target.tma.swizzle(layout.hardware_swizzle).alignment
    multiple = step // gcd(layout.bytes // layout.stored[0], step)
    return -(-layout.stored[0] // multiple) * multiple


def bytes_of_stage(layout: SharedLayout, target: Target) -> int:
    """Bytes from one stage of such a ring to the next."""
    if layout.groups > 1:
        return layout.bytes
    return layout.bytes // layout.stored[0] * rows_of_stage(layout, target)


def copy_problem(
    global_side: Region, shared_side: Region, decisions: Decisions, target: Target
) -> str | None:
    """Why the TMA unit cannot do a copy between global and shared memory; None when it can."""
    if target.tma is None:
        return f"{target.name} has no TMA unit"
    if global_side.buffer.dtype != shared_side.buffer.dtype:
        return f"it converts {global_side.buffer.dtype} to {shared_side.buffer.dtype}"
    if any(constant(offset) != 0 for offset in shared_side.offsets):
        return f"it fills a part of {shared_side.buffer.name}"
    if shared_side.tile != shared_side.buffer.extents:
        return f"it fills a part of {shared_side.buffer.name}"
    return (
        pitch_problem(global_side.buffer, decisions, target)
        or place_problem(global_side, decisions, target)
        or tile_problem(global_side, decisions.layout(shared_side.buffer), target)
    )
