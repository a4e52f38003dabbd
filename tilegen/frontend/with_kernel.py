"""`with T.Kernel(…) as (bx, by):`."""

from __future__ import annotations

import ast

from tilegen.frontend.context import Context, KernelState
from tilegen.frontend.last_block import under_last
from tilegen.frontend.values import KernelLaunch
from tilegen.ir.expressions import Var
from tilegen.ir.types import int32

_AXES = ("bx", "by", "bz")


def kernel_block(context: Context, node: ast.With, item: ast.withitem, launch: KernelLaunch) -> None:
    """Walks the kernel's body.

    Raises:
        ProgramError: for a nested or second kernel, and for block variables that do not match the grid.
    """
    if context.kernel is not None:
        nested = context.inside_kernel
        context.fail(
            item.context_expr,
            "a kernel is opened inside a kernel" if nested else "the program opens a second kernel",
            "a kernel has one grid; add the extents to the outer T.Kernel"
            if nested
            else "write one program a kernel",
            [(context.kernel.location, "the first kernel is opened here")],
        )
    location = context.location(node)
    names = _names(context, item, len(launch.grid))
    block_vars = tuple(Var(context.names.unique(name), int32, "block", location) for name in names)
    context.kernel = KernelState(launch, block_vars, location)
    if isinstance(item.optional_vars, ast.Name) and len(block_vars) > 1:
        context.bind(item.optional_vars.id, block_vars)
    elif item.optional_vars is not None:
        for name, var in zip(names, block_vars, strict=True):
            context.bind(name, var)
    context.inside_kernel = True
    context.blocks.append([])
    context.execute(node.body)
    context.kernel.body = under_last(context.blocks.pop())
    context.inside_kernel = False


def _names(context: Context, item: ast.withitem, rank: int) -> tuple[str, ...]:
    """The names of the block variables: those bound, one a grid axis; made-up ones for a single name or none."""
    variables = item.optional_vars
    if variables is None or (isinstance(variables, ast.Name) and rank > 1):
        return _AXES[:rank]
    items = variables.elts if isinstance(variables, ast.Tuple | ast.List) else [variables]
    names = tuple(name.id for name in items if isinstance(name, ast.Name))
    if len(names) != len(items) or len(names) != rank:
        context.fail(
            variables,
            f"the grid has {rank} {'axis' if rank == 1 else 'axes'}, but {len(items)} block variables are bound",
            f"write: as ({', '.join(_AXES[:rank])})" if rank > 1 else "write: as bx",
        )
    return names
