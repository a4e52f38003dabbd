"""Writes named positions out where pipelined loops copy from them: copies that run ahead need them for an iteration
that is not the one around them."""

from __future__ import annotations

from dataclasses import replace

from tilegen.ir.effects import expressions_of
from tilegen.ir.expressions import Expr, Load
from tilegen.ir.nodes import Copy, For, If, Let, Persistent, Program, Region, Stmt
from tilegen.ir.traversal import free_vars, substitute
from tilegen.ir.walk import each_statement, subexpressions


def inline_positions(program: Program) -> Program:
    """The program in which offsets of copies in pipelined loops name no scalar of the loop's body, unless it is
    assigned again or read from memory; scalars that nothing else uses vanish."""
    kernel = program.kernel
    body = _block(kernel.body)
    if all(new is old for new, old in zip(body, kernel.body, strict=True)):
        return program
    return replace(program, kernel=replace(kernel, body=body))


def _block(statements: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return tuple(_statement(statement) for statement in statements)


def _statement(statement: Stmt) -> Stmt:
    match statement:
        case For() if statement.kind == "pipelined":
            body = _without_unused(statement.body, _inlined(statement.body, {}))
            return statement if body is statement.body else replace(statement, body=body)
        case For() | Persistent():
            inner = _block(statement.body)
            changed = any(new is not old for new, old in zip(inner, statement.body, strict=True))
            return replace(statement, body=inner) if changed else statement
        case If(then=then, otherwise=otherwise):
            parts = _block(then), _block(otherwise)
            changed = any(
                new is not old
                for part, known in zip(parts, (then, otherwise), strict=True)
                for new, old in zip(part, known, strict=True)
            )
            return replace(statement, then=parts[0], otherwise=parts[1]) if changed else statement
        case _:
            return statement


def _inlined(statements: tuple[Stmt, ...], lets: dict[str, Expr]) -> tuple[Stmt, ...]:
    """The statements with the offsets of copies written out; `lets` are the scalars in reach."""
    out: list[Stmt] = []
    for statement in statements:
        match statement:
            case Let(var, value, mutable) if not mutable and value.dtype.is_integer:
                written = substitute(value, lets)
                if not any(isinstance(part, Load) for part in subexpressions(written)):
                    lets[var.name] = written
                out.append(statement)
            case Copy(source, target):
                out.append(_copy(statement, source, target, lets))
            case If(then=then, otherwise=otherwise):
                parts = _inlined(then, dict(lets)), _inlined(otherwise, dict(lets))
                same = parts[0] is then and parts[1] is otherwise
                out.append(statement if same else replace(statement, then=parts[0], otherwise=parts[1]))
            case For(body=body):
                inner = _inlined(body, dict(lets))
                out.append(statement if inner is body else replace(statement, body=inner))
            case _:
                out.append(statement)
    if all(new is old for new, old in zip(out, statements, strict=True)):
        return statements
    return tuple(out)


def _copy(copy: Copy, source: Region, target: Region, lets: dict[str, Expr]) -> Copy:
    regions = [
        replace(region, offsets=tuple(substitute(offset, lets) for offset in region.offsets))
        for region in (source, target)
    ]
    if [region.offsets for region in regions] == [source.offsets, target.offsets]:
        return copy
    return replace(copy, source=regions[0], target=regions[1])


def _without_unused(before: tuple[Stmt, ...], after: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The rewritten body without the scalars that only those offsets used."""
    if after is before:
        return before
    used = {
        name
        for statement in each_statement(after)
        for expr in expressions_of(statement)
        for name in free_vars(expr)
    }
    kept = tuple(s for s in after if not isinstance(s, Let) or s.mutable or s.var.name in used)
    return kept if len(kept) == len(after) else _without_unused(after, kept)
