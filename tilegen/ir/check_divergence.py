"""Tiles are moved and computed by all threads together: nothing of a tile operation differs from thread to thread."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.diagnostics import ProgramError
from tilegen.ir.effects import blocks_of, expressions_of, regions_read, regions_written
from tilegen.ir.nodes import For, If, ParallelFor, Persistent, Program, Stmt, SyncThreads
from tilegen.ir.per_thread import PerThread, per_thread
from tilegen.location import Location


def check_divergence(program: Program) -> None:
    """Checks a kernel that asks for its threads' index.

    Raises:
        ProgramError: at a tile operation that only some threads would come by, or that they would see differently.
    """
    own = per_thread(program.kernel)
    if own.index is not None:
        _block(program.kernel.body, own, None)


def _block(statements: Sequence[Stmt], own: PerThread, branch: Location | None) -> None:
    """`branch` is the statement around these that threads run differently."""
    for statement in statements:
        together = isinstance(statement, ParallelFor | Persistent | SyncThreads) or bool(
            regions_read(statement) or regions_written(statement)
        )
        together = together or (isinstance(statement, For) and statement.kind == "pipelined")
        if together and branch is not None:
            raise ProgramError(
                statement.location,
                "threads run this together, but what stands around it differs from thread to thread",
                remedy="put it outside; in T.Parallel an if may ask each element",
                related=[(branch, "T.get_thread_binding decides here")],
            )
        varies = own.varies(*expressions_of(statement))
        if together and varies:
            raise ProgramError(
                statement.location,
                "threads run this together, but it depends on T.get_thread_binding",
                remedy="name elements by the variables of a T.Parallel loop, or store them one by one",
            )
        if isinstance(statement, ParallelFor):
            continue
        splits = varies and isinstance(statement, If | For)
        for block in blocks_of(statement):
            _block(block, own, statement.location if splits else branch)
