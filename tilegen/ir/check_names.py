"""Every variable and buffer is declared once, before its use, and only variables are assigned."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.diagnostics import ProgramError
from tilegen.ir.effects import buffers_written, expressions_of, regions_read
from tilegen.ir.expressions import Expr, Load, Var
from tilegen.ir.nodes import (
    Assign,
    Buffer,
    For,
    If,
    LeaveParts,
    Let,
    ParallelFor,
    Persistent,
    Program,
    Stmt,
)
from tilegen.ir.walk import subexpressions
from tilegen.location import Location


def check_names(program: Program) -> None:
    """Checks the whole program.

    Raises:
        ProgramError: at the statement that uses an undeclared name, declares one twice or assigns a constant.
    """
    _Checker(program).run()


class _Checker:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.buffers = frozenset(program.tensors + program.kernel.allocations)
        self.taken: dict[str, Location] = {}
        self.mutable: dict[str, bool] = {}

    def run(self) -> None:
        program, kernel = self.program, self.program.kernel
        for buffer in program.tensors + kernel.allocations:
            self.declare(buffer.name, buffer.location)
        for var in program.scalars + program.extents:
            self.declare(var.name, var.location)
        launch = frozenset(var.name for var in program.scalars + program.extents)
        for buffer in program.tensors:
            for extent in buffer.shape + (buffer.strides or ()):
                self.expression(extent, launch, buffer.location)
        for extent in kernel.grid:
            self.expression(extent, launch, kernel.location)
        for var in kernel.block_vars:
            self.declare(var.name, var.location)
        self.block(kernel.body, launch | {var.name for var in kernel.block_vars})

    def declare(self, name: str, location: Location) -> None:
        if name in self.taken:
            raise ProgramError(
                location,
                f"the name {name} is declared twice in the kernel",
                remedy="call one of them differently",
                related=[(self.taken[name], "the first declaration")],
            )
        self.taken[name] = location

    def block(self, statements: Sequence[Stmt], known: frozenset[str]) -> None:
        for statement in statements:
            for expr in expressions_of(statement):
                self.expression(expr, known, statement.location)
            for region in regions_read(statement):
                self.buffer(region.buffer, statement.location)
            for buffer in buffers_written(statement):
                self.buffer(buffer, statement.location)
            match statement:
                case Let(var=var, mutable=mutable):
                    self.declare(var.name, statement.location)
                    self.mutable[var.name] = mutable
                    known = known | {var.name}
                case LeaveParts(last=last):
                    self.declare(last.name, statement.location)
                    known = known | {last.name}
                case Assign(var=var):
                    self.assign(var, known, statement.location)
                case If(then=then, otherwise=otherwise):
                    self.block(then, known)
                    self.block(otherwise, known)
                case For(var=var, body=body):
                    self.inside((var,), body, known, statement.location)
                case ParallelFor(vars=variables, body=body) | Persistent(vars=variables, body=body):
                    self.inside(variables, body, known, statement.location)
                case _:
                    pass

    def inside(
        self, variables: tuple[Var, ...], body: Sequence[Stmt], known: frozenset[str], location: Location
    ) -> None:
        for var in variables:
            self.declare(var.name, location)
        self.block(body, known | {var.name for var in variables})

    def assign(self, var: Var, known: frozenset[str], location: Location) -> None:
        if var.name not in known:
            raise ProgramError(
                location,
                f"{var.name} is assigned before it is declared",
                remedy="declare it above, where every use can see it",
            )
        if not self.mutable.get(var.name, False):
            raise ProgramError(
                location,
                f"{var.name} cannot be assigned again",
                remedy=f"declare it as {var.name} = T.alloc_var(dtype)",
                related=[(self.taken[var.name], f"{var.name} is declared here")],
            )

    def expression(self, expr: Expr, known: frozenset[str], location: Location) -> None:
        for part in subexpressions(expr):
            match part:
                case Var(name=name, role=role) if name not in known and role != "thread":
                    raise ProgramError(
                        location,
                        f"{name} is used before it is declared",
                        remedy="declare it above, where every use can see it",
                    )
                case Load(buffer=buffer):
                    self.buffer(buffer, location)
                case _:
                    pass

    def buffer(self, buffer: Buffer, location: Location) -> None:
        if buffer not in self.buffers:
            raise ProgramError(
                location,
                f"the buffer {buffer.name} is used, but not declared by the program",
                remedy="allocate it in the kernel, or make it an argument",
            )
