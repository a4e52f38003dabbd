"""Sums and products of 32-bit integers that provably leave their type: in C++ the value is then undefined.

Flat places in tensors of more than 2^31 elements are the usual case. What stands under a condition is not judged.
"""

from __future__ import annotations

from tilegen.diagnostics import ProgramError
from tilegen.ir.effects import expressions_of, regions_read, regions_written
from tilegen.ir.expressions import Binary, Const, Expr
from tilegen.ir.interval import interval
from tilegen.ir.known_ranges import Known, each_evaluated, each_with_known
from tilegen.ir.nodes import AtomicElement, Program, Stmt, Store
from tilegen.ir.printer import expression_text
from tilegen.ir.traversal import substitute
from tilegen.ir.types import int32
from tilegen.location import Location

_INT_MAX = 2**31 - 1


def check_int_range(program: Program) -> None:
    """Checks what statements compute that nothing guards.

    Raises:
        ProgramError: at the statement.
    """
    for statement, known in each_with_known(program):
        if not known.guarded:
            for expr in _computed(statement):
                for part in each_evaluated(expr):
                    _check(part, statement.location, known)


def _computed(statement: Stmt) -> tuple[Expr, ...]:
    regions = (*regions_read(statement), *regions_written(statement))
    indices = statement.indices if isinstance(statement, Store | AtomicElement) else ()
    return (
        *expressions_of(statement),
        *indices,
        *(offset for region in regions for offset in region.offsets),
    )


def _check(expr: Expr, location: Location, known: Known) -> None:
    if not isinstance(expr, Binary) or expr.op not in ("+", "-", "*") or expr.dtype != int32:
        return
    value = substitute(expr, known.lets)
    if isinstance(value, Const) or not known.attains_bounds_of(value):
        return
    lowest, highest = interval(value, known.ranges)
    if highest is not None and highest > _INT_MAX:
        reached = highest
    elif lowest is not None and lowest < -_INT_MAX - 1:
        reached = lowest
    else:
        return
    raise ProgramError(
        location,
        f"{expression_text(expr)} reaches {reached:,}, which no T.int32 holds",
        remedy="convert one of its terms, such as T.cast(…, T.int64): the result is then 64 bits wide",
    )
