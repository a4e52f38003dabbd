"""What checks know of a program's integers at each of its statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tilegen.ir.effects import blocks_of
from tilegen.ir.expressions import Binary, Const, Expr, Select, Var
from tilegen.ir.interval import Range, interval
from tilegen.ir.linear import affine
from tilegen.ir.nodes import For, If, Let, ParallelFor, Persistent, Program, Stmt
from tilegen.ir.traversal import children, substitute


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the variables in scope: ranges, which of them take every value of their range, and the
    values of immutable definitions; and whether the statement stands under a condition, which is not judged."""

    ranges: dict[str, Range] = field(default_factory=dict)
    attained: frozenset[str] = frozenset()
    lets: dict[str, Expr] = field(default_factory=dict)
    guarded: bool = False

    def with_var(self, var: Var, bounds: Range, attained: bool) -> Known:
        names = self.attained | {var.name} if attained else self.attained
        return replace(self, ranges={**self.ranges, var.name: bounds}, attained=names)

    def attains_bounds_of(self, expr: Expr) -> bool:
        """Whether an expression without names of lets really takes both ends of its interval."""
        form = affine(expr)
        return form is not None and all(name in self.attained for name in form.coefficients)


def each_with_known(program: Program) -> Iterator[tuple[Stmt, Known]]:
    """All statements in their order, each with what is known in front of it."""
    known = Known()
    for var, extent in zip(program.kernel.block_vars, program.kernel.grid, strict=True):
        known = _counting(known, var, extent)
    yield from _block(program.kernel.body, known)


def _counting(known: Known, var: Var, extent: Expr) -> Known:
    """A variable that counts 0 … extent - 1."""
    highest = interval(extent, known.ranges)[1]
    return known.with_var(var, (0, None if highest is None else highest - 1), isinstance(extent, Const))


def _block(statements: Sequence[Stmt], known: Known) -> Iterator[tuple[Stmt, Known]]:
    for statement in statements:
        yield statement, known
        inner = known
        match statement:
            case Let(var=var, value=value, mutable=mutable):
                if not mutable:
                    known = replace(known, lets={**known.lets, var.name: substitute(value, known.lets)})
            case For():
                inner = _loop(known, statement)
            case ParallelFor() | Persistent():
                for var, extent in zip(statement.vars, statement.extents, strict=True):
                    inner = _counting(inner, var, extent)
            case If():
                inner = replace(known, guarded=True)
            case _:
                pass
        for block in blocks_of(statement):
            yield from _block(block, inner)


def _loop(known: Known, loop: For) -> Known:
    start, stop, step = (substitute(bound, known.lets) for bound in (loop.start, loop.stop, loop.step))
    lowest, highest = interval(start, known.ranges)[0], interval(stop, known.ranges)[1]
    if isinstance(start, Const) and isinstance(stop, Const) and isinstance(step, Const):
        values = range(int(start.value), int(stop.value), int(step.value))
        if not values:
            return replace(known, guarded=True)
        return known.with_var(loop.var, (values[0], values[-1]), True)
    return known.with_var(loop.var, (lowest, None if highest is None else highest - 1), False)


def each_evaluated(expr: Expr) -> Iterator[Expr]:
    """The parts of an expression that every evaluation of it evaluates, the outer ones first."""
    yield expr
    parts = children(expr)
    if isinstance(expr, Select) or (isinstance(expr, Binary) and expr.op in ("and", "or")):
        parts = parts[:1]
    for part in parts:
        yield from each_evaluated(part)
