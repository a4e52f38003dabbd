"""The state of a walk: frames, names in scope, and the statements built so far."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tilegen.diagnostics import ProgramError
from tilegen.frontend.names import Names
from tilegen.frontend.source import Source
from tilegen.frontend.values import ConstExtent, KernelLaunch
from tilegen.ir.expressions import Expr, Var
from tilegen.ir.nodes import Assumption, Buffer, LayoutAnnotation, Rasterisation, Stmt
from tilegen.ir.types import DType
from tilegen.language.tensors import TensorSpec
from tilegen.location import Location
from tilegen.target import Target

Scope = dict[str, object]


@dataclass(slots=True)
class Frame:
    """One function being walked.

    `outer` finds names that the function does not bind itself (closure, globals, builtins) and raises KeyError.
    `bound_at` gives the first line that binds a local name, `rebound` the names bound more than once, `depth` how many
    loops and ifs of the kernel stand around the call.
    """

    source: Source
    outer: Callable[[str], object]
    bound_at: dict[str, int]
    rebound: frozenset[str]
    scopes: list[Scope] = field(default_factory=lambda: [{}])
    expired: dict[str, Location] = field(default_factory=dict)
    text: str = ""  # of the statement being walked
    depth: int = 0


@dataclass(slots=True)
class KernelState:
    """The kernel whose body is being walked."""

    launch: KernelLaunch
    block_vars: tuple[Var, ...]
    location: Location
    allocations: list[Buffer] = field(default_factory=list)
    rasterisation: Rasterisation | None = None
    annotations: list[LayoutAnnotation] = field(default_factory=list)
    thread: Var | None = None
    body: tuple[Stmt, ...] | None = None  # once the with statement is closed


class WidenVariable(Exception):
    """A variable that began as a literal is assigned a wider dtype: the walk starts again with that dtype."""

    def __init__(self, key: str, dtype: DType) -> None:
        super().__init__(key)
        self.key = key
        self.dtype = dtype


class Returned(Exception):
    """A return statement was reached."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


class LeaveLoop(Exception):
    """break or continue of a loop that runs at generation time."""

    def __init__(self, statement: ast.stmt, tile_depth: int) -> None:
        super().__init__()
        self.statement = statement
        self.tile_depth = tile_depth


class Context(ABC):
    """What every part of the walker works on."""

    def __init__(self, widened: dict[str, DType]) -> None:
        self.names = Names()
        self.frames: list[Frame] = []
        self.blocks: list[list[Stmt]] = []
        self.kernel: KernelState | None = None
        self.inside_kernel = False
        self.parallel_depth = 0
        self.tile_depth = 0  # of loops and ifs of the kernel
        self.inlined: list[str] = []
        self.mutable: dict[str, str | None] = {}  # variable → key under which it may be widened
        self.assigned: set[str] = set()
        self.fresh: set[str] = set()  # variables from T.alloc_var that have no Python name yet
        self.widened = widened
        self.target = ""  # the Python name that the value being evaluated goes to
        self.binding = frozenset[ast.expr]()  # names that the annotation being evaluated binds itself
        self.machine: Target | None = None  # what text is generated for
        self.tensors: dict[str, Buffer] = {}
        self.created: list[Buffer] = []  # by T.empty
        self.scalars: dict[str, Var] = {}
        self.extents: dict[str, Var] = {}
        self.specs: dict[str, TensorSpec] = {}
        self.dims: dict[str, int] = {}
        self.dims_used: dict[str, None] = {}
        self.argument_names: tuple[str, ...] = ()
        self.output_arguments: tuple[str, ...] = ()
        self.fixed_parameters: dict[str, object] = {}
        self.consts: dict[str, ConstExtent] = {}
        self.assumptions: list[Assumption] = []

    @abstractmethod
    def evaluate(self, node: ast.expr) -> object:
        """The value of an expression."""

    @abstractmethod
    def execute(self, statements: Sequence[ast.stmt]) -> None:
        """Runs statements, adding to the current block."""

    @abstractmethod
    def expression(self, value: object, node: ast.expr) -> Expr:
        """The value as a scalar expression of the kernel.

        Raises:
            ProgramError: for anything that is not a scalar.
        """

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def location(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> Location:
        frame = self.frames[-1]
        if isinstance(node, ast.stmt):
            return frame.source.header_location(node, frame.text)
        return frame.source.location(node, frame.text)

    def fail(
        self,
        node: ast.expr | ast.stmt | ast.arg | ast.keyword,
        message: str,
        remedy: str = "",
        related: Sequence[tuple[Location, str]] = (),
    ) -> NoReturn:
        raise ProgramError(self.location(node), message, remedy=remedy, related=related)

    def emit(self, statement: Stmt) -> None:
        self.blocks[-1].append(statement)

    @contextmanager
    def block(self, location: Location) -> Iterator[list[Stmt]]:
        """A nested block of the kernel: statements go to the list, names bound inside end with it. `location` is the
        statement that opens the block."""
        statements: list[Stmt] = []
        scope: Scope = {}
        self.blocks.append(statements)
        self.frame.scopes.append(scope)
        self.tile_depth += 1
        try:
            yield statements
        finally:
            self.tile_depth -= 1
            self.frame.scopes.pop()
            self.blocks.pop()
            self._expire(scope, location)

    def _expire(self, ended: Scope, location: Location) -> None:
        """Names bound inside a block have no value after it, not even the one they had before: after Python's own
        block they would keep the new one."""
        for name in ended:
            for scope in self.frame.scopes:
                scope.pop(name, None)
            self.frame.expired[name] = location

    def find(self, name: str) -> object:
        """The value of a local name.

        Raises:
            KeyError: when it is not bound here.
        """
        for scope in reversed(self.frame.scopes):
            if name in scope:
                return scope[name]
        raise KeyError(name)

    def bind(self, name: str, value: Any) -> None:
        """Binds a name in the innermost scope."""
        self.frame.scopes[-1][name] = value
        self.frame.expired.pop(name, None)
