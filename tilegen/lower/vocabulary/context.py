"""What lowering collects while it walks a kernel: constants, primitives, helpers, names, source comments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from tilegen.inference.decisions import Decisions, PerNode
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import Buffer, Fill, For, Program, Stmt
from tilegen.ir.per_thread import PerThread
from tilegen.ir.types import int32
from tilegen.location import Location
from tilegen.lower.vocabulary.fold_clear import FoldedClears
from tilegen.lower.vocabulary.threads import Threads
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name
from tilegen.model.kernel import Constant, SharedMember, StaticAssert, TensorArgument, TensorMap
from tilegen.model.statements import Blank, Comment, CStmt, Expression
from tilegen.schedule.plan import Plan
from tilegen.target import Target

if TYPE_CHECKING:
    from tilegen.lower.synchronisation.pending_touches import Meeting

LARGEST_INT = 2**31 - 1
_Lowered = TypeVar("_Lowered")


@dataclass(slots=True)
class Context:
    """The state of lowering one kernel.

    Operations ask it for constants (`constant`, `literal`), primitives (`primitive`), fresh names (`name`) and the
    comment above a source statement (`comment`). `threads` names the threads of the role being lowered;
    `environment` maps IR variables to what the text calls them; `ring_stage` gives the stage index of a shared
    buffer that is a ring, where one is open.
    """

    program: Program
    target: Target
    decisions: Decisions
    plan: Plan
    threads: Threads
    constants: dict[str, Constant] = field(default_factory=dict)
    primitives: dict[tuple[str, tuple[tuple[str, object], ...]], None] = field(default_factory=dict)
    helpers: dict[str, tuple[tuple[str, object], ...]] = field(default_factory=dict)
    functions: dict[str, None] = field(default_factory=dict)  # of registered operations, as text
    asserts: list[StaticAssert] = field(default_factory=list)
    environment: dict[str, CExpr] = field(default_factory=dict)
    # Of loop variables in scope
    ranges: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    ring_stage: dict[str, CExpr] = field(default_factory=dict)
    counted: dict[str, bool] = field(default_factory=dict)  # hand-overs, see tilegen.lower.pipelines.rings
    # Of the loops being lowered, by the hand-overs they fill
    iterations: dict[str, CExpr] = field(default_factory=dict)
    taken: dict[str, None] = field(default_factory=dict)
    spoken: frozenset[str] = frozenset()  # names of the program, but those of parallel loops' variables
    quoted: dict[tuple[int, str], None] = field(default_factory=dict)
    initial: PerNode[Fill, bool] = field(default_factory=PerNode)  # fills that declarations do
    parts: PerNode[Stmt, str] = field(default_factory=PerNode)  # statements that begin a part of the kernel
    hoisted: dict[str, None] = field(default_factory=dict)  # named values that stand in the prologue
    own: PerThread = field(default_factory=PerThread)  # what differs from thread to thread
    divergent: bool = False  # whether only some threads may come by
    latest: str = ""  # the source line that was named last
    titled: bool = False  # whether a title stands above what comes next
    notes: list[str] = field(default_factory=list)
    prologue: list[CStmt] = field(
        default_factory=list
    )  # declarations at the kernel's top, common to all roles
    folded: FoldedClears = field(default_factory=FoldedClears)  # clears that gemms absorb
    # Tensors that are accessed in vectors, with the bytes of the widest: their rows must be whole 16-byte units
    vectorised: dict[str, int] = field(default_factory=dict)
    # Stages of shared tiles, where a pipeline made rings
    ring_depths: dict[str, int] = field(default_factory=dict)
    # Shared tiles of pipelines that have run: whether all threads have met since they touched them
    left: dict[str, bool] = field(default_factory=dict)
    # Most rows of a buffer window, by tensor and axis
    window_rows: dict[tuple[str, int], int] = field(default_factory=dict)
    pipeline_notes: list[str] = field(default_factory=list)  # lines of the header's Pipeline section
    pending_stores: bool = False  # whether TMA stores may still be reading shared memory when the kernel ends
    # Kernel parameters that describe tensors to the TMA unit
    maps: dict[str, TensorMap] = field(default_factory=dict)
    trips: dict[str, CExpr] = field(default_factory=dict)  # how often loops run that count from tile to tile
    # Device memory that the kernel needs beside the program's tensors
    scratch: dict[str, TensorArgument] = field(default_factory=dict)
    barriers: PerNode[Stmt, Meeting] | None = None  # see tilegen.lower.synchronisation.barriers
    # Bytes that vector accesses want of register arrays
    aligned: dict[str, int] = field(default_factory=dict)
    members: list[SharedMember] = field(
        default_factory=list
    )  # of SharedStorage, beyond the program's own tiles

    # ------------------------------------------------------------------------------------- names

    def name(self, wanted: str) -> str:
        """`wanted`, or `wanted_2`, … where it is taken in this kernel."""
        candidate, count = wanted, 1
        while candidate in self.taken:
            count += 1
            candidate = f"{wanted}_{count}"
        self.taken[candidate] = None
        return candidate

    def local(self, *wanted: str) -> str:
        """The first of these names for a loop's variable that nothing of the program has; else the first."""
        return next((name for name in wanted if name not in self.spoken), wanted[0])

    def constant(self, name: str, value: int, comment: str = "") -> Name:
        """A `constexpr int` of the file's configuration.

        Raises:
            ValueError: when the name stands for another value already.
        """
        known = self.constants.get(name)
        if known is None:
            self.constants[name] = Constant(name, Literal(value), "int", comment)
        elif known.value != Literal(value):
            raise ValueError(f"{name} is {known.value} and cannot be {value} too")
        return Name(name)

    def literal(self, expr: Const) -> CExpr:
        """A constant under the name that the program has for it, or plain."""
        plain = Literal(expr.value, "float" if expr.dtype.is_float else "int")
        if expr.parts is not None and not expr.name:
            return self._worked(expr, plain)
        if not expr.name or isinstance(expr.value, bool):
            return plain
        name = constant_name(expr.name)
        if OWN_CONSTANTS.fullmatch(name):
            known = self.constants.get(name)
        else:
            known = self.constants.setdefault(name, Constant(name, plain, plain.type_name))
        return Name(name) if known is not None and known.value == plain else plain

    def _worked(self, expr: Const, plain: Literal) -> CExpr:
        """How a constant is computed from others, where one has a name and all of them fit an int."""
        assert expr.parts is not None
        sign, left, right = expr.parts
        operands = self.literal(left), self.literal(right)
        least = 0 if sign == "//" else -LARGEST_INT
        consts = (expr, left, right)
        fitting = all(one.dtype == int32 and least <= one.value <= LARGEST_INT for one in consts)
        if not fitting or all(isinstance(operand, Literal) for operand in operands):
            return plain
        return c.operation("/" if sign == "//" else sign, *operands)

    def whole_number(self, expr: Const) -> Name | None:
        """The file's integer that a float constant of the program comes from, if it has that."""
        name = constant_name(expr.name)
        known = self.constants.get(name) if expr.name else None
        same = known is not None and known.value == Literal(expr.value) and abs(expr.value) <= EXACT_WHOLE
        return Name(name) if same and not OWN_CONSTANTS.fullmatch(name) else None

    def primitive(self, name: str, **parameters: object) -> None:
        """Notes that the text calls a device primitive."""
        self.primitives[name, tuple(parameters.items())] = None

    def helper(self, name: str, **values: object) -> None:
        """Notes that the text uses a device helper of templates/<language>/helpers."""
        self.helpers[name] = tuple(values.items())

    def align(self, name: str, size: int) -> None:
        """Notes that vector accesses want a register array to start at a multiple of `size` bytes."""
        self.aligned[name] = max(size, self.aligned.get(name, 1))

    def attempt(self, lowered: Callable[[], _Lowered | None]) -> _Lowered | None:
        """What this gives; where that is None, the text goes another way, and what was noted of it is forgotten."""
        noted = dict(self.primitives), dict(self.helpers), dict(self.aligned)
        result = lowered()
        if result is None:
            self.primitives, self.helpers, self.aligned = noted
        return result

    def note_vector(self, size: int, *buffers: Buffer) -> None:
        """Notes that rows of global tensors are accessed in vectors of `size` bytes."""
        for buffer in buffers:
            if buffer.scope == "global":
                self.vectorised[buffer.name] = max(size, self.vectorised.get(buffer.name, 1))

    # ------------------------------------------------------------------------------------- threads

    def synchronise(self, comment: str = "") -> CStmt:
        """A barrier of all computing threads, for shared memory; the comment says what they have done by then."""
        if self.plan.kind == "warp_specialised":
            self.primitive("named_barrier_sync")
            barrier = self.constant("kConsumerBarrier", 1, "of all consumers; barrier 0 is __syncthreads")
            meeting = c.call("named_barrier_sync", barrier, self.computing_threads())
            return Expression(meeting, comment=comment)
        if self.target.language == "hip":
            self.primitive("block_sync_lds")
            return Expression(c.call("block_sync_lds"), comment=comment)
        return Expression(c.call("__syncthreads"), comment=comment)

    def all_meet(self) -> None:
        """Notes that all threads meet here, whichever way they have come."""
        self.left = dict.fromkeys(self.left, True)

    def computing_threads(self) -> CExpr:
        """How many threads compute, by name."""
        if self.plan.kind == "warp_specialised":
            return c.mul(self.constant("kConsumers", self.plan.consumers), self.warpgroup())
        return self.constant("kThreads", self.plan.threads)

    def warpgroup(self) -> Name:
        """How many threads a warpgroup has, by name."""
        return self.constant("kWarpgroup", self.target.limits.warpgroup_size, "threads")

    # ------------------------------------------------------------------------------------- comments

    def comment(self, location: Location, said: str = "") -> list[CStmt]:
        """The comment above the code of a source statement: its text the first time, then its line alone, and nothing
        right below itself. `said` is what it does there besides, if that is more than the line says."""
        before, titled = self.latest, self.titled
        self.titled = False
        text = self.reference(location)
        if not said and (not text or text == before):
            return []
        text = ": ".join(part for part in (text, said) if part)
        return [Comment(text)] if titled else [Blank(), Comment(text)]

    def title(self, statement: Stmt) -> list[CStmt]:
        """`// Main loop` where that part of the kernel begins with the statement."""
        part = self.parts.get(statement)
        if not part:
            return []
        self.titled = not isinstance(statement, For)  # a loop has its comment beside its head
        return [Blank(), Comment(part)]

    def reference(self, location: Location) -> str:
        """`matmul.py:21  T.gemm(A_shared, B_shared, C_local)`, and `matmul.py:21` when it was quoted before."""
        if location.line == 0:
            return ""
        place = location.place
        key = (location.line, location.text)
        self.latest = place
        if key in self.quoted or not location.text:
            return place
        self.quoted[key] = None
        room = 100 - len(place)
        text = location.text if len(location.text) <= room else location.text[: room - 1].rstrip() + "…"
        return f"{place}  {text}"


EXACT_WHOLE = 2**24  # float32 has every integer up to here

# What the text means by these is tilegen's to say: a parameter of the program that would be called so stays a number.
OWN_CONSTANTS = re.compile(
    r"k(\w*Stages\w*|\w*StageBytes|\w*PartElements\d*|AtomBytes\d*|BoxColumns\d*|Cluster|ClusterMask|Consumer\w+|Consumers|"
    r"EntryRegisters|ProducerRegisters|Rank|RasterGroup|Section|SharedBytes|Swizzle\w*Columns\d*|Threads|Tiles\w*|"
    r"TurnBarrier|Warpgroup\w*|WarpsPerWarpgroup|Waves|OutOfRange|Others|Piece|RawBuffer)"
)


def constant_name(parameter: str) -> str:
    """`block_M` becomes `kBlockM`, `num_stages` `kNumStages`, `GROUP_SIZE` `kGroupSize`."""
    words = [word for word in re.split(r"[_\W]+", parameter) if word]
    return "k" + "".join(_capitalised(word) for word in words)


def _capitalised(word: str) -> str:
    """Words in capitals are in small letters behind the first; those of up to two, such as `HW`, stay."""
    rest = word[1:]
    return word[0].upper() + (rest.lower() if word.isupper() and len(word) > 2 else rest)


Lowering = Callable[[Context, Stmt], list[CStmt]]


def bind(context: Context, names: Mapping[str, CExpr]) -> None:
    """Lets IR variables be called by these expressions from here on."""
    context.environment.update(names)
