"""What the text of a parallel loop calls its registers, its variables and the thread that owns an element."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tilegen.inference.access import Digit, merged_digits
from tilegen.inference.fragment import Fragment, Mode
from tilegen.inference.loops import Loop
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.register_index import Symbol, digit_sum
from tilegen.lower.vocabulary.threads import thread_part
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Literal, Name, Operation
from tilegen.model.statements import CStmt, Declare, ForC
from tilegen.model.walk import names as mentioned

REGISTER_NAMES = {1: ("r",), 2: ("mi", "r"), 3: ("mi", "ni", "r"), 4: ("mi", "ni", "ki", "r")}


@dataclass(slots=True)
class ElementNames:
    """Names inside one parallel loop whose innermost registers are walked `vector` at a time.

    `symbols` are the register dimensions, of which a caller's loop walks the first `outer`; `variables` what each loop
    variable is at the first element of a vector; `definitions` the declarations of those variables that are not just a
    name or a number.
    """

    symbols: tuple[Symbol, ...]
    variables: dict[str, CExpr]
    definitions: dict[str, CExpr]
    partition: Fragment
    loop: Loop
    vector: int
    outer: int = 0

    def at(self, fine: CExpr) -> dict[str, CExpr]:
        """The loop variables at an element of the vector."""
        last = self.symbols[-1]
        still = Symbol(Literal(0), last.extent, fine, last.vector)
        symbols = (*(Symbol(Literal(0), symbol.extent) for symbol in self.symbols[:-1]), still)
        return {
            name: c.add(self.variables[name], digit_sum(register_digits_of(self.partition, axis), symbols))
            for axis, name in enumerate(self.loop.names)
        }

    def symbols_at(self, fine: CExpr) -> tuple[Symbol, ...]:
        return (*self.symbols[:-1], self.symbols[-1].at(fine))

    def nest(self, body: list[CStmt]) -> list[CStmt]:
        """The body inside the loops over the registers, after the variables that it uses."""
        body = [*self.declarations(body), *body]
        for position in range(len(self.symbols) - 1, self.outer - 1, -1):
            symbol = self.symbols[position]
            if not isinstance(symbol.coarse, Name):
                continue
            step = Literal(symbol.vector) if symbol.vector > 1 else None
            loop = ForC(
                symbol.coarse.name, Literal(0), Literal(symbol.extent), tuple(body), step, unroll=True
            )
            body = [loop]
        return body

    def declarations(self, body: Iterable[CStmt]) -> list[CStmt]:
        used = mentioned(tuple(body))
        return [
            Declare("int", name, value, const=True)
            for name, value in self.definitions.items()
            if name in used
        ]

    @property
    def loops(self) -> bool:
        """Whether the text has a loop over registers."""
        return any(isinstance(symbol.coarse, Name) for symbol in self.symbols[self.outer :])


def element_names(
    context: Context, loop: Loop, partition: Fragment, vector: int, outer: str = ""
) -> ElementNames:
    """Chooses the names of a loop under a partition; `outer` is that of the first register dimension where a caller's
    loop walks it."""
    shape = partition.register_shape
    own_names = [name.lstrip("%") for name in loop.names]
    reserved = dict.fromkeys([*context.taken, *own_names, *map(_short, own_names)])
    own = len(shape) - (1 if outer else 0)
    wanted = REGISTER_NAMES.get(own) or tuple(f"r{position}" for position in range(own))
    symbols = [Symbol(Name(outer), shape[0])] if outer else []
    for position, (extent, name) in enumerate(zip(shape[len(symbols) :], wanted, strict=True)):
        step = vector if position == own - 1 else 1
        coarse: CExpr = Literal(0) if extent == step else Name(_free(name, reserved))
        symbols.append(Symbol(coarse, extent, Literal(0), step))
    variables: dict[str, CExpr] = {}
    definitions: dict[str, CExpr] = {}
    for axis, name in enumerate(loop.names):
        along = digit_sum(register_digits_of(partition, axis), tuple(symbols))
        value = c.add(thread_part(partition, axis, context.threads), along)
        if isinstance(value, Literal | Name):
            variables[name] = value
        else:
            called = _variable_name(context, loop, name, definitions)
            variables[name] = Name(called)
            definitions[called] = value
    return ElementNames(tuple(symbols), variables, definitions, partition, loop, vector, len(shape) - own)


def _variable_name(context: Context, loop: Loop, name: str, defined: dict[str, CExpr]) -> str:
    """The user's name of a loop variable, without the number that sets it apart from an earlier loop's, where nothing
    else in reach has that name."""
    short = _short(name.lstrip("%"))
    others = [other for other in loop.names if other != name]
    if short not in (*context.taken, *context.environment, *defined, *others):
        return short
    return _free(name.lstrip("%"), {taken: None for taken in context.taken if taken != name})


def _short(name: str) -> str:
    """The name without the number that sets it apart."""
    return re.sub(r"_\d+$", "", name)


def _free(name: str, reserved: dict[str, None]) -> str:
    candidate, count = name, 1
    while candidate in reserved:
        count += 1
        candidate = f"{name}_{count}"
    return candidate


def register_digits_of(partition: Fragment, axis: int) -> tuple[Digit, ...]:
    """A register's share of a coordinate, as digits of its index."""
    digits = []
    for symbol, modes in enumerate(partition.registers):
        divisor = 1
        for mode in modes:
            if mode.steps[axis]:
                digits.append(Digit(symbol, divisor, mode.extent, mode.steps[axis]))
            divisor *= mode.extent
    return merged_digits(digits)


def _is_first(digit: CExpr) -> CExpr:
    """`digit == 0`, and `lane < 16` for `lane / 16`."""
    match digit:
        case Operation("/", whole, unit):
            return c.operation("<", whole, unit)
        case _:
            return c.operation("==", digit, 0)


def owner_conditions(context: Context, partition: Fragment) -> list[CExpr]:
    """What tells the one thread that stores an element from those that hold copies of it."""
    conditions: list[CExpr] = []
    divisor = 1
    run = 1  # extent of neighbouring modes that replicate
    for mode in (*partition.threads, Mode(1, (1,))):
        if mode.replicates:
            run *= mode.extent
        elif run > 1:
            whole = context.threads.whole
            unit = divisor // run
            to_the_end = divisor == whole.count
            if to_the_end and unit == 1:
                conditions.append(c.operation("==", context.threads.name(whole.name), 0))
            elif to_the_end and len(context.threads.digits(unit, run)) > 1:  # the first threads own it
                conditions.append(c.operation("<", context.threads.name(whole.name), unit))
            else:
                conditions.append(_is_first(context.threads.digit(unit, run)))
            run = 1
        divisor *= mode.extent
    return conditions
