"""Parallel loops: fragments are indexed inside them only, tile operations stand outside, iterations do not race."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.diagnostics import ProgramError
from tilegen.ir.check_operations import declared
from tilegen.ir.effects import blocks_of, expressions_of, regions_read, regions_written
from tilegen.ir.expressions import Const, Expr, Load, Var
from tilegen.ir.held_names import private_names
from tilegen.ir.nodes import Buffer, If, Let, ParallelFor, Program, Stmt, Store, SyncThreads
from tilegen.ir.traversal import free_vars, substitute
from tilegen.ir.walk import subexpressions


def check_parallel(program: Program) -> None:
    """Checks every statement against the parallel loops around it.

    Raises:
        ProgramError: at the statement.
    """
    _block(program.kernel.body, (), {}, False)


def _block(
    statements: Sequence[Stmt],
    parallel: tuple[tuple[Var, Expr], ...],
    lets: dict[str, Expr],
    guarded: bool,
    private: frozenset[str] = frozenset(),
) -> None:
    for statement in statements:
        if parallel:
            _refuse_tile_operations(statement)
        else:
            _refuse_fragment_elements(statement)
        if isinstance(statement, Let) and not statement.mutable:
            lets = lets | {statement.var.name: substitute(statement.value, lets)}
        if isinstance(statement, Store) and parallel:
            if statement.buffer.scope == "local":
                _refuse_divided(statement, parallel, lets)
            elif not guarded:
                _refuse_race(statement, parallel, lets, private)
        inner, own = parallel, private
        if isinstance(statement, ParallelFor):
            own = private | private_names(statement.body)
            inner = parallel + tuple(zip(statement.vars, statement.extents, strict=True))
        for block in blocks_of(statement):
            _block(block, inner, lets, guarded or isinstance(statement, If), own)


def _refuse_tile_operations(statement: Stmt) -> None:
    if isinstance(statement, SyncThreads):
        raise ProgramError(
            statement.location,
            "T.sync_threads stands inside a T.Parallel loop, which not every thread runs alike",
            remedy="put it after the loop",
        )
    if regions_read(statement) or regions_written(statement):
        raise ProgramError(
            statement.location,
            "a tile operation stands inside a T.Parallel loop",
            remedy="T.Parallel is for single elements; move the operation out, or loop with T.serial",
        )


def _refuse_fragment_elements(statement: Stmt) -> None:
    touched: list[Buffer] = [
        part.buffer
        for expr in expressions_of(statement)
        for part in subexpressions(expr)
        if isinstance(part, Load) and part.buffer.scope == "fragment"
    ]
    if isinstance(statement, Store) and statement.buffer.scope == "fragment":
        touched.append(statement.buffer)
    if touched:
        buffer = touched[0]
        raise ProgramError(
            statement.location,
            f"an element of the fragment {buffer.name} is used outside a T.Parallel loop, where no thread is known to "
            "hold it",
            remedy=f"loop over its elements, for {', '.join('ijkl'[: buffer.rank])} in T.Parallel(…), or use "
            "T.alloc_shared",
            related=declared(buffer),
        )


def _refuse_divided(statement: Store, parallel: tuple[tuple[Var, Expr], ...], lets: dict[str, Expr]) -> None:
    """A store to each thread's own array that only the thread makes whose iteration it is."""
    used = {name for index in statement.indices for name in free_vars(substitute(index, lets))}
    for var, _ in parallel:
        if var.name in used:
            name = statement.buffer.name
            raise ProgramError(
                statement.location,
                f"each thread has {name} for itself, but the iterations over {var.name} are divided among the threads: "
                f"none would have all elements of {name}",
                remedy=f"make {name} a fragment, T.alloc_fragment, or loop over {var.name} with T.serial",
                related=declared(statement.buffer),
            )


def _refuse_race(
    statement: Store,
    parallel: tuple[tuple[Var, Expr], ...],
    lets: dict[str, Expr],
    private: frozenset[str],
) -> None:
    """A store that several iterations make to the same element with different values."""
    used = {name for index in statement.indices for name in free_vars(substitute(index, lets))}
    if used & private:
        return  # where the element lies is not judged
    value = substitute(statement.value, lets)
    reads_itself = any(
        isinstance(part, Load) and part.buffer == statement.buffer for part in subexpressions(value)
    )
    for var, extent in parallel:
        if var.name in used or (isinstance(extent, Const) and extent.value == 1):
            continue
        if var.name in free_vars(value) or reads_itself:
            raise ProgramError(
                statement.location,
                f"iterations of T.Parallel that differ in {var.name} all write the same element of "
                f"{statement.buffer.name}",
                remedy=f"reduce along {var.name} with T.reduce_sum and the like, or make its loop T.serial",
                related=declared(statement.buffer),
            )
