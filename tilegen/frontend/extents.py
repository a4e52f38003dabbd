"""Dynamic extents: the launch arguments that shapes are written in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilegen.diagnostics import ProgramError
from tilegen.frontend.values import ConstExtent, NamedInt, is_expr, is_number, number_to_const
from tilegen.ir.affine import substitute
from tilegen.ir.expressions import Const, Expr, Var
from tilegen.ir.types import DType, int32
from tilegen.ir.walk import subexpressions
from tilegen.language.tensors import SymbolicExtent
from tilegen.location import NOWHERE, Location

if TYPE_CHECKING:
    from tilegen.frontend.context import Context

LARGEST_EXTENT = 2**31 - 1  # indices are int32


def named_extent(context: Context, name: str, hint: str = "", dtype: DType = int32) -> Expr:
    """The extent that a user calls `name`: the integer that the caller fixed for it, else a launch argument (named
    after `hint`, where that is given)."""
    if name in context.dims:
        context.dims_used[name] = None
        return Const(context.dims[name], dtype, name=name)
    var = context.extents.get(name)
    if var is None:
        var = context.extents[name] = Var(context.names.unique(hint or name), dtype, "extent", NOWHERE)
    return var


def symbolic_extent(context: Context, expr: Expr) -> Expr:
    """An expression over T.dynamic extents, as Python built it, with the program's own variables."""
    variables = {part.name: part.dtype for part in subexpressions(expr) if isinstance(part, Var)}
    return substitute(
        expr, {name: named_extent(context, name, "", dtype) for name, dtype in variables.items()}
    )


def unbound_remedy(name: str) -> str:
    """How a name of T.const gets its value."""
    return (
        f"T.const names take their values from the shapes of arguments: declare one that has {name} alone as an "
        f"extent, or name the extent that an argument has and compute {name} from it"
    )


def resolve(context: Context, value: object) -> object:
    """The value as the walker sees it: a dynamic extent is its expression, a T.const name what it is bound to."""
    if type(value) is SymbolicExtent:
        return symbolic_extent(context, value.expr)
    if type(value) is ConstExtent and value.value is not None:
        return value.value
    return value


def extent_expression(context: Context, item: object, location: Location) -> Expr:
    """A shape item as an expression; names become dynamic extents.

    Raises:
        ProgramError: for a T.const name without a value, a number that is negative or too large, and anything else.
    """
    item = resolve(context, item)
    if isinstance(item, str):
        return named_extent(context, item)
    if isinstance(item, ConstExtent):
        raise ProgramError(
            location,
            f"{item.name} has no value yet",
            remedy=unbound_remedy(item.name),
            related=[(item.location, f"{item.name} is introduced here")],
        )
    if is_number(item):
        if int(item) != item or item < 0:
            raise ProgramError(
                location,
                f"{item} is not an extent; extents are non-negative integers",
                remedy="check the number that it comes from",
            )
        if item > LARGEST_EXTENT:
            raise ProgramError(
                location,
                f"an extent of {int(item):,} is more than a kernel's 32-bit indices reach ({LARGEST_EXTENT:,})",
                remedy="give the tensor more axes; their product may be larger",
            )
        return number_to_const(item if isinstance(item, NamedInt) else int(item), location)
    if is_expr(item):
        if item.dtype.is_float:
            raise ProgramError(
                location,
                f"an extent is an integer, not {item.dtype}",
                remedy="T.ceildiv(a, b) divides upwards",
            )
        return item
    raise ProgramError(
        location,
        f"a shape holds integers, names and dynamic extents, not {item!r}",
        remedy='name it: N = T.const("N")',
    )
