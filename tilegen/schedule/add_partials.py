"""Where the sums of gemms whose k is shared become whole.

Each group of warps adds its part of every tile's k to accumulators of its own, which must start from zeros. The parts
are added up once, as late as can be: behind the last statement that only adds to them (a loop, mostly), in front of the
first one that does anything else with them.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd, prod
from typing import Literal

from tilegen.diagnostics import ProgramError
from tilegen.inference.decisions import Decisions
from tilegen.inference.fragment import Fragment
from tilegen.inference.shared import row_major
from tilegen.inference.vector_access import ACCESS_BYTES
from tilegen.ir import build
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import (
    AddPartials,
    Buffer,
    Fill,
    For,
    Gemm,
    If,
    Kernel,
    Persistent,
    Program,
    Region,
    Stmt,
)
from tilegen.ir.rename import names_of
from tilegen.ir.walk import each_statement
from tilegen.location import Location
from tilegen.schedule.analysis import reads, writes

State = Literal["zero", "whole", "partial"]
"""What the accumulators of every group of warps are: zeros, the whole sums, or parts of them."""


class PartsOfOldValues(ProgramError):
    """Accumulators that would hold parts of a sum do not start from zeros. `buffer` is their name, `asked` whether the
    program says that warps share k."""

    buffer: str
    asked: bool


def add_partials(program: Program, decisions: Decisions) -> Program:
    """The program with the additions that its gemms need, and shared tiles for them.

    Raises:
        PartsOfOldValues: when accumulators that would hold parts of a sum do not start from zeros.
    """
    for buffer in dict.fromkeys(
        g.c.buffer for g, decision in decisions.gemms.items() if decision.k_parts > 1
    ):
        added = [s for s in each_statement(program.kernel.body) if isinstance(s, AddPartials)]
        mine = next((s.partials for s in added if s.target.buffer == buffer), None)
        partials = mine or _partials(buffer, program, decisions)
        decisions.shared[partials.name] = row_major(partials.extents, partials.dtype)
        decisions.conflicts[partials.name] = 0
        decisions.reasons[partials.name] = f"each thread's own part of the sums in {buffer.name}"
        if mine is None:  # else the program has been here before, under other names
            body, _ = _Placement(buffer, partials, decisions).block(program.kernel.body, "whole")
            kernel = replace(program.kernel, body=body, allocations=(*program.kernel.allocations, partials))
            program = replace(program, kernel=kernel)
    return program


def _partials(buffer: Buffer, program: Program, decisions: Decisions) -> Buffer:
    """The tile [parts of k][vectors][threads of a part][elements of a vector], in which every access of a thread lies
    beside those of its neighbours."""
    fragment = decisions.fragment(buffer)
    parts = next(d.k_parts for g, d in decisions.gemms.items() if g.c.buffer == buffer)
    width = vector_elements(fragment, buffer)
    extents = (parts, fragment.register_count // width, fragment.thread_count // parts, width)
    taken = names_of(program)
    name = f"{buffer.name}_partials"
    while name in taken:
        name += "_"
    return Buffer(name, tuple(map(build.const, extents)), buffer.dtype, "shared", location=buffer.location)


def vector_elements(fragment: Fragment, buffer: Buffer) -> int:
    """How many accumulators one access to shared memory moves."""
    return gcd(fragment.register_shape[-1], ACCESS_BYTES // buffer.dtype.bytes)


def room_of_partials(kernel: Kernel) -> list[tuple[Location, str]]:
    """What partial sums take of shared memory, as remarks beside the error that it does not suffice."""
    return [
        (
            s.location,
            f"the warps share k of this gemm, and {s.partials.name} takes {_bytes(s.partials):,} bytes",
        )
        for s in each_statement(kernel.body)
        if isinstance(s, AddPartials)
    ]


def _bytes(buffer: Buffer) -> int:
    return prod(buffer.extents) * buffer.dtype.bytes


class _Placement:
    """Follows one accumulator through the program."""

    def __init__(self, buffer: Buffer, partials: Buffer, decisions: Decisions) -> None:
        self.buffer = buffer
        self.partials = partials
        self.decisions = decisions

    def block(self, statements: tuple[Stmt, ...], state: State) -> tuple[tuple[Stmt, ...], State]:
        """The statements with the additions among them, and what the accumulators are behind them: never parts."""
        out: list[Stmt] = []
        adding: Stmt | None = None  # the last statement that left parts
        behind = 0
        for statement in statements:
            if self.touches(statement) and not self.only_adds(statement):
                if state == "partial" and adding is not None:
                    out.insert(behind, self.addition(adding))
                    state = "whole"
                statement, state = self.other(statement, state)
            elif self.touches(statement):
                if state == "whole":
                    raise self.not_cleared(statement)
                state = "partial"
            out.append(statement)
            if self.touches(statement) and state == "partial":
                adding, behind = statement, len(out)
        if state == "partial" and adding is not None:
            out.insert(behind, self.addition(adding))
            state = "whole"
        return tuple(out), state

    def other(self, statement: Stmt, state: State) -> tuple[Stmt, State]:
        """A statement that does more with whole accumulators than add parts to them, and what it leaves."""
        match statement:
            case Fill(target, Const(0)) if target.tile == self.buffer.extents:
                return statement, "zero"
            case Gemm(clear=True) if self.shares_k(statement):
                return statement, "partial"
            case For(body=body) | Persistent(body=body):
                inner, _ = self.block(body, "whole")
                return replace(statement, body=inner), "whole"
            case If(_, then, otherwise):
                first, one = self.block(then, state)
                second, two = self.block(otherwise, state)
                return replace(statement, then=first, otherwise=second), one if one == two else "whole"
            case _:
                return statement, "whole" if self.buffer in writes(statement) else state

    def touches(self, statement: Stmt) -> bool:
        return self.buffer in (*reads(statement), *writes(statement))

    def shares_k(self, statement: Stmt) -> bool:
        return (
            isinstance(statement, Gemm)
            and statement.c.buffer == self.buffer
            and self.decisions.gemms[statement].k_parts > 1
        )

    def only_adds(self, statement: Stmt) -> bool:
        """Whether a statement does nothing with the accumulators but add to them what each group has of a sum."""
        inner = [s for s in each_statement((statement,)) if not isinstance(s, For | If | Persistent)]
        return all(self.shares_k(s) and isinstance(s, Gemm) and not s.clear for s in inner if self.touches(s))

    def gemm(self, statement: Stmt) -> Gemm:
        """The last gemm of a statement that adds to the accumulators."""
        return [s for s in each_statement((statement,)) if isinstance(s, Gemm) and self.shares_k(s)][-1]

    def addition(self, behind: Stmt) -> AddPartials:
        whole = Region(self.buffer, tuple(build.const(0) for _ in self.buffer.shape), self.buffer.extents)
        loop = behind.var if isinstance(behind, For) else None
        return AddPartials(whole, self.partials, loop, self.gemm(behind).location)

    def not_cleared(self, statement: Stmt) -> PartsOfOldValues:
        gemm = self.gemm(statement)
        parts = self.decisions.gemms[gemm].k_parts
        name = self.buffer.name
        why = "" if gemm.policy == "sliced_k" else " (they cannot share the rows and columns of its tile)"
        error = PartsOfOldValues(
            gemm.location,
            f"the block's warps share k of this gemm in {parts} parts{why} and add up their sums behind it, which "
            f"would count the old values of {name} {parts} times",
            remedy=f"write T.clear({name}) before the gemm or its loop, or pass clear_accum=True, and add the old "
            "values afterwards; or take fewer threads",
            related=[(self.buffer.location, f"{name} is made here")] if self.buffer.location.line else [],
        )
        error.buffer, error.asked = name, gemm.policy == "sliced_k"
        return error
