"""Counts what a tile program does over its whole grid: operations of the matrix units, element-wise operations, bytes.

Loop bounds that depend on block indices are summed over the grid; ones that depend on an outer loop's variable take
its mean value, which is exact for affine bounds. Conditions count as true: the counts are upper bounds there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, assert_never

import numpy

from tilegen.ir.expressions import Binary, Bitcast, Call, Cast, Const, Expr, Load, Select, Unary, Var
from tilegen.ir.nodes import (
    AddPartials,
    AddParts,
    Assign,
    AtomicElement,
    AtomicTile,
    Copy,
    CustomOperation,
    Fill,
    For,
    Gemm,
    If,
    LeaveParts,
    Let,
    ParallelFor,
    Persistent,
    Program,
    Reduce,
    Region,
    Stmt,
    Store,
    SyncThreads,
)
from tilegen.ir.types import DType
from tilegen.ir.walk import subexpressions

Values = dict[str, Any]  # numbers, or arrays with one number a block
_MAX_BLOCKS = 1 << 22


@dataclass(slots=True)
class Work:
    """Counts over the whole grid.

    `matrix` has the matrix units' operations (a multiply-add is two) by the element type of the operands, `elements`
    the element-wise operations, `tile_bytes` what tiles move from and to global memory, re-reads included, and
    `least_bytes` what any program must move: every tensor once.
    """

    matrix: dict[str, float] = field(default_factory=dict)
    elements: float = 0.0
    tile_bytes: float = 0.0
    least_bytes: float = 0.0


def open_extents(program: Program, extents: Mapping[str, int]) -> tuple[str, ...]:
    """The program's extents that `extents` does not fix."""
    return tuple(extent.name for extent in program.extents if extent.name not in extents)


def measure_work(program: Program, extents: Mapping[str, int]) -> Work:
    """The work of one launch; `extents` fixes the extents that are open in the program.

    Raises:
        KeyError: for an extent that is not fixed.
    """
    kernel = program.kernel
    values: Values = dict(extents)
    sizes = tuple(int(_value(extent, values)) for extent in kernel.grid)
    counter = _Counter({var.name: size for var, size in zip(kernel.block_vars, sizes, strict=True)})
    blocks = prod(sizes)
    if blocks <= _MAX_BLOCKS:
        positions = (
            numpy.unravel_index(numpy.arange(blocks), sizes[::-1])[::-1] if blocks else [0.0] * len(sizes)
        )
        values |= {var.name: axis for var, axis in zip(kernel.block_vars, positions, strict=True)}
        times: Any = numpy.ones(max(blocks, 1)) if blocks else numpy.zeros(1)
    else:
        values |= {var.name: (size - 1) / 2 for var, size in zip(kernel.block_vars, sizes, strict=True)}
        times = float(blocks)
    counter.block(kernel.body, values, times)
    for tensor in program.tensors:
        passes = 2 if tensor.role == "inout" else 1
        elements = prod(int(_value(extent, values)) for extent in tensor.shape)
        counter.work.least_bytes += passes * elements * tensor.dtype.bits / 8
    return counter.work


class _Counter:
    """`blocks` is the grid's extent along each block variable."""

    def __init__(self, blocks: Mapping[str, int]) -> None:
        self.work = Work()
        self.blocks = blocks
        self.lasts: dict[
            str, str
        ] = {}  # what tells of the last of several blocks, and the axis along which they lie

    def block(self, statements: tuple[Stmt, ...], values: Values, times: Any) -> None:
        for statement in statements:
            self.statement(statement, values, times)

    def statement(self, statement: Stmt, values: Values, times: Any) -> None:
        match statement:
            case Gemm():
                name = statement.a.buffer.dtype.name
                done = 2.0 * prod(statement.extents) * _total(times)
                self.work.matrix[name] = self.work.matrix.get(name, 0.0) + done
            case Copy(source, target):
                self.moved(source, times)
                self.moved(target, times)
            case AtomicTile(_, source, target):
                self.moved(source, times)
                self.moved(target, times)
                self.work.elements += prod(target.shape) * _total(times)
            case AddPartials(target, partials):
                self.work.elements += prod(partials.extents) * _total(times)
            case LeaveParts(sources, axis, last):
                self.lasts[last.name] = axis.name
                self.parts(sources, _total(times))
            case AddParts(target, axis):
                self.parts((target,), _total(times) * self.blocks[axis.name])
                self.work.elements += prod(target.shape) * _total(times) * self.blocks[axis.name]
            case Reduce(_, source):
                self.work.elements += prod(source.shape) * _total(times)
            case Store(buffer, _, value) | AtomicElement(_, buffer, _, value):
                self.element(buffer.dtype, buffer.scope == "global", value, times)
            case Let(var, value):
                self.expression(value, times)
                values[var.name] = _value(value, values, unknown=0.0)
            case Assign(_, value):
                self.expression(value, times)
            case If(Var(name), then) if name in self.lasts:
                self.block(then, values, times / self.blocks[self.lasts[name]])
            case If(condition, then, otherwise):
                self.expression(condition, times)
                self.block(then, values, times)
                self.block(otherwise, values, times)
            case For():
                self.loop(statement, values, times)
            case ParallelFor(_, extents, body) | Persistent(_, extents, body):
                self.box(statement, extents, body, values, times)
            case CustomOperation(_, reads, writes):
                for region in (*reads, *writes):
                    self.moved(region, times)
            case Fill() | SyncThreads():
                pass
            case _:
                assert_never(statement)

    def loop(self, loop: For, values: Values, times: Any) -> None:
        start, stop, step = (
            _value(bound, values, unknown=1.0) for bound in (loop.start, loop.stop, loop.step)
        )
        trips = numpy.maximum(numpy.ceil((stop - start) / step), 0)
        inner = {**values, loop.var.name: start + step * (trips - 1) / 2}
        self.block(loop.body, inner, times * trips)

    def box(
        self,
        loop: ParallelFor | Persistent,
        extents: tuple[Expr, ...],
        body: tuple[Stmt, ...],
        values: Values,
        times: Any,
    ) -> None:
        """All iterations; those of a persistent loop are shared out among the blocks instead of repeated by each."""
        sizes = [_value(extent, values, unknown=1.0) for extent in extents]
        middles = {var.name: (size - 1) / 2 for var, size in zip(loop.vars, sizes, strict=True)}
        count: Any = 1.0
        for size in sizes:
            count = count * size
        share = 1.0 / max(numpy.size(times), 1) if isinstance(loop, Persistent) else 1.0
        self.block(body, {**values, **middles}, times * count * share)

    def moved(self, region: Region, times: Any) -> None:
        if region.buffer.scope == "global":
            self.work.tile_bytes += prod(region.shape) * region.buffer.dtype.bits / 8 * _total(times)

    def parts(self, regions: tuple[Region, ...], times: float) -> None:
        """What blocks leave for each other, or take."""
        self.work.tile_bytes += sum(prod(r.shape) * r.buffer.dtype.bits / 8 for r in regions) * times

    def element(self, dtype: DType, is_global: bool, value: Expr, times: Any) -> None:
        if is_global:
            self.work.tile_bytes += dtype.bits / 8 * _total(times)
        self.expression(value, times)

    def expression(self, value: Expr, times: Any) -> None:
        for part in _computed(value):
            if isinstance(part, Load):
                if part.buffer.scope == "global":
                    self.work.tile_bytes += part.dtype.bits / 8 * _total(times)
            elif isinstance(part, Unary | Binary | Select | Call):
                self.work.elements += _total(times)


def _computed(value: Expr) -> list[Expr]:
    """The expression's parts without the index arithmetic of its loads."""
    skipped = {
        id(inner)
        for part in subexpressions(value)
        if isinstance(part, Load)
        for index in part.indices
        for inner in subexpressions(index)
    }
    return [part for part in subexpressions(value) if id(part) not in skipped]


def _total(times: Any) -> float:
    return float(numpy.sum(times))


def _value(expr: Expr, values: Values, unknown: float | None = None) -> Any:
    """The expression's number, or one a block; `unknown` stands in for what only the device knows.

    Raises:
        KeyError: for a variable without a value, where nothing stands in.
    """
    match expr:
        case Const(value):
            return value
        case Var(name):
            return values[name] if unknown is None or name in values else unknown
        case Unary(op, operand):
            inner = _value(operand, values, unknown)
            return -inner if op == "-" else inner
        case Binary(op, left, right):
            return _binary(op, _value(left, values, unknown), _value(right, values, unknown))
        case Select(condition, then, otherwise):
            chosen = _value(condition, values, unknown)
            return numpy.where(chosen, _value(then, values, unknown), _value(otherwise, values, unknown))
        case Cast(operand) | Bitcast(operand):
            return _value(operand, values, unknown)
        case Load() | Call():
            return 1.0 if unknown is None else unknown
        case _:
            assert_never(expr)


def _binary(op: str, left: Any, right: Any) -> Any:
    """One operator on numbers or arrays; those that no loop bound needs count as their left side."""
    functions: dict[str, Any] = {
        "+": numpy.add, "-": numpy.subtract, "*": numpy.multiply, "/": numpy.divide, "//": numpy.floor_divide,
        "%": numpy.mod, "min": numpy.minimum, "max": numpy.maximum, "<": numpy.less, "<=": numpy.less_equal,
        ">": numpy.greater, ">=": numpy.greater_equal, "==": numpy.equal, "!=": numpy.not_equal,
    }  # fmt: skip
    return functions[op](left, right) if op in functions else left
