"""Loads in scalar expressions that every thread evaluates alike: conditions, bounds, named values."""

from __future__ import annotations

from collections.abc import Callable

from tilegen.diagnostics import ProgramError
from tilegen.ir.expressions import Load
from tilegen.lower.vocabulary import shared_tiles
from tilegen.lower.vocabulary.addresses import global_element, shared_element_at
from tilegen.lower.vocabulary.bounds import kernel_ranges, tensor_conditions
from tilegen.lower.vocabulary.context import Context
from tilegen.lower.vocabulary.scalar import scalar, zero
from tilegen.model import build as c
from tilegen.model.expressions import CExpr, Ternary


def uniform_load(context: Context) -> Callable[[Load], CExpr]:
    """Reads one element of memory, 0 outside of a tensor, or of a fragment of which every thread holds all there is.

    Raises:
        ProgramError: for an element that only some threads hold.
    """

    def load(element: Load) -> CExpr:
        buffer = element.buffer
        indices = [scalar(context, index, load) for index in element.indices]
        match buffer.scope:
            case "global":
                found = global_element(context, buffer, indices)
                inside = tensor_conditions(context, element.indices, buffer.shape, kernel_ranges(context))
                guard = c.conjunction([scalar(context, condition, load) for condition in inside])
                return found if guard is None else Ternary(guard, found, zero(context, buffer.dtype))
            case "local":
                return c.index(buffer.name, *indices)
            case "shared":
                layout = context.decisions.shared[buffer.name]
                extents = shared_tiles.extent_constants(context, buffer)
                return shared_element_at(context, buffer.name, layout, extents, indices)
            case _:
                fragment = context.decisions.fragments[buffer.name]
                if fragment.register_count == 1 and all(mode.replicates for mode in fragment.threads):
                    return c.index(buffer.name, *(0 for _ in fragment.register_shape))
                raise ProgramError(
                    element.location,
                    f"an element of {buffer.name} lies in the registers of some threads, but all of them need it here",
                    remedy=f"copy {buffer.name} to shared memory, and read it there",
                )

    return load
