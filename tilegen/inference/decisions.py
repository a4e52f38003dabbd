"""What inference decided, as data: later passes and the report read it, none changes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from tilegen.inference.fragment import Fragment
from tilegen.inference.shared import SharedLayout
from tilegen.ir.nodes import AtomicTile, Buffer, Copy, Fill, Gemm, ParallelFor, Reduce, Stmt

Family = Literal["wgmma", "mma_sync", "mfma"]
Major = Literal["K", "MN"]
Node = TypeVar("Node")
Value = TypeVar("Value")


class PerNode(Generic[Node, Value]):
    """A map keyed by the node itself: two equal statements at two places have two entries. Iterates in the order
    of insertion."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Node, Value]] = {}

    def __setitem__(self, node: Node, value: Value) -> None:
        self._entries[id(node)] = (node, value)

    def __getitem__(self, node: Node) -> Value:
        return self._entries[id(node)][1]

    def __contains__(self, node: Node) -> bool:
        return id(node) in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, node: Node) -> Value | None:
        entry = self._entries.get(id(node))
        return entry[1] if entry else None

    def items(self) -> Iterator[tuple[Node, Value]]:
        yield from self._entries.values()

    def copy(self) -> PerNode[Node, Value]:
        other: PerNode[Node, Value] = PerNode()
        other._entries.update(self._entries)
        return other


@dataclass(frozen=True, slots=True)
class GemmDecision:
    """How one gemm runs.

    `instruction` is (m, n, k) of the atom; `warps` how many warps (warpgroups for wgmma, waves for mfma) lie
    along m and n; `repeats` how many atoms each of them computes along m and n. `k` runs in
    `k_extent / instruction[2]` steps. Where warps share k, it is cut into `k_parts` of `k_extent` each, the slowest
    digit of a warp's number says which one is its own, and accumulators hold parts of the sums. `passed_over` says why
    a faster family of the target's does not compute it. Where it is `exchanged`, all but `c` is that of the gemm with
    exchanged operands (tilegen.inference.exchanged), whose A is the gemm's B.
    """

    family: Family
    atom: str  # its name in targets/*.toml
    instruction: tuple[int, int, int]
    warps: tuple[int, int]
    repeats: tuple[int, int]
    k_extent: int  # of a part
    a_source: Literal["shared", "register"]
    b_source: Literal["shared", "register"]
    a_major: Major
    b_major: Major
    c: Fragment
    a: Fragment | None = None  # the operand fragments, where operands come from registers
    b: Fragment | None = None
    k_parts: int = 1
    passed_over: str = ""
    exchanged: bool = False

    @property
    def steps(self) -> int:
        return self.k_extent // self.instruction[2]


@dataclass(slots=True)
class Decisions:
    """Layouts by buffer name, gemms and parallel loops by node, and notes for file and report.

    Copies, fills and atomic tiles are parallel loops over their tile. `scratch` are shared buffers that the program
    does not have: reductions across warps and exchanges between threads need them; their layouts are in `shared`.
    `exchanges` names the fragments whose elements an element-wise statement reads in other threads than those that
    hold them, each with the scratch buffer that it passes through, `kept` those of them that lie there already
    (tilegen.schedule.kept_exchanges). `partials` names the scratch buffer in which a reduction across warps leaves
    partial results. `conflicts` counts the bank-conflict cycles of one execution of every access to a shared buffer.
    `divisors` are known divisors of variables and extents;
    `counters` are the variables, with their extents, of loops that index registers, which are unrolled for that.
    """

    fragments: dict[str, Fragment] = field(default_factory=dict)
    shared: dict[str, SharedLayout] = field(default_factory=dict)
    gemms: PerNode[Gemm, GemmDecision] = field(default_factory=PerNode)
    loops: PerNode[ParallelFor | Copy | Fill | AtomicTile, Fragment] = field(default_factory=PerNode)
    exchanges: PerNode[Stmt, dict[str, Buffer]] = field(default_factory=PerNode)
    kept: PerNode[Stmt, tuple[str, ...]] = field(default_factory=PerNode)
    partials: PerNode[Reduce, str] = field(default_factory=PerNode)
    scratch: list[Buffer] = field(default_factory=list)
    conflicts: dict[str, int] = field(default_factory=dict)
    divisors: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)  # why a buffer has its layout, by name
    notes: list[str] = field(default_factory=list)

    def fragment(self, buffer: Buffer) -> Fragment:
        return self.fragments[buffer.name]

    def layout(self, buffer: Buffer) -> SharedLayout:
        return self.shared[buffer.name]
