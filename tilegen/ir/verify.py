"""Checks of a tile program that hold for every target; run after the frontend and after every pass."""

from __future__ import annotations

from tilegen.ir.check_bounds import check_bounds
from tilegen.ir.check_divergence import check_divergence
from tilegen.ir.check_initialised import check_initialised
from tilegen.ir.check_int_range import check_int_range
from tilegen.ir.check_iterations import check_iterations
from tilegen.ir.check_kernel import check_kernel
from tilegen.ir.check_names import check_names
from tilegen.ir.check_operations import check_operations
from tilegen.ir.check_parallel import check_parallel
from tilegen.ir.nodes import Program


def verify(program: Program) -> None:
    """Checks names, the launch, shapes and dtypes of operations, parallel loops, what threads run together, bounds and
    initialisation.

    Raises:
        ProgramError: at the first statement that is wrong, with what it clashes with and a remedy.
    """
    check_names(program)
    check_kernel(program)
    check_operations(program)
    check_parallel(program)
    check_divergence(program)
    check_iterations(program)
    check_bounds(program)
    check_int_range(program)
    check_initialised(program)
