"""Names elements of tensors that tell where tiles are loaded from: they are read once, outside the loops that they have
nothing to do with, so that loads run ahead and a producer can read them as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tilegen.ir.affine import children
from tilegen.ir.effects import buffers_written
from tilegen.ir.expressions import Binary, Const, Expr, Load, Var
from tilegen.ir.nodes import Assign, Copy, For, If, Let, Persistent, Program, Stmt
from tilegen.ir.rename import names_of
from tilegen.ir.traversal import free_vars, rebuild
from tilegen.ir.walk import each_statement, subexpressions


def name_places(program: Program) -> Program:
    """The program whose tiles are loaded from places with names, where a pipelined loop has loads to run ahead.
    Elements that the kernel writes, or finds by what it assigns again, are read where they stand."""
    body = program.kernel.body
    if not any(isinstance(s, For) and s.kind == "pipelined" and _loads(s) for s in each_statement(body)):
        return program
    changing = {s.var.name for s in each_statement(body) if isinstance(s, Assign)}
    written = {buffer.name for s in each_statement(body) for buffer in buffers_written(s)}
    named = _Places(dict.fromkeys(names_of(program)), written, changing).block(body, {})
    return replace(program, kernel=replace(program.kernel, body=named)) if named != body else program


@dataclass(slots=True)
class _Places:
    taken: dict[str, None]
    written: set[str]
    changing: set[str]

    def block(self, statements: tuple[Stmt, ...], known: Mapping[Expr, Var]) -> tuple[Stmt, ...]:
        """The statements with names for elements; `known` have one already."""
        out: list[Stmt] = []
        names = dict(known)
        for statement in statements:
            for load in self.wanted(statement):
                if load not in names:
                    indices = tuple(_named(index, names) for index in load.indices)
                    value = replace(load, indices=indices)
                    at = statement.location
                    if isinstance(statement, For):  # the line of the copy, which is quoted where it stands
                        at = replace(load.location, text="")
                    names[load] = Var(self.name(value), load.dtype, location=at)
                    out.append(Let(names[load], value, location=at))
            out.append(self.statement(statement, names))
        return tuple(out)

    def statement(self, statement: Stmt, names: Mapping[Expr, Var]) -> Stmt:
        match statement:
            case Copy(source) if _loads(statement):
                offsets = tuple(_named(offset, names) for offset in source.offsets)
                return replace(statement, source=replace(source, offsets=offsets))
            case For() | Persistent():
                return replace(statement, body=self.block(statement.body, names))
            case If(condition, then, otherwise):
                condition = _named(condition, names) if _loads(statement) else condition
                then, otherwise = self.block(then, names), self.block(otherwise, names)
                return replace(statement, condition=condition, then=then, otherwise=otherwise)
            case _:
                return statement

    def wanted(self, statement: Stmt) -> list[Load]:
        """The elements that a statement needs a name for in front of it, those that find others first."""
        match statement:
            case Copy(source) if _loads(statement):
                return self.readable(source.offsets)
            case If(condition) if _loads(statement):
                return self.readable((condition,))
            case For(body=body):
                own = {
                    statement.var.name,
                    *(s.var.name for s in each_statement(body) if isinstance(s, Let | For)),
                }
                inner = [load for one in body for load in self.wanted(one)]
                return [load for load in inner if not own.intersection(free_vars(load))]
            case _:
                return []

    def readable(self, expressions: Iterable[Expr]) -> list[Load]:
        """The elements in expressions that anyone may read at any time."""
        loads = [p for e in expressions for p in subexpressions(e) if isinstance(p, Load)]
        return [load for load in reversed(loads) if self.steady(load)]

    def steady(self, load: Load) -> bool:
        return not self.changing.intersection(free_vars(load)) and all(
            part.buffer.scope == "global" and part.buffer.name not in self.written
            for part in subexpressions(load)
            if isinstance(part, Load)
        )

    def name(self, load: Load) -> str:
        """`E_by` for `E[by]`, `P_s_1` for `P[s + 1]`."""
        parts = [part for index in load.indices for part in subexpressions(index)]
        plain = all(isinstance(p, Var | Const) or (isinstance(p, Binary) and p.op == "+") for p in parts)
        words = [p.name if isinstance(p, Var) else str(p.value) for p in parts if isinstance(p, Var | Const)]
        plain = plain and all(word.isidentifier() or word.isdigit() for word in words)  # not -1
        wanted = name = "_".join((load.buffer.name, *(words if plain else ("found",))))
        count = 1
        while name in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken[name] = None
        return name


def _loads(statement: Stmt) -> bool:
    """Whether tiles of shared memory are loaded in a statement."""
    return any(
        isinstance(s, Copy) and s.source.buffer.scope == "global" and s.target.buffer.scope == "shared"
        for s in each_statement((statement,))
    )


def _named(expression: Expr, names: Mapping[Expr, Var]) -> Expr:
    """The expression with names for the elements that have one."""
    if expression in names:
        return names[expression]
    parts = children(expression)
    replaced = tuple(_named(part, names) for part in parts)
    if all(new is old for new, old in zip(replaced, parts, strict=True)):
        return expression
    return rebuild(expression, replaced)
