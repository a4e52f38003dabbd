"""Everything that one emitted file says, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.ir.types import DType
from tilegen.model.expressions import CExpr
from tilegen.model.statements import CStmt


@dataclass(frozen=True, slots=True)
class Constant:
    """constexpr type_name name = value;  // comment

    Neighbours of one type and comment that all say `shares_line` stand in one declaration.
    """

    name: str
    value: CExpr
    type_name: str = "int"
    comment: str = ""
    shares_line: bool = False


@dataclass(frozen=True, slots=True)
class SharedMember:
    """A member of SharedStorage: `type_name name[dimensions…];`, `bytes` in all."""

    type_name: str
    name: str
    dimensions: tuple[CExpr, ...]
    bytes: int
    alignment: int
    comment: str = ""
    union: str = ""  # members of one union group are alternatives in the same bytes
    alternative: int = 0  # members of one alternative of a union lie one after another


@dataclass(frozen=True, slots=True)
class StaticAssert:
    condition: CExpr
    message: str


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A TMA descriptor: `extents` and `strides` (bytes, of dimensions 1…) are expressions over extent names,
    fastest dimension first; `box` in elements; `swizzle` in bytes (0 for none); `l2_promotion` what L2 reads at
    once from memory, in bytes (0: as asked)."""

    parameter: str  # the kernel parameter
    tensor: str
    dtype: DType
    extents: tuple[CExpr, ...]
    strides: tuple[CExpr, ...]
    box: tuple[CExpr, ...]  # named constants where they exist
    swizzle: int
    l2_promotion: int
    box_values: tuple[int, ...] = ()
    packed: bool = False  # the strides are those of a row-major tensor of these extents


@dataclass(frozen=True, slots=True)
class PointerParameter:
    name: str
    tensor: str
    dtype: DType
    written: bool
    read: bool = True


@dataclass(frozen=True, slots=True)
class ScalarParameter:
    name: str
    dtype: DType
    value: CExpr  # over the launcher's scalars: extents and user scalars


Parameter = TensorMap | PointerParameter | ScalarParameter


@dataclass(frozen=True, slots=True)
class Requirement:
    """A line of the launcher's contract: `condition` over extents, scalars and pointers must hold."""

    condition: CExpr
    text: str  # as the header and the error message say it
    remark: str = ""  # behind the launcher's check, where the condition does not speak for itself


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor of the launcher: shape and strides in elements as expressions over extents."""

    name: str
    dtype: DType
    shape: tuple[CExpr, ...]
    strides: tuple[CExpr, ...] | None
    role: str  # input | output | inout | scratch
    alignment: int = 16  # bytes
    zeroed: bool = False  # the launcher sets it to 0 first (split-K by atomics, counters)
    rests: bool = False  # scratch memory that is 0 before the first launch and again after each
    notes: tuple[str, ...] = ()  # e.g. "K % 8 == 0"


@dataclass(frozen=True, slots=True)
class BufferRow:
    """A line of the header's buffer table."""

    name: str
    scope: str
    shape: str
    layout: str
    bytes: str
    conflicts: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    grid: tuple[CExpr, CExpr, CExpr]  # over extents, constants, `multiprocessors` and `clusters`
    grid_text: str  # as the header says it
    grid_limits: tuple[int, ...]  # blocks along each axis
    grid_threads: int  # blocks times threads along an axis; 0: no limit
    block: int
    block_text: str
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    asks_for_shared: bool = False  # of dynamic shared memory: more than a launch has without asking
    registers_text: str = ""
    bound: int = 1  # of __launch_bounds__, behind the threads
    uses_multiprocessors: bool = False
    counts_clusters: bool = False  # instead: the clusters that the device runs at once


@dataclass(frozen=True, slots=True)
class KernelModel:
    """One kernel file: header facts, configuration, primitives used, helpers, body, launch contract."""

    name: str
    target: str
    language: str  # cuda | hip
    summary: str  # e.g. "C = max(A @ B, 0)"
    source: str  # file.py:line
    digest: str
    regenerate: str
    parameters: tuple[Parameter, ...]
    tensors: tuple[TensorArgument, ...]
    extents: tuple[str, ...]  # dynamic extents, launcher arguments after the tensors
    scalars: tuple[tuple[str, DType], ...]
    requirements: tuple[Requirement, ...]
    constants: tuple[Constant, ...]
    shared: tuple[SharedMember, ...]
    asserts: tuple[StaticAssert, ...]
    primitives: tuple[tuple[str, tuple[tuple[str, object], ...]], ...]  # (name, parameters)
    helpers: tuple[str, ...]  # templates/<language>/helpers/<name>, device helper structs and functions
    helper_values: tuple[tuple[str, object], ...]
    body: tuple[CStmt, ...]
    launch: Launch
    buffers: tuple[BufferRow, ...]
    pipeline: tuple[str, ...]  # lines of the header
    notes: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    includes: tuple[str, ...] = field(default=())
    functions: tuple[str, ...] = field(default=())  # device functions of registered operations, as text
