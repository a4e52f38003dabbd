"""Masks that most iterations do not need: a uniform test skips them where they change nothing.

`S[i, n] = S[i, n] if predicate else value` is the identity where the predicate holds for the whole tile. With an affine
predicate that is a test of the block's and the loop's variables alone: the predicate at the corner of the tile where it
is tightest. Where even that always holds the statement goes; elsewhere a branch that all threads take alike goes
around it, so that only the iterations that cross the mask's border pay for it.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.affine import Ranges, interval, is_always_true, linear, simplify, substitute
from tilegen.ir.build import binary, const, sub
from tilegen.ir.expressions import Binary, Const, Expr, Load, Select, Var
from tilegen.ir.nodes import For, If, Let, ParallelFor, Persistent, Program, Stmt, Store
from tilegen.ir.traversal import free_vars

_REVERSED = {"<=": ">", "<": ">=", ">=": "<", ">": "<="}


def guard_masks(program: Program) -> Program:
    """The program with its masks guarded or gone."""
    kernel = program.kernel
    ranges: dict[str, tuple[int | None, int | None]] = {var.name: (0, None) for var in program.extents}
    for var, extent in zip(kernel.block_vars, kernel.grid, strict=False):
        _, high = interval(extent, ranges)
        ranges[var.name] = (0, None if high is None else high - 1)
    body = _block(kernel.body, ranges)
    return replace(program, kernel=replace(kernel, body=body)) if body != kernel.body else program


def _block(statements: tuple[Stmt, ...], ranges: Ranges) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for statement in statements:
        match statement:
            case Let(var, value, mutable=False) if var.dtype.is_integer:
                ranges = {**ranges, var.name: interval(value, ranges)}
                out.append(statement)
            case ParallelFor():
                guarded = _guarded(statement, ranges)
                out += [guarded] if guarded is not None else []
            case For(var, start, stop):
                low, _ = interval(start, ranges)
                _, high = interval(stop, ranges)
                inner = {**ranges, var.name: (low, None if high is None else high - 1)}
                body = _block(statement.body, inner)
                out.append(statement if body == statement.body else replace(statement, body=body))
            case Persistent():
                body = _block(statement.body, ranges)
                out.append(statement if body == statement.body else replace(statement, body=body))
            case _:
                out.append(statement)
    return tuple(out)


def _guarded(loop: ParallelFor, ranges: Ranges) -> Stmt | None:
    """The loop, the loop behind its uniform test, or None where the mask never applies."""
    predicate = _mask(loop)
    if predicate is None:
        return loop
    extents = {
        var.name: extent
        for var, extent in zip(loop.vars, loop.extents, strict=True)
        if isinstance(extent, Const)
    }
    if len(extents) != len(loop.vars):
        return loop
    needed: list[Binary] = []
    for condition in _conjuncts(predicate):
        corner = _tightest(condition, extents)
        if corner is None:
            return loop
        if not is_always_true(corner, ranges):
            needed.append(corner)
    if not needed:
        return None
    test: Expr | None = None
    for corner in needed:
        crossing = binary(_REVERSED[corner.op], corner.left, corner.right)  # type: ignore[arg-type]
        test = crossing if test is None else binary("or", test, crossing)
    assert test is not None
    return If(test, (loop,), (), loop.location)


def _mask(loop: ParallelFor) -> Expr | None:
    """The predicate under which the loop's only store stores what is there already."""
    *lets, last = loop.body
    if not isinstance(last, Store) or not all(isinstance(let, Let) and not let.mutable for let in lets):
        return None
    match last.value:
        case Select(condition=condition, then=Load(buffer=buffer, indices=indices)) if (
            buffer == last.buffer and indices == last.indices
        ):
            for let in reversed(lets):
                assert isinstance(let, Let)
                condition = substitute(condition, {let.var.name: let.value})
            return condition
        case _:
            return None


def _conjuncts(predicate: Expr) -> list[Expr]:
    """The conditions that must all hold; a comparison with a minimum is two of them."""
    match predicate:
        case Binary(op="and", left=left, right=right):
            return [*_conjuncts(left), *_conjuncts(right)]
        case Binary(op="<=" | "<", left=left, right=Binary(op="min", left=first, right=second)):
            return [
                *_conjuncts(binary(predicate.op, left, first)),
                *_conjuncts(binary(predicate.op, left, second)),
            ]
        case Binary(op=">=" | ">", left=left, right=Binary(op="max", left=first, right=second)):
            return [
                *_conjuncts(binary(predicate.op, left, first)),
                *_conjuncts(binary(predicate.op, left, second)),
            ]
        case _:
            return [predicate]


def _tightest(condition: Expr, extents: dict[str, Const]) -> Binary | None:
    """The condition at the corner of the tile where it is hardest to meet; None where it is not affine there."""
    if (
        not isinstance(condition, Binary)
        or condition.op not in _REVERSED
        or not condition.left.dtype.is_integer
    ):
        return None
    upward = condition.op in ("<=", "<")
    slack = sub(condition.right, condition.left) if upward else sub(condition.left, condition.right)
    form = linear(slack)
    corner: dict[str, Expr] = {}
    for atom, coefficient in form.terms.items():
        touched = [name for name in free_vars(atom) if name in extents]
        if not touched:
            continue
        if not isinstance(atom, Var):
            return None
        corner[touched[0]] = const(0) if coefficient > 0 else _last(extents[touched[0]])
    left, right = substitute(condition.left, corner), substitute(condition.right, corner)
    result = binary(condition.op, simplify(left, {}), simplify(right, {}))
    if any(name in extents for name in free_vars(result)):
        return None  # what stands on both sides: it has no corner, and no name outside of the loop
    if isinstance(result, Const):
        return Binary("<=", const(0), const(0 if result.value else -1), result.dtype)
    return result if isinstance(result, Binary) else None


def _last(extent: Const) -> Expr:
    """extent - 1, under the extent's name where it has one."""
    if not extent.name:
        return const(int(extent.value) - 1)
    return Binary("-", extent, const(1), extent.dtype)
