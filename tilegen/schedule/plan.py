"""The schedule as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tilegen.inference.decisions import PerNode
from tilegen.inference.shared import SharedLayout
from tilegen.ir.nodes import AtomicTile, Copy, For, Rasterisation, Reduce, Stmt
from tilegen.schedule.clusters import Multicast, cluster_size
from tilegen.schedule.defer_sums import DeferredSum
from tilegen.schedule.fold_elements import FoldedElements
from tilegen.schedule.overlays import Overlay
from tilegen.schedule.uneven import LongestFirst

PlanKind = Literal["warp_specialised", "multistage", "register_prefetch", "simple"]


@dataclass(frozen=True, slots=True)
class HandOver:
    """Buffers that one producer step fills together and the consumers free together.

    `stages` buffers form a ring; `loop` is the pipelined loop whose iterations fill it (None: filled once a
    tile, before the statement that reads it). `name` prefixes its barriers in SharedStorage, empty for the only one.
    `by_warps`: threads are the last to read it, so that each warp lets it go, else each warpgroup.
    """

    name: str
    loop: For | None
    copies: tuple[Copy, ...]
    buffers: tuple[str, ...]
    stages: int
    bytes: int
    by_warps: bool = False

    @property
    def ring(self) -> str:
        """The name of the ring state in the text."""
        return f"{self.name}_ring" if self.name else "ring"

    def barrier(self, kind: Literal["full", "empty"]) -> str:
        return f"{self.name}_{kind}" if self.name else kind

    @property
    def barriers(self) -> tuple[str, str]:
        """Both of its barriers in SharedStorage."""
        return self.barrier("full"), self.barrier("empty")


@dataclass(frozen=True, slots=True)
class Staging:
    """A shared tile between registers and a TMA store: `box_rows` rows are stored by one warpgroup at a time."""

    name: str
    layout: SharedLayout
    over: tuple[str, ...] = ()  # buffers in whose bytes it lies


@dataclass(frozen=True, slots=True)
class Registers:
    """Registers a thread of each role; entry is what the launch gives to every thread."""

    entry: int
    producer: int
    consumer: int


@dataclass(frozen=True, slots=True)
class NextTile:
    """What the consumers issue of their next tile behind the last gemm of this one: the statements `begin`, which fill
    the operands of the first gemm of the skewed `loop`, and that gemm."""

    loop: For
    begin: tuple[Stmt, ...]


@dataclass(slots=True)
class Plan:
    """How the kernel runs."""

    kind: PlanKind
    threads: int  # of the launch
    computing: int  # threads that compute
    consumers: int  # warpgroups that compute; 0 without warp specialisation
    persistent: bool
    blocks_per_multiprocessor: int
    cluster: tuple[int, int, int]
    multicasts: tuple[Multicast, ...] = ()  # tiles that a cluster loads once for all its blocks
    rasterisation: Rasterisation | None = None
    longest_first: LongestFirst | None = None
    registers: Registers | None = None
    hand_overs: tuple[HandOver, ...] = ()
    overlays: tuple[Overlay, ...] = ()  # tiles in the place of others that nobody needs any more
    stages: PerNode[For, int] = field(default_factory=PerNode)
    tma: PerNode[Copy, bool] = field(default_factory=PerNode)  # copies that the TMA unit does
    staging: PerNode[Copy | AtomicTile, Staging] = field(default_factory=PerNode)
    draws_tiles: bool = False  # persistent blocks draw their next tile from a counter
    next_tile: NextTile | None = None  # what of it runs beside the end of this tile, in a persistent kernel
    turns: bool = False  # the consumer warpgroups take turns at issuing the gemms of a skewed loop
    deferred: tuple[DeferredSum, ...] = ()  # sums whose lanes meet behind their loop
    folded: tuple[FoldedElements, ...] = ()  # element-wise statements that reductions do by the way
    reasons: list[str] = field(default_factory=list)

    @property
    def cluster_size(self) -> int:
        """Blocks in a cluster, 1 without clusters."""
        return cluster_size(self.cluster)

    def overlay_of(self, buffer: str) -> Overlay | None:
        """What a tile lies over; None where it has a place of its own."""
        return next((overlay for overlay in self.overlays if overlay.buffer == buffer), None)

    def multicast_of(self, buffer: str) -> Multicast | None:
        """How a cluster shares the loads of a tile; None when every block loads its own."""
        return next((multicast for multicast in self.multicasts if multicast.buffer == buffer), None)

    def defers(self, reduction: Reduce) -> bool:
        """Whether the lanes' parts of a sum stay apart until its loop is over."""
        return any(entry.reduction is reduction for entry in self.deferred)

    def dissolves(self, buffer: str) -> bool:
        """Whether nothing is left of a fragment: the parts of a deferred sum go to its total at once, and elements that
        a reduction computes itself to its result."""
        return any(entry.reduction.target.buffer.name == buffer for entry in self.deferred) or any(
            entry.reduction.source.buffer.name == buffer for entry in self.folded
        )

    def deferred_by(self, update: Stmt) -> DeferredSum | None:
        """The deferred sum that a statement adds to its total."""
        return next((entry for entry in self.deferred if entry.update is update), None)

    def folds(self, statement: Stmt) -> bool:
        """Whether a reduction does the element-wise statement by the way."""
        return any(entry.elements is statement for entry in self.folded)

    def folded_into(self, reduction: Reduce) -> FoldedElements | None:
        """What a reduction does by the way."""
        return next((entry for entry in self.folded if entry.reduction is reduction), None)

    def hand_over_of(self, copy: Copy) -> HandOver | None:
        """The hand-over that a copy belongs to."""
        for hand_over in self.hand_overs:
            if any(member is copy for member in hand_over.copies):
                return hand_over
        return None

    def hand_over_reading(self, buffer: str) -> HandOver | None:
        """The hand-over that fills a buffer."""
        for hand_over in self.hand_overs:
            if buffer in hand_over.buffers:
                return hand_over
        return None
