"""Between which values a kernel's integers stay."""

from __future__ import annotations

from tilegen.ir import build
from tilegen.ir.affine import Ranges, interval, is_always_true
from tilegen.ir.expressions import Const, Expr, Load, Var
from tilegen.ir.interval import Range
from tilegen.ir.nodes import For, Let, Persistent, Program
from tilegen.ir.per_thread import per_thread
from tilegen.ir.walk import subexpressions
from tilegen.schedule.analysis import each_statement


def counting_scalars(program: Program) -> tuple[Var, ...]:
    """The integer arguments that the grid's extents name. They count blocks, so that launchers refuse negative ones as
    they do negative extents."""
    parts = {part for extent in program.kernel.grid for part in subexpressions(extent)}
    return tuple(var for var in program.scalars if var in parts and var.dtype.is_integer)


def integer_ranges(program: Program) -> Ranges:
    """Inclusive bounds of extents, counting scalars, block indices, loop variables and names of integers, as far as
    they are known. Blocks of a cluster may lie beyond the grid, up to the end of the last cluster."""
    kernel = program.kernel
    counts = (*program.extents, *counting_scalars(program))
    known: dict[str, Range] = {var.name: (0, None) for var in counts}
    for var, extent, blocks in zip(kernel.block_vars, kernel.grid, kernel.cluster, strict=False):
        known[var.name] = _below(build.mul(build.ceildiv(extent, blocks), blocks), known)
    if (index := per_thread(kernel).index) is not None:
        known[index.name] = (0, kernel.threads - 1)
    for statement in each_statement(kernel.body):
        match statement:
            case For(var, start, stop, Const(step)) if step > 0:
                known[var.name] = (interval(start, known)[0], _below(stop, known)[1])
            case Let(var, value, mutable=False) if var.dtype.is_integer:
                known[var.name] = interval(value, known)
            case Persistent(variables, extents):
                known.update(
                    {var.name: _below(extent, known) for var, extent in zip(variables, extents, strict=True)}
                )
            case _:
                pass
    return known


def _below(extent: Expr, known: Ranges) -> Range:
    """0 and what lies below an extent."""
    _, high = interval(extent, known)
    return 0, None if high is None else high - 1


def may_begin_before(offset: Expr, known: Ranges) -> bool:
    """Whether a tile may begin before its tensor does, as far as ranges tell; places that are data are taken as they
    are: only the program can know what they may be."""
    if any(isinstance(part, Load) for part in subexpressions(offset)):
        return False
    return not is_always_true(build.binary(">=", offset, build.const(0)), known)
