"""The host launcher: its checks, tensor maps and launch as statements of the kernel model, its frame a template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegen.emit.contract_checks import any_of, contract_checks, in_64_bits, joined
from tilegen.emit.largest_grid import largest_count
from tilegen.emit.lines import Line, comment_lines
from tilegen.emit.printer import print_statements
from tilegen.emit.signature import launcher_comment, launcher_signature
from tilegen.emit.templating import render_template
from tilegen.emit.tensor_maps import encode_calls, encoder_values
from tilegen.model.dialect import Dialect, dialect_of
from tilegen.model.expression_text import expression_text
from tilegen.model.expressions import (
    CallC,
    CExpr,
    Literal,
    Name,
    Operation,
    StaticCast,
    Ternary,
)
from tilegen.model.kernel import KernelModel, PointerParameter, ScalarParameter, TensorMap
from tilegen.model.statements import AssignC, Blank, CStmt, Declare, Expression, IfC, Return
from tilegen.model.transform import rewritten
from tilegen.model.walk import names

_TILE_LIMIT = 0x7FFF0000  # of a persistent kernel, whose blocks add the grid's extent to their tile


def launcher_text(model: KernelModel, host_constants: str) -> str:
    """The launcher and what it needs, one statement a line however long."""
    dialect = dialect_of(model.language)
    maps = [parameter for parameter in model.parameters if isinstance(parameter, TensorMap)]
    values: dict[str, object] = {
        "doc": _raw(comment_lines(launcher_comment(model))),
        "signature": launcher_signature(model),
        "body": _raw(print_statements(launcher_body(model), model.language, 2)),
        "encoder": encoder_values(maps, model.extents),
        "kernel": model.name if model.launch.counts_clusters else "",
        "shared": model.launch.shared_bytes > 0,
        "host_constants": host_constants,
    }
    return render_template(f"{model.language}/launcher.{dialect.suffix}.j2", values)


def _raw(lines: Sequence[Line]) -> str:
    return "\n".join(line.text for line in lines)


def launcher_body(model: KernelModel) -> tuple[CStmt, ...]:
    """The launcher's statements."""
    dialect = dialect_of(model.language)
    grid = _Grid(model, dialect)
    refuse = Return(Name(f"{dialect.prefix}ErrorInvalidValue"))
    statements = contract_checks(model, refuse)
    contract = len(statements)
    outputs = _clears(model, dialect, scratch=False)  # what no block adds to is 0 all the same
    statements += [Blank(), *grid.checked(_chain(outputs, dialect) if outputs else [])]
    calls = [*_calls(model, dialect), *_clears(model, dialect, scratch=True)]
    if calls:
        statements += [
            Blank(),
            *_map_declarations(model),
            *_device_declarations(model),
            *_chain(calls, dialect, declared=bool(outputs)),
            Blank(),
        ]
    statements += grid.after_device()
    statements += [Expression(CallC(grid.configured(), _arguments(model, dialect)))]
    statements[contract:contract] = _unused(model, statements)
    return (*statements, Return(CallC(Name(f"{dialect.prefix}GetLastError"))))


def _unused(model: KernelModel, statements: Sequence[CStmt]) -> list[CStmt]:
    """Arguments that the kernel has no use for: compilers warn of them otherwise."""
    used = set(names(tuple(statements)))
    given = (*(tensor.name for tensor in model.tensors), *(name for name, _ in model.scalars))
    return [Expression(StaticCast("void", Name(name))) for name in given if name not in used]


# --------------------------------------------------------------------------------------------- grid


@dataclass(frozen=True, slots=True)
class _Limit:
    """The most blocks along an axis, and how the text says it."""

    blocks: int
    text: CExpr


class _Grid:
    """The grid's extents as statements: those that need no device, those that do, and the launch's brackets. Extents
    that are constants of the file have neither name nor check."""

    def __init__(self, model: KernelModel, dialect: Dialect) -> None:
        self._model = model
        self._dialect = dialect
        self._flat = all(extent == Literal(1) for extent in model.launch.grid[1:])
        self._extents = list(model.launch.grid)
        self._tiles: CExpr | None = None  # of a persistent kernel
        self._resident: CExpr | None = None  # its largest grid, where that is more than the multiprocessors
        match self._extents[0]:
            case CallC(Name("min"), (tiles, limit)) if model.launch.uses_multiprocessors:
                self._tiles = tiles
                if not isinstance(limit, Name):
                    self._resident, limit = limit, Name("resident")
                self._extents[0] = CallC(Name("min"), (Name("tiles"), limit))

    def _constant(self, extent: CExpr) -> bool:
        known = (
            *self._model.extents,
            *(name for name, _ in self._model.scalars),
            "multiprocessors",
            "clusters",
            "tiles",
            "resident",
        )
        return not any(name in known for name in names(extent))

    def _variable(self) -> list[tuple[Name, CExpr, _Limit]]:
        """Name, value and limit of each extent that is known at the launch only."""
        titles = ("blocks",) if self._flat else ("blocks_x", "blocks_y", "blocks_z")
        axes = zip(titles, self._extents, self._limits(), strict=False)
        return [(Name(title), extent, limit) for title, extent, limit in axes if not self._constant(extent)]

    def _limits(self) -> list[_Limit]:
        """The most blocks along each axis."""
        launch = self._model.launch
        limits = [_Limit(limit, Literal(limit, "hex")) for limit in launch.grid_limits]
        if launch.grid_threads:  # HIP counts the threads along an axis in 32 bits
            threads = Operation("/", Literal(launch.grid_threads, "hex"), Name("kThreads"))
            limits[0] = _Limit(launch.grid_threads // launch.block, threads)
        return limits

    def _counts(self) -> list[Name]:
        """What may be 0 or too large."""
        if self._tiles is not None:
            return [] if self._constant(self._tiles) else [Name("tiles")]
        return [name for name, _, _ in self._variable()]

    @property
    def _rounded(self) -> bool:
        """Whether the only extent is a constant that is computed with a quotient, as clusters want it: formatters take
        `<` and `*` before its parentheses for those of a template."""
        extent = self._extents[0]
        return self._flat and self._constant(extent) and "/" in expression_text(extent)

    @property
    def _asks_device(self) -> bool:
        """Whether the extents are the program's own, of the number of multiprocessors."""
        return self._model.launch.uses_multiprocessors and self._tiles is None

    def checked(self, cleared: Sequence[CStmt]) -> list[CStmt]:
        """What is counted without the device, with the ends where that is nothing or too much. What is to be cleared
        is so in any case but that it is too much."""
        if self._asks_device:
            return [*cleared]
        counted = self._declared()
        if self._tiles is not None:  # constant ones need no check: they are named where they are used
            constant = self._constant(self._tiles)
            counted = [] if constant else [self._named("tiles", self._tiles)]
        if not cleared:
            return [*counted, *self._nothing_to_do(), *self._refusals()]
        return [*counted, *self._refusals(), Blank(), *cleared, Blank(), *self._nothing_to_do()]

    def after_device(self) -> list[CStmt]:
        """The extents that depend on the device, and a constant one that brackets cannot hold as it is."""
        if self._rounded:
            return [Declare("u32", "blocks", self._extents[0], const=True)]
        if not self._model.launch.uses_multiprocessors:
            return []
        checks = [*self._nothing_to_do(), *self._refusals()] if self._asks_device else []
        named: list[CStmt] = []
        if self._tiles is not None and self._constant(self._tiles):
            named.append(self._named("tiles", self._tiles))
        if self._resident is not None:
            named.append(self._named("resident", self._resident))
        return [*named, *self._declared(), *checks]

    def _named(self, name: str, count: CExpr) -> CStmt:
        return Declare("u64", name, _without_min(in_64_bits(count, self._model)), const=True)

    def _declared(self) -> list[CStmt]:
        return [self._named(name.name, extent) for name, extent, _ in self._variable()]

    def _refusals(self) -> list[CStmt]:
        """Returns where there is more than a launch can do."""
        refuse = Return(Name(f"{self._dialect.prefix}ErrorInvalidValue"))
        counts = self._counts()
        if not counts:
            return []
        if self._tiles is not None:
            if self._within(self._tiles, _TILE_LIMIT):
                return []
            excess = Operation(">", counts[0], Literal(_TILE_LIMIT, "hex"))
            return [IfC(excess, (refuse,), comment="an int counts them, and up to a grid beyond the last")]
        tests = [
            Operation(">", name, limit.text)
            for name, extent, limit in self._variable()
            if not self._within(extent, limit.blocks)
        ]
        return [IfC(any_of(tests), (refuse,), comment="more than a grid holds")] if tests else []

    def _within(self, count: CExpr, limit: int) -> bool:
        """Whether a count is never more than this."""
        most = largest_count(count, self._model)
        return most is not None and most <= limit

    def _nothing_to_do(self) -> list[CStmt]:
        """Returns where there are no blocks."""
        empty = [Operation("==", count, Literal(0)) for count in self._counts()]
        return [IfC(any_of(empty), (Return(Name(f"{self._dialect.prefix}Success")),))] if empty else []

    def configured(self) -> CExpr:
        """`name<<<blocks, threads, shared bytes, stream>>>`."""
        named = {id(extent): f"u32({name.name})" for name, extent, _ in self._variable()}
        counts = [named.get(id(extent)) or expression_text(extent) for extent in self._extents]
        counts[0] = "blocks" if self._rounded else counts[0]
        grid = counts[0] if self._flat else f"dim3({', '.join(counts[:2] if counts[2] == '1' else counts)})"
        dynamic = self._dialect.language == "cuda" and self._model.launch.shared_bytes
        shared = "kSharedBytes" if dynamic else "0"
        return Name(f"{self._model.name}<<<{grid}, kThreads, {shared}, stream>>>")


def _without_min(expression: CExpr) -> CExpr:
    """min(a, b) as a conditional: hosts have it in a header of the standard library only."""

    def visit(node: CExpr) -> CExpr | None:
        match node:
            case CallC(Name("min"), (left, right)):
                return Ternary(Operation("<", left, right), left, right)
            case CallC(Name("max"), (left, right)):
                return Ternary(Operation(">", left, right), left, right)
            case CallC(Name("ceildiv"), (left, right)):
                return Operation("/", Operation("-", Operation("+", left, right), Literal(1)), right)
            case _:
                return None

    return rewritten(expression, visit)


# --------------------------------------------------------------------------------------------- calls before the launch


def _clears(model: KernelModel, dialect: Dialect, scratch: bool) -> list[CExpr]:
    """The calls that set outputs, or scratch memory, to 0."""
    calls: list[CExpr] = []
    for tensor in model.tensors:
        if tensor.zeroed and scratch == (tensor.role == "scratch"):
            element = CallC(Name("sizeof"), (Name(f"*{tensor.name}"),))
            factors = (element, *(extent for extent in tensor.shape if extent != Literal(1)))
            size = in_64_bits(joined("*", factors), model)
            function = Name(f"{dialect.prefix}MemsetAsync")
            calls.append(CallC(function, (Name(tensor.name), Literal(0), size, Name("stream"))))
    return calls


def _calls(model: KernelModel, dialect: Dialect) -> list[CExpr]:
    """The runtime calls that must succeed before the launch, in order."""
    calls: list[CExpr] = []
    prefix = dialect.prefix
    if model.launch.asks_for_shared:
        limit = Name("cudaFuncAttributeMaxDynamicSharedMemorySize")
        calls.append(CallC(Name("cudaFuncSetAttribute"), (Name(model.name), limit, Name("kSharedBytes"))))
    if model.launch.counts_clusters:
        calls.append(CallC(Name("resident_clusters"), (Name("&clusters"),)))
    elif model.launch.uses_multiprocessors:
        attribute = "cudaDevAttrMultiProcessorCount"
        if dialect.language == "hip":
            attribute = "hipDeviceAttributeMultiprocessorCount"
        calls.append(CallC(Name(f"{prefix}GetDevice"), (Name("&device"),)))
        arguments = (Name("&multiprocessors"), Name(attribute), Name("device"))
        calls.append(CallC(Name(f"{prefix}DeviceGetAttribute"), arguments))
    return [*calls, *encode_calls(model)]


def _map_declarations(model: KernelModel) -> list[CStmt]:
    maps = [
        f"map_{parameter.parameter}" for parameter in model.parameters if isinstance(parameter, TensorMap)
    ]
    return [Declare("CUtensorMap", ", ".join(f"{name} = {{}}" for name in maps))] if maps else []


def _device_declarations(model: KernelModel) -> list[CStmt]:
    if not model.launch.uses_multiprocessors:
        return []
    counted = "clusters" if model.launch.counts_clusters else "device = 0, multiprocessors"
    return [Declare("int", counted, Literal(0))]


def _chain(calls: Sequence[CExpr], dialect: Dialect, declared: bool = False) -> list[CStmt]:
    """Each call if those before it succeeded; `declared` where `error` is there already."""
    success = Name(f"{dialect.prefix}Success")
    first = AssignC(Name("error"), calls[0]) if declared else Declare(dialect.error_type, "error", calls[0])
    statements: list[CStmt] = [first]
    going_on = Operation("==", Name("error"), success)
    statements += [IfC(going_on, (AssignC(Name("error"), call),)) for call in calls[1:]]
    return [*statements, IfC(Operation("!=", Name("error"), success), (Return(Name("error")),))]


def _arguments(model: KernelModel, dialect: Dialect) -> tuple[CExpr, ...]:
    arguments: list[CExpr] = []
    for parameter in model.parameters:
        match parameter:
            case TensorMap():
                arguments.append(Name(f"map_{parameter.parameter}"))
            case PointerParameter(_, tensor):
                arguments.append(Name(tensor))
            case ScalarParameter(_, _, Name() as value):
                arguments.append(value)
            case ScalarParameter(_, dtype, value):
                wide = _without_min(in_64_bits(value, model))
                arguments.append(StaticCast(dialect.type_name(dtype), wide, functional=True))
    return tuple(arguments)
