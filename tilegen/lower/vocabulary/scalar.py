"""Scalar expressions of the program under the names of the kernel being lowered."""

from __future__ import annotations

from collections.abc import Callable

from tilegen.ir.expressions import Const, Expr, Load
from tilegen.ir.nodes import Buffer
from tilegen.ir.types import DType, float32, int32
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.translate import Environment, translate
from tilegen.model import build as c
from tilegen.model.dialect import Dialect, dialect_of
from tilegen.model.expressions import CExpr, Literal, StaticCast
from tilegen.schedule.ranges import counting_scalars


def dialect(context: Context) -> Dialect:
    """The language of the target."""
    return dialect_of(context.target.language)


def scalar(context: Context, expr: Expr, load: Callable[[Load], CExpr] | None = None) -> CExpr:
    """The expression with variables, constants and loads called as the text calls them."""

    def constant(value: Const) -> CExpr | None:
        if value.dtype == float32 and (whole := context.whole_number(value)) is not None:
            return StaticCast("float", whole)
        named = bool(value.name or value.parts) and value.dtype in (int32, float32)  # as the constants are
        return context.literal(value) if named else None

    given = {"load": load} if load is not None else {}
    environment = Environment(
        variables=context.environment, constant=constant, ranges=ranges(context), **given
    )
    return translate(expr, environment, dialect(context))


def zero(context: Context, dtype: DType) -> Literal:
    """0 of a type."""
    if dtype.kind == "bool":
        return Literal(False, "bool")
    return Literal(0.0 if dtype.is_float else 0, dialect(context).type_name(dtype))


def ranges(context: Context) -> dict[str, tuple[int | None, int | None]]:
    """What is known of the kernel's integers: extents, what counts blocks, and block indices are never negative."""
    program = context.program
    counts = (*program.extents, *counting_scalars(program))
    known: dict[str, tuple[int | None, int | None]] = {var.name: (0, None) for var in counts}
    for var, extent in zip(program.kernel.block_vars, program.kernel.grid, strict=False):
        # A cluster may reach beyond the grid.
        last = int(extent.value) - 1 if isinstance(extent, Const) else None
        known[var.name] = (0, last if context.plan.cluster_size == 1 else None)
    known.update(context.ranges)
    return known


def extent_expression(context: Context, expr: Expr, named: bool = True) -> CExpr:
    """An extent of a tensor or of the grid; `named` allows the constants of the configuration."""
    if named:
        return scalar(context, expr)
    return translate(expr, Environment(ranges=ranges(context)), dialect(context))


def row_pitch(context: Context, buffer: Buffer, axis: int, named: bool = True) -> CExpr:
    """Elements from row to row along an axis; `named` allows the constants of the configuration."""
    if buffer.strides is not None:
        return extent_expression(context, buffer.strides[axis], named)
    pitch: CExpr = Literal(1)
    for extent in buffer.shape[axis + 1 :]:
        pitch = c.mul(pitch, extent_expression(context, extent, named))
    return pitch
