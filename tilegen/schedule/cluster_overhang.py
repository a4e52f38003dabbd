"""Blocks that a cluster has beyond the grid: they run the program, so that whatever they store must miss its tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilegen.diagnostics import ProgramError
from tilegen.inference.loops import Access, as_loop
from tilegen.ir.affine import divisor_of, from_linear, interval, linear, substitute
from tilegen.ir.build import const
from tilegen.ir.effects import blocks_of
from tilegen.ir.expressions import Binary, Const, Expr
from tilegen.ir.interval import Range
from tilegen.ir.linear import Linear
from tilegen.ir.nodes import AtomicElement, For, Kernel, LeaveParts, Persistent, Stmt, Store
from tilegen.ir.walk import each_statement
from tilegen.location import Location


def check_overhang(kernel: Kernel, axis: int, size: int, divisors: Mapping[str, int]) -> None:
    """Raises ProgramError where blocks beyond the grid would write elements of tensors, or leave parts of sums;
    `divisors` are those of extents."""
    if divisor_of(kernel.grid[axis], divisors) % size == 0:
        return
    name = kernel.block_vars[axis].name
    for statement in each_statement(kernel.body):
        if isinstance(statement, LeaveParts):
            raise ProgramError(
                statement.location,
                f"clusters of {size} blocks may reach beyond the grid along {name}, and the blocks there would leave "
                "parts as well",
                remedy=f"make the grid's extent a multiple of {size} and say so (T.assume), or leave cluster_dims out",
            )
    for access, location, sizes in _stores(kernel.body):
        if not _misses(access, kernel, axis, sizes):
            raise ProgramError(
                location,
                f"clusters of {size} blocks may reach beyond the grid along {name}, and the blocks there would write "
                f"{access.buffer.name} as well",
                remedy=f"make the grid's extent a multiple of {size} and say so (T.assume), store where {name} moves "
                "by whole tiles, or leave cluster_dims out",
            )


def _stores(statements: tuple[Stmt, ...]) -> Iterator[tuple[Access, Location, dict[str, Range]]]:
    """The stores to tensors and atomic updates, with the bounds of their loops' variables."""
    for statement in each_statement(statements):
        loop = as_loop(statement)
        if loop is not None:
            bounds: dict[str, Range] = {
                name: (0, extent - 1) for name, extent in zip(loop.names, loop.extents, strict=True)
            }
            for access in loop.accesses:
                if access.kind != "load" and access.buffer.scope == "global":
                    yield access, statement.location, bounds
    for statement in _single(statements):
        if statement.buffer.scope == "global":
            yield Access("store", statement.buffer, statement.indices), statement.location, {}


def _single(statements: tuple[Stmt, ...]) -> Iterator[Store | AtomicElement]:
    """Stores outside of parallel loops."""
    for statement in statements:
        if isinstance(statement, Store | AtomicElement):
            yield statement
        elif as_loop(statement) is None:
            for block in blocks_of(statement):
                yield from _single(block)


def _misses(access: Access, kernel: Kernel, axis: int, sizes: dict[str, Range]) -> bool:
    """Whether an index lies beyond the tensor for every block beyond the grid."""
    ranges: dict[str, Range] = {var.name: (0, None) for var in kernel.block_vars}
    for statement in each_statement(kernel.body):
        if isinstance(statement, For):
            ranges[statement.var.name] = (interval(statement.start, ranges)[0], None)
        if isinstance(statement, Persistent):
            ranges.update((var.name, (0, None)) for var in statement.vars)
    ranges.update(sizes)
    name, first = kernel.block_vars[axis].name, kernel.grid[axis]
    for index, extent in zip(access.indices, access.buffer.shape, strict=True):
        form = linear(index)
        rising = any(coefficient > 0 for atom, coefficient in form.terms.items() if _is(atom, name))
        if not rising:
            continue
        beyond = _whole_quotients(linear(substitute(index, {name: first})))
        left = beyond.plus(linear(extent), -1)
        low, _ = interval(from_linear(left, const(0)), {**ranges, **_extents(left, ranges)})
        if low is not None and low >= 0:
            return True
    return False


def _is(atom: Expr, name: str) -> bool:
    return getattr(atom, "name", None) == name


def _extents(form: Linear, known: dict[str, Range]) -> dict[str, Range]:
    """Extents of tensors are not negative."""
    names = (getattr(atom, "name", "") for atom in form.terms if getattr(atom, "role", "") == "extent")
    return {name: (0, None) for name in names if name not in known}


def _whole_quotients(form: Linear) -> Linear:
    """A lower bound: c · d · (n // d) is at least c · (n - d + 1)."""
    found = Linear({}, form.constant)
    for atom, coefficient in form.terms.items():
        part = Linear({atom: coefficient}, 0)
        match atom:
            case Binary(op="//", left=numerator, right=Const(value=divisor)) if (
                coefficient > 0 and divisor > 0 and coefficient % int(divisor) == 0
            ):
                whole = linear(numerator).plus(Linear({}, 1 - int(divisor)), 1)
                part = whole.times(coefficient // int(divisor))
            case _:
                pass
        found = found.plus(part, 1)
    return found
