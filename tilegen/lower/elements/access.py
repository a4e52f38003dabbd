"""The elements that one iteration of a parallel loop touches: their text, and the conditions they stand under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilegen.errors import TilegenError
from tilegen.inference.access import Digit, register_digits
from tilegen.inference.exchange import sequential_variables
from tilegen.inference.fragment import Fragment
from tilegen.inference.loops import Access, Loop
from tilegen.inference.vector_access import access_width
from tilegen.ir import build
from tilegen.ir.affine import interval
from tilegen.ir.expressions import Expr, Load, Var
from tilegen.ir.nodes import AtomicElement, AtomicOp, Buffer, Let
from tilegen.ir.traversal import children, rebuild, substitute
from tilegen.ir.types import DType
from tilegen.ir.walk import each_statement
from tilegen.lower.elements.atomic import vector_atomic
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.addresses import global_element, shared_element_at
from tilegen.lower.vocabulary.bounds import Ranges, loop_ranges, padding_conditions, tensor_conditions
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.element_names import ElementNames, owner_conditions
from tilegen.lower.vocabulary.register_index import Symbol, digit_sum
from tilegen.lower.vocabulary.scalar import dialect, scalar, zero
from tilegen.model import build as c
from tilegen.model.dialect import Dialect
from tilegen.model.expressions import CExpr, Name, Ternary

Key = tuple[str, tuple[Expr, ...]]


class ForeignElement(TilegenError):
    """An iteration needs a register of another thread; inference should have planned an exchange."""


@dataclass(slots=True)
class ElementAccess:
    """What one loop's body needs to name its elements.

    `vectors` names the register arrays that vector loads have filled, by buffer and indices; `lets` are values of
    names that the body defines; `implied` are conditions that hold where the body stands; `guards` are conditions of
    the program for single loads, which are 0 where they do not hold, and `lazy` loads that cannot run before their
    condition is known (see tilegen.lower.elements.guarded_loads); `sequential` are the variables of loops inside the
    body, with their extents."""

    context: Context
    loop: Loop
    partition: Fragment
    names: ElementNames
    exchanges: Mapping[str, Buffer]
    vectors: dict[Key, str] = field(default_factory=dict)
    lets: dict[str, Expr] = field(default_factory=dict)
    implied: list[CExpr] = field(default_factory=list)
    guards: dict[Key, tuple[Expr, ...]] = field(default_factory=dict)
    lazy: dict[Key, None] = field(default_factory=dict)
    known: Ranges = field(default_factory=dict)
    sequential: tuple[tuple[str, int], ...] = ()
    owner: list[CExpr] = field(default_factory=list)
    padding: list[Expr] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known = loop_ranges(self.context, self.loop)
        self.sequential = sequential_variables(self.loop, self.context.decisions)
        self.owner = owner_conditions(self.context, self.partition)
        self.padding = padding_conditions(self.loop, self.partition)

    @property
    def language(self) -> Dialect:
        return dialect(self.context)

    @property
    def vector(self) -> int:
        return self.names.vector

    @property
    def element_variable(self) -> str:
        """The variable of a loop over the elements of a vector."""
        return self.context.local("v", "e", "element")

    def type_name(self, dtype: DType) -> str:
        return self.language.type_name(dtype)

    def learn(self, let: Let) -> None:
        """Between which values a name of the body stays, so that // and % of it need not mind negative ones."""
        if let.var.dtype.is_integer:
            self.known = {
                **self.known,
                let.var.name: interval(let.value, {**self.context.ranges, **self.known}),
            }

    # ------------------------------------------------------------------------------------- expressions

    def expression(self, expr: Expr, fine: CExpr) -> CExpr:
        """A scalar at one element of the vector."""
        here = self.names.at(fine)
        fixed = {name: build.const(v) for name, value in here.items() if (v := c.value_of(value)) is not None}
        saved = dict(self.context.environment), dict(self.context.ranges)
        self.context.environment.update(here)
        self.context.ranges.update(self.known)
        try:
            return scalar(self.context, _beside_loads(expr, fixed), lambda load: self.loaded(load, fine))
        finally:
            self.context.environment, self.context.ranges = saved

    def loaded(self, load: Load, fine: CExpr) -> CExpr:
        """The value of a load: a register, a place in a vector that was loaded before, or memory, which gives 0 outside
        of its tensor."""
        indices = tuple(substitute(index, self.lets) for index in load.indices)
        vector = self.vectors.get((load.buffer.name, indices))
        if vector is not None:
            return c.index(vector, fine)
        element = self.element(load.buffer, indices, fine)
        missing = self.missing(Access("load", load.buffer, indices), fine)
        condition = c.conjunction(missing)
        if condition is None:
            return element
        return Ternary(condition, element, zero(self.context, load.buffer.dtype))

    # ------------------------------------------------------------------------------------- elements

    def memory(self, buffer: Buffer) -> Buffer:
        """The buffer that an access really touches: a fragment may pass through shared memory."""
        return self.exchanges.get(buffer.name, buffer)

    def in_registers(self, buffer: Buffer) -> bool:
        return self.memory(buffer).scope in ("fragment", "local")

    def element(self, buffer: Buffer, indices: tuple[Expr, ...], fine: CExpr) -> CExpr:
        """The element as a target of assignments."""
        actual = self.memory(buffer)
        match actual.scope:
            case "fragment":
                digits = self.digits(actual, indices)
                symbols = (*self.names.symbols_at(fine), *self._sequential_symbols())
                return c.index(actual.name, *(digit_sum(part, symbols) for part in digits))
            case "local":
                return c.index(actual.name, *(self.expression(index, fine) for index in indices))
            case "shared":
                layout = self.context.decisions.shared[actual.name]
                extents = shared_tiles.extent_constants(self.context, actual)
                places = [self.expression(index, fine) for index in indices]
                return shared_element_at(self.context, actual.name, layout, extents, places)
            case _:
                return global_element(
                    self.context, actual, [self.expression(index, fine) for index in indices]
                )

    def digits(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[tuple[Digit, ...], ...]:
        """Where the thread itself holds the element.

        Raises:
            ForeignElement: when it does not.
        """
        fragment = self.context.decisions.fragments[buffer.name]
        found = register_digits(self.partition, self.loop.names, fragment, indices, self.sequential)
        if found is None:
            raise ForeignElement(
                f"{self.loop.node.location}: an element of {buffer.name} lies in another thread"
            )
        return found

    def _sequential_symbols(self) -> tuple[Symbol, ...]:
        return tuple(
            Symbol(self.context.environment.get(name, Name(name)), extent) for name, extent in self.sequential
        )

    def width(self, access: Access) -> int:
        """Elements of a vector access to memory, 1 where it is made element by element."""
        actual = self.memory(access.buffer)
        if actual.scope not in ("global", "shared") or self.vector == 1:
            return 1
        if access.kind == "load" and (access.buffer.name, access.indices) in self.lazy:
            return 1
        moved = Access(access.kind, actual, access.indices)
        decisions = self.context.decisions
        layout = decisions.shared.get(actual.name)
        found = access_width(moved, self.loop.names, self.partition, decisions.divisors, layout)
        if found is not None and access.kind == "atomic":
            atomic = vector_atomic(self.context.target, self._atomic_op(access), actual, found[1])
            return atomic.elements if atomic else 1
        return found[1] if found else 1

    def _atomic_op(self, access: Access) -> AtomicOp:
        """The operation of an atomic access of the body."""
        for statement in each_statement(self.loop.body):
            if isinstance(statement, AtomicElement) and statement.buffer.name == access.buffer.name:
                return statement.op
        return "add"

    def register_run(self, buffer: Buffer, indices: tuple[Expr, ...], width: int) -> bool:
        """Whether `width` neighbours of the vector lie in neighbouring registers, from a multiple of `width` on."""
        if buffer.scope != "fragment":
            return False
        *outer, last = self.digits(buffer, indices)
        innermost = len(self.names.symbols) - 1
        if any(d.symbol == innermost and d.divisor < width for part in outer for d in part):
            return False
        run = 1
        for digit in sorted(last, key=lambda d: (d.symbol != innermost, d.divisor)):
            if digit.symbol == innermost and digit.divisor < width:
                if digit.divisor != run or digit.coefficient != run:
                    return False
                run *= digit.extent
            elif digit.coefficient % width:
                return False
        shape = self.context.decisions.fragments[buffer.name].register_shape
        return run >= width and run % width == 0 and shape[-1] % width == 0

    # ------------------------------------------------------------------------------------- conditions

    def conditions(self, access: Access, fine: CExpr) -> list[CExpr]:
        """Everything that must hold for an access to memory to take place; nothing for registers."""
        actual = self.memory(access.buffer)
        if actual.scope not in ("global", "shared"):
            return []
        wanted = list(self.padding)
        if actual.scope == "global":
            wanted += tensor_conditions(self.context, access.indices, actual.shape, self.known)
        if access.kind == "load":
            wanted += self.guards.get((access.buffer.name, access.indices), ())
        found = [self.expression(condition, fine) for condition in dict.fromkeys(wanted)]
        return [*self.owner, *found] if access.kind != "load" else found

    def missing(self, access: Access, fine: CExpr) -> list[CExpr]:
        """The conditions that do not hold already where the body stands."""
        return [condition for condition in self.conditions(access, fine) if condition not in self.implied]


def _beside_loads(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """The expression with variables replaced, loads left as they are: their indices are translated on their own."""
    if isinstance(expr, Load) or not values:
        return expr
    if isinstance(expr, Var):
        return values.get(expr.name, expr)
    parts = children(expr)
    replaced = tuple(_beside_loads(part, values) for part in parts)
    return rebuild(expr, replaced) if replaced != parts else expr
