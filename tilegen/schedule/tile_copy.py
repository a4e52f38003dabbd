"""Copies of whole tiles from global memory to LDS that CDNA's buffer loads can do, 16 bytes a lane at a time.

The range check of a buffer resource stands for the guards: what lies below the tensor or right of it reads as 0.
Source: CDNA3 ISA, "Vector Memory Operations".
"""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.inference.decisions import Decisions
from tilegen.inference.gemm_mfma import operand_transfer
from tilegen.inference.loops import as_loop
from tilegen.inference.tile_transfer import TileTransfer, straight_transfer
from tilegen.inference.vector_access import ACCESS_BYTES, aligned_elements
from tilegen.ir.affine import Ranges, interval
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Copy, Program, Region
from tilegen.ir.types import BY_NAME
from tilegen.schedule.analysis import loaded, writes
from tilegen.target import Target

SPAN_LIMIT = 1 << 31  # bytes of a window that the mark for "outside" lies beyond
SMALLEST_BYTES = 2  # of an access


@dataclass(frozen=True, slots=True)
class TileCopy:
    """A copy, how the threads carry it, and the bytes of one global access (16 unless alignment forbids it).

    `direct`: loads may land in LDS without passing through registers. Lane l's 16 bytes come to lie behind those of
    lane l - 1, so that the swizzle is the addresses' business in global memory.
    """

    copy: Copy
    transfer: TileTransfer
    access_bytes: int
    direct: bool = False

    @property
    def name(self) -> str:
        """What its registers are called after: `A_shared` is carried by `A_next`."""
        return self.copy.target.buffer.name.removesuffix("_shared")


def tile_copy(
    copy: Copy, program: Program, decisions: Decisions, target: Target, ranges: Ranges
) -> TileCopy | str:
    """How buffer loads do this copy, or why they cannot. `ranges` bounds loop variables."""
    source, sink = copy.source, copy.target
    if source.buffer.scope != "global" or sink.buffer.scope != "shared":
        return "it does not go from global to shared memory"
    if source.buffer.dtype != sink.buffer.dtype:
        return "it converts the element type"
    if sink.tile != sink.buffer.extents or source.tile != sink.tile or len(sink.tile) > 2:
        return "it does not fill a tile of one or two axes"
    problem = window_problem(source, ranges)
    if problem:
        return problem
    size = source.buffer.dtype.bytes
    if BY_NAME[source.buffer.dtype.name].bits not in (8, 16, 32) or sink.tile[-1] * size % ACCESS_BYTES:
        return f"rows of {sink.buffer.name} are no whole 16-byte pieces"
    transfer = _transfer(copy, program, decisions, target)
    if isinstance(transfer, str):
        return transfer
    if not transfer.fragment.exact and any(source.buffer in writes(s) for s in program.kernel.body):
        # Loads beyond the tile are discarded, but another block may be writing there.
        return f"threads do not divide the tile evenly, and {source.buffer.name} is written by the kernel"
    size = access_bytes(copy, 0, decisions)
    if size < SMALLEST_BYTES:
        return f"rows of {source.buffer.name} begin at any byte"
    return TileCopy(
        copy, transfer, size, size == ACCESS_BYTES and _lands_in_lds(copy, transfer, decisions, target)
    )


def window_problem(region: Region, ranges: Ranges) -> str:
    """Why no window of rows can be put on this region of a tensor; empty when one can."""
    buffer = region.buffer
    if not region.kept or region.kept[-1] != buffer.rank - 1:
        return f"the tile's rows do not run along the last axis of {buffer.name}"
    if len(region.kept) > 2:
        return f"the tile has more than two axes of {buffer.name}"
    if buffer.strides is not None and buffer.strides[-1] != Const(1, buffer.strides[-1].dtype):
        return f"the last axis of {buffer.name} is not contiguous"
    if any(known.scope in ("fragment", "local") for known in loaded(region.offsets)):
        return "its position differs from thread to thread"
    for offset in region.offsets:
        low, _ = interval(offset, ranges)
        if low is None or low < 0:
            return f"it may start before {buffer.name}"
    rows = region.tile[0] if len(region.kept) == 2 else 1
    pitch = _constant_pitch(region)
    if pitch is not None and rows * pitch * buffer.dtype.bytes >= SPAN_LIMIT:
        return f"{rows} rows of {buffer.name} span 2 GiB"
    return ""


def _constant_pitch(region: Region) -> int | None:
    """Elements from row to row, where they are known."""
    buffer = region.buffer
    if len(region.kept) < 2:
        return 0
    axis = region.kept[0]
    if buffer.strides is not None:
        stride = buffer.strides[axis]
        return int(stride.value) if isinstance(stride, Const) else None
    pitch = 1
    for extent in buffer.shape[axis + 1 :]:
        if not isinstance(extent, Const):
            return None
        pitch *= int(extent.value)
    return pitch


def access_bytes(copy: Copy, which: int, decisions: Decisions) -> int:
    """Bytes of one access to the copy's global side (0 source, 1 target) that alignment allows, 16 at most."""
    region = (copy.source, copy.target)[which]
    loop = as_loop(copy)
    assert loop is not None
    access = next(a for a in loop.accesses if a.buffer == region.buffer)
    width = aligned_elements(access, loop.names, len(loop.names) - 1, decisions.divisors)
    return width * region.buffer.dtype.bytes


def _lands_in_lds(copy: Copy, transfer: TileTransfer, decisions: Decisions, target: Target) -> bool:
    """Whether the target's loads to LDS can fill the tile: whole rows of chunks by whole waves, no padding."""
    layout = decisions.layout(copy.target.buffer)
    chunks = layout.columns // layout.chunk
    return (
        any(ACCESS_BYTES in atom.widths for atom in target.copies("buffer_load_lds"))
        and not transfer.transposes
        and transfer.fragment.exact
        and not layout.padding
        and not layout.row_xors
        and layout.groups == 1
        and target.limits.warp_size % chunks == 0
    )


def _transfer(copy: Copy, program: Program, decisions: Decisions, target: Target) -> TileTransfer | str:
    buffer = copy.target.buffer
    layout = decisions.layout(buffer)
    tile = (1, *buffer.extents)[-2:]
    for gemm, decision in decisions.gemms.items():
        for which, region in (("a", gemm.a), ("b", gemm.b)):
            if region.buffer != buffer or decision.family != "mfma" or buffer.rank != 2:
                continue
            transfer = operand_transfer(decision, which, buffer, target)
            if transfer.transposes == layout.transposed:
                return transfer
    if layout.transposed or layout.groups > 1 or layout.padding * layout.dtype.bytes % ACCESS_BYTES:
        return f"{buffer.name} is not laid out in rows of 16-byte chunks"
    return straight_transfer((tile[0], tile[1]), program.kernel.threads, buffer.dtype.bytes)
