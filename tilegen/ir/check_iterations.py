"""Iterations of T.Parallel run in any order: none reads an element that another one writes.

Only what is certain is refused: two iterations are looked for that write and read the same element. Conditional
accesses, and indices that are not linear in the loop's variables, are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tilegen.diagnostics import ProgramError
from tilegen.ir.check_operations import declared
from tilegen.ir.effects import blocks_of, expressions_of
from tilegen.ir.expressions import Const, Expr, Load, Select, Var
from tilegen.ir.linear import Linear, linear
from tilegen.ir.nodes import Buffer, For, If, Let, ParallelFor, Program, Stmt, Store
from tilegen.ir.printer import expression_text
from tilegen.ir.traversal import children, free_vars, substitute


@dataclass(frozen=True, slots=True)
class _Access:
    """One element that an iteration reads or writes."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    statement: Stmt


@dataclass(slots=True)
class _Nest:
    """A nest of parallel loops: its variables with their extents, what its iterations read and write, and the names
    whose values an iteration changes by itself."""

    extents: dict[str, int]
    reads: list[_Access]
    writes: list[_Access]
    private: set[str]


def check_iterations(program: Program) -> None:
    """Checks every nest of parallel loops.

    Raises:
        ProgramError: at the statement that reads.
    """
    for loop in _outermost(program.kernel.body):
        nest = _Nest({}, [], [], set())
        _collect(nest, loop, {})
        for write in nest.writes:
            for read in nest.reads:
                if read.buffer == write.buffer and read.indices != write.indices and _meet(nest, write, read):
                    _refuse(write, read)


def _outermost(statements: Sequence[Stmt]) -> Iterator[ParallelFor]:
    for statement in statements:
        if isinstance(statement, ParallelFor):
            yield statement
        else:
            for block in blocks_of(statement):
                yield from _outermost(block)


def _collect(nest: _Nest, statement: Stmt, lets: Mapping[str, Expr]) -> None:
    for expression in expressions_of(statement):
        for load in _certain_loads(expression):
            _note(nest.reads, load.buffer, load.indices, statement, lets)
    match statement:
        case Store(buffer=buffer, indices=indices):
            _note(nest.writes, buffer, indices, statement, lets)
        case ParallelFor(vars=variables, extents=extents):
            for var, extent in zip(variables, extents, strict=True):
                nest.extents[var.name] = int(extent.value) if isinstance(extent, Const) else 1
        case For(var=var):
            nest.private.add(var.name)
        case _:
            pass
    if isinstance(statement, If):
        return
    for block in blocks_of(statement):
        inner = dict(lets)
        for part in block:
            if isinstance(part, Let):
                if part.mutable:
                    nest.private.add(part.var.name)
                else:
                    inner[part.var.name] = substitute(part.value, inner)
            _collect(nest, part, inner)


def _certain_loads(expression: Expr) -> Iterator[Load]:
    """The elements that are read whatever the conditions inside the expression are."""
    if isinstance(expression, Load):
        yield expression
    parts = (expression.condition,) if isinstance(expression, Select) else children(expression)
    for part in parts:
        yield from _certain_loads(part)


def _note(
    accesses: list[_Access],
    buffer: Buffer,
    indices: tuple[Expr, ...],
    statement: Stmt,
    lets: Mapping[str, Expr],
) -> None:
    if buffer.scope != "local":
        accesses.append(_Access(buffer, tuple(substitute(index, lets) for index in indices), statement))


def _meet(nest: _Nest, write: _Access, read: _Access) -> bool:
    """Whether two different iterations are found, the first of which writes the element that the second reads."""
    axes = []
    for written, loaded in zip(write.indices, read.indices, strict=True):
        left, right = linear(written), linear(loaded)
        own_left, own_right = _own(nest, left), _own(nest, right)
        shared = _rest(nest, left).plus(_rest(nest, right), -1)
        if own_left is None or own_right is None or shared.terms:
            return False
        axes.append((own_left, own_right, left.constant - right.constant))
    names = [name for name, extent in nest.extents.items() if extent > 1]
    return _shifted(nest, axes, names) or _at_the_ends(nest, axes, names)


_Axis = tuple[
    dict[str, int], dict[str, int], int
]  # coefficients of the write and of the read, constant difference


def _shifted(nest: _Nest, axes: Sequence[_Axis], names: Sequence[str]) -> bool:
    """Whether the accesses are the same but for a step along one variable."""
    if any(write != read for write, read, _ in axes):
        return False
    for name in names:
        steps = set()
        for write, _, constant in axes:
            coefficient = write.get(name, 0)
            if coefficient == 0 and constant == 0:
                continue
            steps.add(-constant // coefficient if coefficient and constant % coefficient == 0 else None)
        step = steps.pop() if len(steps) == 1 else None
        if step is not None and 0 < abs(step) < nest.extents[name]:
            return True
    return False


def _at_the_ends(nest: _Nest, axes: Sequence[_Axis], names: Sequence[str]) -> bool:
    """Whether they meet in iterations at the ends of the loops: mirrored, transposed or broadcast accesses do."""
    ends = [sorted({0, 1, nest.extents[name] - 2, nest.extents[name] - 1}) for name in names]
    points = [dict(zip(names, values, strict=True)) for values in product(*ends)]
    written = {
        tuple(_value(write, point) + constant for write, _, constant in axes): point for point in points
    }
    for point in points:
        found = written.get(tuple(_value(read, point) for _, read, _ in axes))
        if found is not None and found != point:
            return True
    return False


def _value(coefficients: Mapping[str, int], point: Mapping[str, int]) -> int:
    return sum(coefficient * point.get(name, 0) for name, coefficient in coefficients.items())


def _own(nest: _Nest, form: Linear) -> dict[str, int] | None:
    """The coefficients of the nest's variables; None where an atom depends on them, or on what changes inside."""
    found: dict[str, int] = {}
    changing = nest.private | set(nest.extents)
    for atom, coefficient in form.terms.items():
        if isinstance(atom, Var) and atom.name in nest.extents:
            found[atom.name] = coefficient
        elif any(name in changing for name in free_vars(atom)):
            return None
    return found


def _rest(nest: _Nest, form: Linear) -> Linear:
    kept = {
        atom: coefficient
        for atom, coefficient in form.terms.items()
        if not (isinstance(atom, Var) and atom.name in nest.extents)
    }
    return Linear(kept, 0)


def _refuse(write: _Access, read: _Access) -> None:
    name = read.buffer.name
    wrote, loaded = (f"{name}[{', '.join(map(expression_text, a.indices))}]" for a in (write, read))
    elsewhere = (
        [(write.statement.location, "it is written here")] if read.statement != write.statement else []
    )
    raise ProgramError(
        read.statement.location,
        f"an iteration of T.Parallel reads {loaded}, which another iteration writes as {wrote}: their order is open",
        remedy=f"copy {name} to another tile first and read from that",
        related=[*elsewhere, *declared(read.buffer)],
    )
