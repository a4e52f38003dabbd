"""Every statement that moves or computes elements one by one, seen as a parallel loop over a box.

Copies, fills and atomic tiles are loops too: one partition rule and one lowering serve them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from tilegen.diagnostics import ProgramError
from tilegen.ir import build
from tilegen.ir.affine import substitute
from tilegen.ir.expressions import Binary, Bitcast, Call, Cast, Const, Expr, Load, Select, Unary, Var
from tilegen.ir.fixing import fixing_remedy
from tilegen.ir.nodes import (
    Assign,
    AtomicElement,
    AtomicTile,
    Buffer,
    Copy,
    Fill,
    For,
    If,
    Let,
    ParallelFor,
    Region,
    Stmt,
    Store,
)
from tilegen.ir.rewrite import transform
from tilegen.ir.traversal import children

AccessKind = Literal["load", "store", "atomic"]
ElementLoop = ParallelFor | Copy | Fill | AtomicTile
_AXIS_NAMES = {1: ("%i",), 2: ("%row", "%column")}


@dataclass(frozen=True, slots=True)
class Access:
    """An element access inside a loop; immutable `let`s of the loop's body are substituted in `indices`."""

    kind: AccessKind
    buffer: Buffer
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A parallel loop over `extents`. Variables of loops that the user did not write start with %, so that they are no
    name of the program's."""

    node: ElementLoop
    vars: tuple[Var, ...]
    extents: tuple[int, ...]
    body: tuple[Stmt, ...]
    accesses: tuple[Access, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(var.name for var in self.vars)


def as_loop(statement: Stmt) -> Loop | None:
    """The loop that a statement is; None for statements that are no element-wise loops.

    Raises:
        ProgramError: for a parallel loop whose extent is not constant.
    """
    match statement:
        case ParallelFor(variables, extents, body):
            sizes = []
            for var, extent in zip(variables, extents, strict=True):
                if not isinstance(extent, Const):
                    raise ProgramError(
                        statement.location,
                        f"the extent of the parallel loop over {var.name} is not known when the kernel is generated",
                        remedy="loop over a constant block and guard the body with an if"
                        + (f"; or {fixing}" if (fixing := fixing_remedy(*extents)) else ""),
                    )
                sizes.append(int(extent.value))
            return _loop(statement, variables, tuple(sizes), _without_index_names(body))
        case Copy(source, target):
            variables = _axes(len(target.tile))
            value = build.cast(Load(source.buffer, _indices(source, variables)), target.buffer.dtype)
            body = (Store(target.buffer, _indices(target, variables), value, statement.location),)
            return _loop(statement, variables, target.tile, body)
        case Fill(target, value):
            variables = _axes(len(target.tile))
            filled = build.cast(value, target.buffer.dtype)
            body = (Store(target.buffer, _indices(target, variables), filled, statement.location),)
            return _loop(statement, variables, target.tile, body)
        case AtomicTile(op, source, target):
            variables = _axes(len(target.tile))
            value = build.cast(Load(source.buffer, _indices(source, variables)), target.buffer.dtype)
            element = AtomicElement(op, target.buffer, _indices(target, variables), value, statement.location)
            return _loop(statement, variables, target.tile, (element,))
        case _:
            return None


def _without_index_names(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body without the names that only say where elements lie: in indices their values stand in their place."""
    lets = [statement for statement in body if isinstance(statement, Let) and not statement.mutable]
    if not lets:
        return body
    others = tuple(s for s in body if not isinstance(s, Let) or s.mutable)
    used = dict.fromkeys(_names_beside_indices(others))
    for let in reversed(lets):
        if let.var.name in used:
            used.update(dict.fromkeys(_names_beside_indices(let)))
    inlined: dict[str, Expr] = {}
    for let in lets:
        if let.var.name not in used:
            inlined[let.var.name] = substitute(let.value, inlined)

    def placed(node: Any) -> Any:
        if isinstance(node, Load | Store | AtomicElement):
            return replace(node, indices=tuple(substitute(index, inlined) for index in node.indices))
        return node

    kept = tuple(s for s in body if not (isinstance(s, Let) and s.var.name in inlined))
    return transform(kept, placed) if inlined else body


def _names_beside_indices(node: object) -> Iterator[str]:
    """The variables below a node that do not stand in indices of elements."""
    match node:
        case Var(name):
            yield name
        case Load():
            return
        case Store(value=value) | AtomicElement(value=value) | Let(value=value) | Assign(value=value):
            yield from _names_beside_indices(value)
        case tuple():
            for item in node:
                yield from _names_beside_indices(item)
        case If(condition, then, otherwise):
            yield from _names_beside_indices((condition, then, otherwise))
        case For(_, start, stop, step, _, inner):
            yield from _names_beside_indices((start, stop, step, inner))
        case Unary() | Binary() | Select() | Cast() | Bitcast() | Call():
            yield from _names_beside_indices(children(node))
        case _:
            return


def _axes(rank: int) -> tuple[Var, ...]:
    names = _AXIS_NAMES.get(rank) or tuple(f"%i{axis}" for axis in range(rank))
    return tuple(Var(name, role="parallel") for name in names)


def _indices(region: Region, variables: tuple[Var, ...]) -> tuple[Expr, ...]:
    """Buffer indices of a tile's element; dropped axes keep their offset."""
    walking = dict(zip(region.kept, variables, strict=True))
    return tuple(
        build.add(offset, walking[axis]) if axis in walking else offset
        for axis, offset in enumerate(region.offsets)
    )


def _loop(
    node: ElementLoop, variables: tuple[Var, ...], extents: tuple[int, ...], body: tuple[Stmt, ...]
) -> Loop:
    if not variables:  # a single element
        variables, extents = _axes(1), (1,)
    return Loop(node, variables, extents, body, tuple(_accesses(body, {})))


def _accesses(body: tuple[Stmt, ...], lets: dict[str, Expr]) -> Iterator[Access]:
    for statement in body:
        match statement:
            case Store(buffer, indices, value):
                yield from _loads((value, *indices), lets)
                yield Access("store", buffer, _through(indices, lets))
            case AtomicElement(_, buffer, indices, value):
                yield from _loads((value, *indices), lets)
                yield Access("atomic", buffer, _through(indices, lets))
            case Let(var, value, mutable):
                yield from _loads((value,), lets)
                if not mutable:
                    lets[var.name] = substitute(value, lets)
            case Assign(_, value):
                yield from _loads((value,), lets)
            case If(condition, then, otherwise):
                yield from _loads((condition,), lets)
                yield from _accesses(then, dict(lets))
                yield from _accesses(otherwise, dict(lets))
            case For(_, start, stop, step, _, inner):
                yield from _loads((start, stop, step), lets)
                yield from _accesses(inner, dict(lets))
            case _:
                raise ProgramError(
                    statement.location,
                    f"a parallel loop computes element by element: {type(statement).__name__} is a whole tile's work",
                    remedy="move the statement out of the T.Parallel loop",
                )


def _through(indices: tuple[Expr, ...], lets: dict[str, Expr]) -> tuple[Expr, ...]:
    return tuple(substitute(index, lets) for index in indices)


def _loads(exprs: tuple[Expr, ...], lets: dict[str, Expr]) -> Iterator[Access]:
    for expr in exprs:
        for load in each_load(expr):
            yield Access("load", load.buffer, _through(load.indices, lets))


def each_load(expr: Expr) -> Iterator[Load]:
    """The loads below an expression, inner ones first."""
    match expr:
        case Const() | Var():
            return
        case Unary() | Cast() | Bitcast():
            yield from each_load(expr.operand)
        case Binary():
            yield from each_load(expr.left)
            yield from each_load(expr.right)
        case Select():
            for part in (expr.condition, expr.then, expr.otherwise):
                yield from each_load(part)
        case Call():
            for argument in expr.arguments:
                yield from each_load(argument)
        case Load():
            for index in expr.indices:
                yield from each_load(index)
            yield expr
