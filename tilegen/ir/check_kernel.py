"""The launch, persistence, pipelines, and that the kernel has an effect."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilegen.diagnostics import ProgramError
from tilegen.ir.effects import blocks_of
from tilegen.ir.expressions import Const
from tilegen.ir.nodes import For, Let, Persistent, Program, Stmt
from tilegen.ir.walk import each_statement

MAXIMUM_THREADS = 1024
MAXIMUM_BLOCKS = 2**31 - 1
WARP = 32


def check_kernel(program: Program) -> None:
    """Checks what concerns the kernel as a whole.

    Raises:
        ProgramError: for an impossible launch, two kinds of persistence, a wrong schedule override, no effect.
    """
    _check_launch(program)
    if all(buffer.role == "input" for buffer in program.tensors):
        raise ProgramError(
            program.kernel.location,
            "the kernel writes no tensor, so that it has no effect",
            remedy="create an output with T.empty before the kernel, copy the result to it and return it",
        )
    _check_loops(program, program.kernel.body, inside_loop=False)


def _check_launch(program: Program) -> None:
    kernel = program.kernel
    threads = kernel.threads
    if threads <= 0 or threads % WARP:
        nearest = max(WARP, (threads + WARP - 1) // WARP * WARP)
        raise ProgramError(
            kernel.location,
            f"threads={threads} is not a positive multiple of {WARP}",
            remedy=f"whole warps compute together: threads={min(nearest, MAXIMUM_THREADS)}",
        )
    if threads > MAXIMUM_THREADS:
        raise ProgramError(
            kernel.location,
            f"threads={threads} is more than a block holds",
            remedy=f"a block has at most {MAXIMUM_THREADS} threads; let each compute more",
        )
    for axis, extent in enumerate(kernel.grid):
        if isinstance(extent, Const) and extent.value <= 0:
            raise ProgramError(
                kernel.location,
                f"grid axis {axis} has {extent.value} blocks",
                remedy="leave the extent open that is 0, by a name in the specs or without --dim: the launcher then "
                "starts no block where it is 0",
            )
    blocks = math.prod(int(extent.value) for extent in kernel.grid if isinstance(extent, Const))
    if blocks > MAXIMUM_BLOCKS:
        raise ProgramError(
            kernel.location,
            f"the grid has {blocks:,} blocks, more than a launch can ({MAXIMUM_BLOCKS:,})",
            remedy="let each block compute more",
        )


def _check_loops(program: Program, statements: Sequence[Stmt], inside_loop: bool) -> None:
    for statement in statements:
        match statement:
            case Persistent():
                _check_persistent(program, statement, inside_loop)
            case For(kind="pipelined"):
                _check_pipeline(statement)
                _check_no_pipeline_inside(statement)
            case _:
                pass
        nested = inside_loop or isinstance(statement, For | Persistent)
        for block in blocks_of(statement):
            _check_loops(program, block, nested)


def _check_persistent(program: Program, statement: Persistent, inside_loop: bool) -> None:
    kernel = program.kernel
    if kernel.persistent:
        raise ProgramError(
            statement.location,
            "T.Persistent stands inside a kernel with persistent=True: the tiles would be walked twice",
            remedy="remove persistent=True, or index the tiles by the block variables of T.Kernel",
            related=[(kernel.location, "the kernel is made persistent here")],
        )
    if inside_loop:
        raise ProgramError(
            statement.location,
            "T.Persistent stands inside another loop",
            remedy="make it the outermost loop of the kernel",
        )


def _check_no_pipeline_inside(loop: For) -> None:
    """A pipeline's copies run ahead of its arithmetic, which a second pipeline inside it would have to be part of."""
    for statement in each_statement(loop.body):
        if isinstance(statement, For) and statement.kind == "pipelined":
            raise ProgramError(
                statement.location,
                "T.Pipelined stands inside another T.Pipelined",
                remedy="make the outer loop T.serial: the copies of the inner one still run ahead",
                related=[(loop.location, "the outer loop")],
            )


def _check_pipeline(statement: For) -> None:
    """`order` and `stage` have one entry a statement of the body, definitions of scalars not counted."""
    count = sum(not isinstance(inner, Let) for inner in statement.body)
    for name, entries in (("order", statement.order), ("stage", statement.stage)):
        if entries is None:
            continue
        if len(entries) != count:
            raise ProgramError(
                statement.location,
                f"{name} has {len(entries)} entries, but the loop's body has {count} statements",
                remedy=f"give one integer a statement of the body (definitions of scalars are not counted): {count}",
            )
        if name == "order" and sorted(entries) != list(range(count)):
            raise ProgramError(
                statement.location,
                f"order {list(entries)} is not an order of {count} statements",
                remedy=f"use each of 0 … {count - 1} once",
            )
        if min(entries) < 0:
            raise ProgramError(
                statement.location,
                f"{name} {list(entries)} holds a negative entry",
                remedy="count from 0, one number a statement",
            )
