"""Buffers, statements and the program of the tile IR."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tilegen.ir.expressions import Expr, Var
from tilegen.ir.types import DType
from tilegen.location import NOWHERE, Location

Scope = Literal["global", "shared", "fragment", "local"]
LoopKind = Literal["serial", "unroll", "pipelined", "persistent"]
ReduceOp = Literal["sum", "max", "min", "abssum", "absmax", "prod", "any", "all", "bitand", "bitor", "bitxor"]
AtomicOp = Literal["add", "max", "min"]
GemmPolicy = Literal["square", "full_row", "full_col", "sliced_k"]
Role = Literal["input", "output", "inout", "none"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in global memory, a tile in shared memory, a fragment spread over the threads' registers, or a
    per-thread local array.

    Shapes of shared, fragment and local buffers are integers; a global extent may be an expression over
    `extent` variables. `strides` (elements) is None for row-major.
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    scope: Scope
    role: Role = "none"
    strides: tuple[Expr, ...] | None = None
    location: Location = field(default=NOWHERE, compare=False)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape as integers.

        Raises:
            TypeError: when an extent is not constant.
        """
        from tilegen.ir.expressions import Const

        extents = []
        for extent in self.shape:
            if not isinstance(extent, Const):
                raise TypeError(f"{self.name} has a dynamic extent")
            extents.append(int(extent.value))
        return tuple(extents)


@dataclass(frozen=True, slots=True)
class Region:
    """A box of a buffer: one offset and one extent a buffer dimension (a dimension that is indexed away has
    extent 1 and is listed in `dropped`). `shape` without the dropped dimensions is the tile's shape."""

    buffer: Buffer
    offsets: tuple[Expr, ...]
    shape: tuple[int, ...]
    dropped: tuple[int, ...] = ()
    location: Location = field(default=NOWHERE, compare=False)

    @property
    def tile(self) -> tuple[int, ...]:
        return tuple(extent for axis, extent in enumerate(self.shape) if axis not in self.dropped)

    @property
    def kept(self) -> tuple[int, ...]:
        """The buffer's axes that the tile's axes walk along."""
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.dropped)


# ------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Copy:
    """target[…] = source[…], element by element, converting the dtype; both tiles have the same shape.

    `eviction` says how long L2 is to keep the lines of global memory that the copy touches: "evict_first",
    "evict_last", or nothing.
    """

    source: Region
    target: Region
    location: Location = field(default=NOWHERE, compare=False)
    eviction: str = ""


@dataclass(frozen=True, slots=True)
class Fill:
    """Every element of the region becomes `value`; `T.clear` fills with 0."""

    target: Region
    value: Expr
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Gemm:
    """c[m, n] += sum over k of a[m, k] * b[k, n]; with transpose_a a is [k, m], with transpose_b b is [n, k].

    `clear` makes it an assignment.
    """

    a: Region
    b: Region
    c: Region
    transpose_a: bool
    transpose_b: bool
    policy: GemmPolicy
    clear: bool
    location: Location = field(default=NOWHERE, compare=False)

    @property
    def extents(self) -> tuple[int, int, int]:
        """(m, n, k)."""
        m, n = self.c.tile
        return m, n, self.a.tile[0 if self.transpose_a else 1]

    @property
    def dtypes(self) -> tuple[str, str, str]:
        """Names of the element types of a, b and c."""
        return self.a.buffer.dtype.name, self.b.buffer.dtype.name, self.c.buffer.dtype.name


@dataclass(frozen=True, slots=True)
class Reduce:
    """target = op over `axis` of source; without `clear` the target's old value takes part."""

    op: ReduceOp
    source: Region
    target: Region
    axis: int
    clear: bool
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AddPartials:
    """Groups of warps have each made a part of the sums in an accumulator; all of them get the whole sums, by way of
    `partials` in shared memory. No program has it: tilegen.schedule.add_partials puts it behind gemms whose k warps
    share, behind `loop` where they stand in one."""

    target: Region
    partials: Buffer
    loop: Var | None = None
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class LeaveParts:
    """The blocks that differ along the grid's `axis` alone have each made a part of the sums in `sources`. Each leaves
    its part in memory and counts itself in; `last` tells whether all others had been there before it. AddParts and
    whatever else stands behind `T.sum_blocks` follow under a branch on `last` (tilegen.frontend.last_block)."""

    sources: tuple[Region, ...]
    axis: Var
    last: Var
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AddParts:
    """In the block that came last: `target` becomes the sum of what all blocks have left, in the order of `axis`."""

    target: Region
    axis: Var
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Store:
    """One element of a buffer; stands inside parallel loops, and outside them where one value is stored."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AtomicElement:
    """An atomic update of one element of a global or shared buffer."""

    op: AtomicOp
    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class AtomicTile:
    """An atomic update of a whole region by a tile of a fragment or shared buffer."""

    op: AtomicOp
    source: Region
    target: Region
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Let:
    """A scalar with a name of the user's; `mutable` when it is assigned again later (see Assign)."""

    var: Var
    value: Expr
    mutable: bool = False
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Assign:
    var: Var
    value: Expr
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class For:
    """for var in range(start, stop, step). `num_stages`, `order` and `stage` belong to pipelined loops
    (None: not given)."""

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    kind: LoopKind
    body: tuple[Stmt, ...]
    num_stages: int | None = None
    order: tuple[int, ...] | None = None
    stage: tuple[int, ...] | None = None
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ParallelFor:
    """Independent iterations over a box, divided among the threads of the block."""

    vars: tuple[Var, ...]
    extents: tuple[Expr, ...]
    body: tuple[Stmt, ...]
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Persistent:
    """`for bx, by in T.Persistent(domain, …)`: the block walks the tiles of a grid, `wave` blocks at a time."""

    vars: tuple[Var, ...]
    extents: tuple[Expr, ...]
    body: tuple[Stmt, ...]
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class SyncThreads:
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CustomOperation:
    """A call of an operation that a user registered; regions and scalars in the operation's own order."""

    operation: str
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]
    arguments: tuple[Expr, ...]
    attributes: tuple[tuple[str, object], ...] = ()
    location: Location = field(default=NOWHERE, compare=False)


Stmt = (
    Copy
    | Fill
    | Gemm
    | Reduce
    | AddPartials
    | LeaveParts
    | AddParts
    | Store
    | AtomicElement
    | AtomicTile
    | Let
    | Assign
    | If
    | For
    | ParallelFor
    | Persistent
    | SyncThreads
    | CustomOperation
)


# ------------------------------------------------------------------------------------------- kernel and program


@dataclass(frozen=True, slots=True)
class Rasterisation:
    """`T.use_swizzle(panel_size, order)`: tiles are walked in panels of `panel_size` rows (or columns)."""

    panel: int
    order: Literal["row", "column"]
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class LayoutAnnotation:
    """`T.annotate_layout({buffer: layout})`: an object of layout_algebra, taken as it is."""

    buffer: Buffer
    layout: object
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Assumption:
    """`T.assume(condition)`: holds of extents and integer scalars; `text` is the condition as the program has it."""

    condition: Expr
    text: str
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Kernel:
    """`with T.Kernel(*grid, threads=…)`: `block_vars` bind to the grid's axes, fastest first.

    `persistent`: True, False, or None for "infer". `cluster` is blocks a cluster along each grid axis. `min_blocks`:
    how many a multiprocessor shall hold, None for "infer".
    """

    grid: tuple[Expr, ...]
    block_vars: tuple[Var, ...]
    threads: int
    persistent: bool | None
    cluster: tuple[int, int, int]
    allocations: tuple[Buffer, ...]
    body: tuple[Stmt, ...]
    rasterisation: Rasterisation | None = None
    annotations: tuple[LayoutAnnotation, ...] = ()
    min_blocks: int | None = None
    location: Location = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Program:
    """A whole tile program.

    `tensors` are the launch arguments in order (inputs and outputs as the user wrote them; outputs made by
    T.empty follow in the order of their creation), `scalars` the scalar arguments, `extents` the dynamic extents
    in order of first use, `outputs` the names of the tensors that a call returns, in return order.
    `lets` are scalar definitions made before the kernel opens. `parameters` are the generation-time
    parameters (name, repr) as the header quotes them.
    """

    name: str
    tensors: tuple[Buffer, ...]
    scalars: tuple[Var, ...]
    extents: tuple[Var, ...]
    outputs: tuple[str, ...]
    kernel: Kernel
    parameters: tuple[tuple[str, str], ...]
    digest: str  # of the source text, first 8 hexadecimal digits of its sha256
    location: Location = field(default=NOWHERE, compare=False)
    assumptions: tuple[Assumption, ...] = ()
    arguments: tuple[str, ...] = ()  # what callers call the scalars
    fixed: tuple[str, ...] = ()  # T.const's names that have become integers
    called: tuple[str, ...] = ()  # what the program calls its extents
